//! Reads a stretch of a log, piece by piece.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use crate::frame::{Fault, Frame, MAX_LINE, START, Seal, decode_sealed, decode_unsealed, seal};
use crate::resync::resync;
use crate::sound::Sound;
use crate::survey::Survey;

const FIRST_CHUNK: usize = 16 * 1024;
const LARGEST_CHUNK: usize = 64 * 1024;

/// Where something stands in the file.
pub(crate) type Span = Range<u64>;

/// What a log consists of.
#[derive(Debug)]
pub(crate) enum Piece<'a> {
    Record {
        frame: Frame<'a>,
        /// From its first byte to after its line break, if it has one.
        span: Span,
        /// Whether it has one.
        broken: bool,
    },
    Damage(Damage),
}

/// Bytes that aren't a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) span: Span,
    pub(crate) fault: Fault,
}

/// Reads a stretch of a file that begins where a line does. Blank lines are
/// passed over.
pub(crate) struct Scanner<'f> {
    file: &'f File,
    /// Where the stretch ends.
    end: u64,
    /// What is at hand of the file, up to `filled`, and where it stands there.
    buffer: Vec<u8>,
    filled: usize,
    buffer_at: u64,
    /// The next byte in the buffer to look at.
    next: usize,
    chunk: usize,
    /// Pieces of a line that was taken apart, as ranges of the buffer.
    queue: VecDeque<(Range<usize>, Kind)>,
    survey: Survey,
}

/// What a part of a line is.
#[derive(Clone, Copy)]
enum Kind {
    /// A record whose checksum fits.
    Sealed,
    /// A record without a checksum.
    Unsealed,
    Damaged(Fault),
}

enum Line {
    /// In the buffer, without its line break; `broken` says whether it has one.
    Text {
        range: Range<usize>,
        broken: bool,
    },
    TooLong(Span),
}

impl<'f> Scanner<'f> {
    pub(crate) fn new(file: &'f File, stretch: Span) -> Self {
        Self {
            file,
            end: stretch.end,
            buffer: Vec::new(),
            filled: 0,
            buffer_at: stretch.start,
            next: 0,
            chunk: FIRST_CHUNK,
            queue: VecDeque::new(),
            survey: Survey::default(),
        }
    }

