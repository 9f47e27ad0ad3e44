//! Which part of the far side's output files is which numbered piece.

use std::collections::VecDeque;

use haft_api::OutputChannel;

/// Pieces of one read.
const PER_READ: usize = 16;

/// A numbered piece: a part of one of the two files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) seq: u64,
    pub(crate) channel: OutputChannel,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl Piece {
    pub(crate) fn file(&self) -> &'static str {
        match self.channel {
            OutputChannel::Stdout => "out",
            OutputChannel::Stderr => "err",
        }
    }

    fn mark(&self) -> String {
        format!(
            "{} {} {} {}",
            self.seq,
            self.file(),
            self.offset,
            self.bytes
        )
    }
}

/// The output of one process. The bytes are on the far side.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// All that were ever handed out: the files keep their bytes.
    pieces: Vec<Piece>,
    next: u64,
    /// Where the last piece of each channel ends.
    numbered: [u64; 2],
    /// How much of each channel is known to be there.
    there: [u64; 2],
    /// What is there and not numbered, in the order it was seen.
    waiting: VecDeque<(OutputChannel, u64)>,
    /// Marks the far side hasn't got yet.
    unmarked: Vec<String>,
}

fn index(channel: OutputChannel) -> usize {
    match channel {
        OutputChannel::Stdout => 0,
        OutputChannel::Stderr => 1,
    }
}

impl Output {
    /// As another reader left it.
    pub(crate) fn from_marks(marks: &str) -> Self {
        let mut output = Self::default();
        for line in marks.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [seq, file, offset, bytes] = words[..] else {
                continue;
            };
            let (Ok(seq), Ok(offset), Ok(bytes)) = (seq.parse(), offset.parse(), bytes.parse())
            else {
                continue;
            };
            // A mark that was sent twice, around a cut.
            if seq != output.next {
                continue;
            }
            let channel = match file {
                "out" => OutputChannel::Stdout,
                _ => OutputChannel::Stderr,
            };
            output.remember(Piece {
                seq,
                channel,
                offset,
                bytes,
            });
        }
        output.there = output.numbered;
        output
    }

    fn remember(&mut self, piece: Piece) {
        self.next = piece.seq + 1;
        self.numbered[index(piece.channel)] = piece.offset + piece.bytes;
        self.pieces.push(piece);
    }

    /// Takes note of how large the files are now. True if there is more.
    pub(crate) fn grown(&mut self, sizes: [u64; 2]) -> bool {
        let mut more = false;
        for channel in [OutputChannel::Stdout, OutputChannel::Stderr] {
            let there = &mut self.there[index(channel)];
            let new = sizes[index(channel)].saturating_sub(*there);
            if new == 0 {
                continue;
            }
            *there += new;
            more = true;
            match self.waiting.back_mut() {
                Some((last, bytes)) if *last == channel => *bytes += new,
                _ => self.waiting.push_back((channel, new)),
            }
        }
        more
    }

    /// The pieces after a number, about `max_bytes` of them.
    pub(crate) fn after(&mut self, after: Option<u64>, max_bytes: usize) -> Vec<Piece> {
        let first = after.map_or(0, |after| after.saturating_add(1));
        let mut room = max_bytes.max(1) as u64;
        let mut taken: Vec<Piece> = Vec::new();
        let start = usize::try_from(first).unwrap_or(usize::MAX);
        let mut at = start.min(self.pieces.len());
        while room > 0 && taken.len() < PER_READ {
            if at == self.pieces.len() {
                let Some(piece) = self.number(room) else {
                    break;
                };
                self.unmarked.push(piece.mark());
                self.remember(piece);
            }
            let piece = self.pieces[at];
            if piece.bytes > room && !taken.is_empty() {
                break;
            }
            room = room.saturating_sub(piece.bytes);
            taken.push(piece);
            at += 1;
        }
        taken
    }

    /// A new piece out of what waits.
    fn number(&mut self, room: u64) -> Option<Piece> {
        let (channel, waiting) = self.waiting.front_mut()?;
        let (channel, bytes) = (*channel, room.min(*waiting));
        *waiting -= bytes;
        if *waiting == 0 {
            self.waiting.pop_front();
        }
        Some(Piece {
            seq: self.next,
            channel,
            offset: self.numbered[index(channel)],
            bytes,
        })
    }

    /// Whether nothing comes after this number.
    pub(crate) fn ends_with(&self, last: Option<u64>) -> bool {
        let known = self.next.checked_sub(1);
        self.waiting.is_empty() && (known.is_none() || last >= known)
    }

    /// Marks for the far side.
    pub(crate) fn take_unmarked(&mut self) -> Vec<String> {
        std::mem::take(&mut self.unmarked)
    }

    /// They didn't get there.
    pub(crate) fn put_back(&mut self, mut marks: Vec<String>) {
        marks.append(&mut self.unmarked);
        self.unmarked = marks;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use OutputChannel::{Stderr, Stdout};

    fn show(pieces: &[Piece]) -> Vec<(u64, OutputChannel, u64, u64)> {
        let show = |p: &Piece| (p.seq, p.channel, p.offset, p.bytes);
        pieces.iter().map(show).collect()
    }

    #[test]
    fn pieces_are_cut_to_measure_once_and_stay() {
        let mut output = Output::default();
        assert!(output.grown([6, 2]));
        assert!(!output.grown([6, 2]));
        assert_eq!(show(&output.after(None, 4)), [(0, Stdout, 0, 4)]);
        assert!(!output.ends_with(Some(0)));
        let rest = [(1, Stdout, 4, 2), (2, Stderr, 0, 2)];
        assert_eq!(show(&output.after(Some(0), 100)), rest);
        assert!(output.ends_with(Some(2)));
        output.grown([9, 2]);
        assert_eq!(show(&output.after(Some(0), 4)), rest);
        assert_eq!(show(&output.after(Some(2), 100)), [(3, Stdout, 6, 3)]);
    }

    #[test]
    fn another_reader_goes_on_by_the_marks() {
        let mut output = Output::default();
        output.grown([5, 3]);
        output.after(None, 4);
        let mut marks = output.take_unmarked();
        marks.push(marks[0].clone());
        let mut other = Output::from_marks(&marks.join("\n"));
        other.grown([5, 3]);
        let rest = [(1, Stdout, 4, 1), (2, Stderr, 0, 3)];
        assert_eq!(show(&other.after(Some(0), 100)), rest);
        assert_eq!(show(&other.after(None, 4)), [(0, Stdout, 0, 4)]);
    }
}
