//! Reads a stretch of a log from its end.

use std::fs::File;
use std::io;

use crate::scan::{Piece, Scanner, Span, read_full};

const FIRST_BLOCK: u64 = 64 * 1024;
const LARGEST_BLOCK: u64 = 1024 * 1024;

/// Goes through a stretch block by block, the last one first. A block begins
/// where a line does and is read forwards, so that damage looks the same from
/// both sides.
pub(crate) struct Blocks<'f> {
    file: &'f File,
    start: u64,
    /// Where the block before the ones that were read ends.
    end: u64,
    size: u64,
}

impl<'f> Blocks<'f> {
    pub(crate) fn new(file: &'f File, stretch: Span) -> Self {
        Self {
            file,
            start: stretch.start,
            end: stretch.end,
            size: FIRST_BLOCK,
        }
    }

    /// What `keep` makes of the pieces of the next block, in the file's order;
    /// `None` before the beginning.
    pub(crate) fn next<T>(
        &mut self,
        mut keep: impl FnMut(Piece<'_>) -> T,
    ) -> io::Result<Option<Vec<T>>> {
        if self.end <= self.start {
            return Ok(None);
        }
        let from = self.line_start(self.end.saturating_sub(self.size))?;
        self.size = (self.size * 2).min(LARGEST_BLOCK);
        let mut scanner = Scanner::new(self.file, from..self.end);
        self.end = from;
        let mut kept = Vec::new();
        while let Some(piece) = scanner.next()? {
            kept.push(keep(piece));
        }
        Ok(Some(kept))
    }

    /// The last place at or before `at` where a line begins.
    fn line_start(&self, at: u64) -> io::Result<u64> {
        let mut end = at.max(self.start);
        let mut buffer = vec![0; 4096];
        while end > self.start {
            let from = end.saturating_sub(buffer.len() as u64).max(self.start);
            let len = (end - from) as usize;
            let got = read_full(self.file, &mut buffer[..len], from)?;
            if let Some(found) = memchr::memrchr(b'\n', &buffer[..got]) {
                return Ok(from + found as u64 + 1);
            }
            end = from;
            if buffer.len() < LARGEST_BLOCK as usize {
                let len = buffer.len() * 2;
                buffer.resize(len, 0);
            }
        }
        Ok(self.start)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::frame::encode;

    #[test]
    fn blocks_from_the_end_hold_what_one_pass_finds() {
        let mut bytes = Vec::new();
        for seq in 0..3000 {
            let len = if seq % 500 == 7 {
                200_000
            } else {
                seq as usize % 90
            };
            encode(&mut bytes, seq, 1, "x", &format!("\"{}\"", "y".repeat(len)));
            match seq {
                100 => bytes.extend_from_slice(b"fragment"),
                200 => bytes.extend_from_slice(&[0; 100_000]),
                300 => {
                    bytes.pop();
                }
                _ => {}
            }
        }
        bytes.extend_from_slice(b"{\"s\":3000,");
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();

        let show = |piece: Piece<'_>| format!("{piece:?}");
        let mut forwards = Vec::new();
        let mut scanner = Scanner::new(&file, 0..bytes.len() as u64);
        while let Some(piece) = scanner.next().unwrap() {
            forwards.push(show(piece));
        }
        let mut backwards = Vec::new();
        let mut blocks = Blocks::new(&file, 0..bytes.len() as u64);
        let mut count = 0;
        while let Some(block) = blocks.next(show).unwrap() {
            backwards.extend(block.into_iter().rev());
            count += 1;
        }
        backwards.reverse();
        assert!(count > 3, "{count}");
        assert!(forwards == backwards);
    }
}