    /// The next piece, or `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Piece<'_>>> {
        if let Some(range) = self.sealed_line() {
            return Ok(Some(self.piece(range, Kind::Sealed)));
        }
        loop {
            if let Some((range, kind)) = self.queue.pop_front() {
                return Ok(Some(self.piece(range, kind)));
            }
            if let Some(span) = self.zeros()? {
                return Ok(Some(damage(span, Fault::Zeros)));
            }
            match self.line()? {
                None => return Ok(None),
                Some(Line::TooLong(span)) => return Ok(Some(damage(span, Fault::TooLong))),
                Some(Line::Text { range, broken }) => {
                    if let Some(kind) = self.take_line(&range, broken) {
                        return Ok(Some(self.piece(range, kind)));
                    }
                }
            }
        }
    }

    /// Passes records that are sound, as far as they are at hand, from the one of
    /// this number on and before the other. Returns how many there were.
    pub(crate) fn pass_sound(&mut self, seq: u64, before: u64) -> io::Result<u64> {
        let most = before.saturating_sub(seq);
        let mut passed = 0;
        if !self.queue.is_empty() {
            return Ok(passed);
        }
        let mut sound = Sound::new(seq);
        while passed < most {
            let rest = self.rest();
            match memchr::memchr(b'\n', rest).filter(|len| *len < MAX_LINE) {
                Some(len) => {
                    let line = self.next..self.next + len;
                    let surveyed = self.survey.line(&self.buffer[..self.filled], &line);
                    if !sound.take(&self.buffer[line], surveyed) {
                        break;
                    }
                    self.next += len + 1;
                    passed += 1;
                }
                None if rest.len() >= MAX_LINE || !self.fill()? => break,
                None => {}
            }
        }
        Ok(passed)
    }

    /// Passes a line that is at hand whole, and a record with a checksum that
    /// fits: what nearly all lines are.
    fn sealed_line(&mut self) -> Option<Range<usize>> {
        if !self.queue.is_empty() {
            return None;
        }
        let rest = self.rest();
        let len = memchr::memchr(b'\n', rest).filter(|len| *len < MAX_LINE)?;
        if !rest.starts_with(START) || !matches!(seal(&rest[..len]), Seal::Fits) {
            return None;
        }
        let range = self.next..self.next + len;
        self.next = range.end + 1;
        Some(range)
    }

    /// Passes a line. If it is one record that is all; else its pieces are put
    /// in the queue.
    fn take_line(&mut self, line: &Range<usize>, broken: bool) -> Option<Kind> {
        let text = &self.buffer[line.clone()];
        self.next = line.end + usize::from(broken);
        let fault = match seal(text) {
            Seal::Fits => return Some(Kind::Sealed),
            Seal::Broken => Fault::Checksum,
            Seal::Absent(text) => match decode_unsealed(text) {
                Ok(_) => return Some(Kind::Unsealed),
                Err(_) if text.iter().all(u8::is_ascii_whitespace) => return None,
                Err(fault) => fault,
            },
        };
        for (range, kind) in resync(text, fault, broken) {
            let range = line.start + range.start..line.start + range.end;
            let kind = kind.map_or_else(Kind::Damaged, |()| Kind::Sealed);
            self.queue.push_back((range, kind));
        }
        None
    }

    fn piece(&self, range: Range<usize>, kind: Kind) -> Piece<'_> {
        let broken = range.end < self.next && self.buffer[range.end] == b'\n';
        let end = range.end + usize::from(broken);
        let span = self.buffer_at + range.start as u64..self.buffer_at + end as u64;
        let text = &self.buffer[range];
        let frame = match kind {
            Kind::Sealed => decode_sealed(text),
            Kind::Unsealed => decode_unsealed(text),
            Kind::Damaged(fault) => Err(fault),
        };
        match frame {
            Ok(frame) => Piece::Record {
                frame,
                span,
                broken,
            },
            Err(fault) => damage(span, fault),
        }
    }

    /// Reads more of the file. False at the end of the stretch.
    fn fill(&mut self) -> io::Result<bool> {
        let from = self.buffer_at + self.filled as u64;
        let left = usize::try_from(self.end.saturating_sub(from)).unwrap_or(usize::MAX);
        if left == 0 {
            return Ok(false);
        }
        self.survey.clear();
        if self.next > 0 {
            self.buffer.copy_within(self.next..self.filled, 0);
            self.filled -= self.next;
            self.buffer_at += self.next as u64;
            self.next = 0;
        }
        // Long lines are fetched in growing steps, so that they aren't moved
        // over and over.
        let wish = self.chunk.max(self.filled).min(left);
        self.chunk = (self.chunk * 2).min(LARGEST_CHUNK);
        let end = self.filled + wish;
        if self.buffer.len() < end {
            self.buffer.resize(end, 0);
        }
        let got = read_full(self.file, &mut self.buffer[self.filled..end], from)?;
        self.filled += got;
        if got < wish {
            // Cut off while we read.
            self.end = from + got as u64;
        }
        Ok(got > 0)
    }

    /// What is at hand and wasn't looked at.
    fn rest(&self) -> &[u8] {
        &self.buffer[self.next..self.filled]
    }

    fn at(&self) -> u64 {
        self.buffer_at + self.next as u64
    }

    /// Passes over zeros at the beginning of a line; there may be gigabytes.
    fn zeros(&mut self) -> io::Result<Option<Span>> {
        let start = self.at();
        loop {
            let zeros = self.rest().iter().take_while(|c| **c == 0).count();
            self.next += zeros;
            if self.next < self.filled || !self.fill()? {
                break;
            }
        }
        let end = self.at();
        Ok((end > start).then_some(start..end))
    }

    /// The next line, or what is left of the stretch. The buffer holds it whole
    /// unless it is too long, in which case it has been passed over.
    fn line(&mut self) -> io::Result<Option<Line>> {
        let mut searched = 0;
        loop {
            let rest = self.rest();
            if let Some(at) = memchr::memchr(b'\n', &rest[searched..]) {
                if searched + at >= MAX_LINE {
                    return self.pass_long_line().map(Some);
                }
                let range = self.next..self.next + searched + at;
                return Ok(Some(Line::Text {
                    range,
                    broken: true,
                }));
            }
            searched = rest.len();
            if searched >= MAX_LINE {
                return self.pass_long_line().map(Some);
            }
            if !self.fill()? {
                let range = self.next..self.filled;
                let broken = false;
                return Ok((searched > 0).then_some(Line::Text { range, broken }));
            }
        }
    }

    fn pass_long_line(&mut self) -> io::Result<Line> {
        let start = self.at();
        loop {
            match memchr::memchr(b'\n', self.rest()) {
                Some(at) => {
                    self.next += at + 1;
                    break;
                }
                None => {
                    self.next = self.filled;
                    if !self.fill()? {
                        break;
                    }
                }
            }
        }
        Ok(Line::TooLong(start..self.at()))
    }
}

fn damage(span: Span, fault: Fault) -> Piece<'static> {
    Piece::Damage(Damage { span, fault })
}

/// Reads until the buffer is full or the file ends.
pub(crate) fn read_full(file: &File, buffer: &mut [u8], mut at: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], at) {
            Ok(0) => break,
            Ok(got) => {
                done += got;
                at += got as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::frame::encode;

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn lines(numbers: Range<u64>, data: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        for seq in numbers {
            encode(&mut bytes, seq, 1, "x", data);
        }
        bytes
    }

    /// Numbers of records and faults, in order; the spans must cover all that
    /// isn't blank.
    fn pieces(bytes: &[u8]) -> Vec<Result<u64, Fault>> {
        let file = file(bytes);
        let mut scanner = Scanner::new(&file, 0..bytes.len() as u64);
        let (mut found, mut at) = (Vec::new(), 0);
        while let Some(piece) = scanner.next().unwrap() {
            let (span, outcome) = match piece {
                Piece::Record {
                    frame,
                    span,
                    broken,
                } => {
                    assert_eq!(broken, bytes[span.end as usize - 1] == b'\n');
                    (span, Ok(frame.seq))
                }
                Piece::Damage(damage) => (damage.span, Err(damage.fault)),
            };
            let skipped = &bytes[at..span.start as usize];
            assert!(skipped.iter().all(u8::is_ascii_whitespace), "{skipped:?}");
            at = span.end as usize;
            found.push(outcome);
        }
        found
    }

    #[test]
    fn logs_are_taken_apart() {
        let check = |parts: &[&[u8]], expected: &[Result<u64, Fault>]| {
            assert_eq!(pieces(&parts.concat()), expected);
        };
        let (one, two) = (&lines(1..2, "{}")[..], &lines(2..3, "{}")[..]);
        let no_break = &one[..one.len() - 1];
        check(&[], &[]);
        check(&[one, two], &[Ok(1), Ok(2)]);
        check(&[one, b"\n\n", two, b"\n"], &[Ok(1), Ok(2)]);
        check(&[no_break], &[Ok(1)]);
        check(&[no_break, two], &[Ok(1), Ok(2)]);
        check(&[one, b"frag", two], &[Ok(1), Err(Fault::NoRecord), Ok(2)]);
        check(
            &[one, &[0; 70_000], two],
            &[Ok(1), Err(Fault::Zeros), Ok(2)],
        );
        check(&[one, &[0; 70_000]], &[Ok(1), Err(Fault::Zeros)]);
        check(
            &[one, &[0; 9], b"\n", two],
            &[Ok(1), Err(Fault::Zeros), Ok(2)],
        );
        check(&[one, &two[..30]], &[Ok(1), Err(Fault::NoRecord)]);
    }

    #[test]
    fn long_lines_and_many_lines_cross_the_buffers_edges() {
        let big = format!("\"{}\"", "x".repeat(3 * LARGEST_CHUNK));
        let bytes = [lines(0..2000, "{\"a\":1}"), lines(2000..2003, &big)].concat();
        assert_eq!(pieces(&bytes), (0..2003).map(Ok).collect::<Vec<_>>());
    }

    #[test]
    fn a_line_over_the_limit_is_passed_over() {
        let long = vec![b'x'; MAX_LINE + 5];
        let bytes = [&lines(0..1, "1")[..], &long, b"\n", &lines(1..2, "1")].concat();
        assert_eq!(pieces(&bytes), [Ok(0), Err(Fault::TooLong), Ok(1)]);
        let longest = format!("\"{}\"", "x".repeat(MAX_LINE - 60));
        let bytes = lines(0..1, &longest);
        assert!(bytes.len() <= MAX_LINE && bytes.len() > MAX_LINE - 60);
        assert_eq!(pieces(&bytes), [Ok(0)]);
    }

    #[test]
    fn a_file_that_shrinks_under_a_reader_ends_there() {
        let bytes = lines(0..5, "1");
        let file = file(&bytes);
        let mut scanner = Scanner::new(&file, 0..bytes.len() as u64 + 1000);
        let mut count = 0;
        while scanner.next().unwrap().is_some() {
            count += 1;
        }
        assert_eq!(count, 5);
    }
}
