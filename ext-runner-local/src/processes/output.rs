//! The bounded store of what a process has written and nobody has read yet.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use haft_api::{OutputChannel, ProcessChunk};

/// What a piece costs besides its bytes, so that a flood of single bytes is
/// bounded too.
const PIECE_OVERHEAD: usize = 64;
/// Up to this size small pieces are put together.
const JOINED_BYTES: usize = 4096;
/// Readers' positions that are remembered after their pieces are gone.
const MARKS: usize = 32;

/// Output in the order of its arrival, over both channels.
///
/// A piece gets its number when it is first handed out: until then it may still
/// be cut to a reader's measure, and once it has one it stays as it is, so that
/// a reader that asks again gets the same. Bytes that are dropped unread use up
/// one number, so that the gap shows.
#[derive(Debug)]
pub(crate) struct Output {
    /// First those that have a number, then those that have none yet.
    pieces: VecDeque<Piece>,
    numbered: usize,
    next: u64,
    /// The cost of all pieces.
    held: usize,
    limit: usize,
    /// The offset after everything that ever came.
    end: u64,
    /// The highest number that a reader has confirmed.
    confirmed: Option<u64>,
    /// Where each of the last reads stopped: its last number, the offset after it.
    marks: VecDeque<(u64, u64)>,
    in_gap: bool,
}

#[derive(Debug)]
struct Piece {
    /// `None` while it isn't numbered.
    seq: Option<u64>,
    channel: OutputChannel,
    bytes: Bytes,
    /// The offset of its first byte among all that ever came.
    start: u64,
}

impl Piece {
    fn cost(&self) -> usize {
        self.bytes.len() + PIECE_OVERHEAD
    }

    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

/// What a read takes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) chunks: Vec<ProcessChunk>,
    pub(crate) skipped_bytes: u64,
    /// Nothing that came so far is left after these.
    pub(crate) complete: bool,
}

impl Output {
    /// A store for `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            pieces: VecDeque::new(),
            numbered: 0,
            next: 0,
            held: 0,
            limit,
            end: 0,
            confirmed: None,
            marks: VecDeque::new(),
            in_gap: false,
        }
    }

    /// Makes room for so many bytes by forgetting what was confirmed. False if
    /// that isn't enough.
    pub(crate) fn make_room(&mut self, bytes: usize) -> bool {
        while !self.fits(bytes) {
            let front = self.pieces.front().and_then(|piece| piece.seq);
            match (front, self.confirmed) {
                (Some(seq), Some(confirmed)) if seq <= confirmed => self.drop_front(),
                _ => return false,
            }
        }
        true
    }

    fn fits(&self, bytes: usize) -> bool {
        self.pieces.is_empty() || self.held + bytes + PIECE_OVERHEAD <= self.limit
    }

    /// Takes bytes in, at the price of the oldest where there is no room.
    pub(crate) fn push(&mut self, channel: OutputChannel, bytes: Bytes) {
        if self.join(channel, &bytes) {
            return;
        }
        while !self.fits(bytes.len()) {
            self.drop_front();
        }
        let piece = Piece {
            seq: None,
            channel,
            start: self.end,
            bytes,
        };
        self.end = piece.end();
        self.held += piece.cost();
        self.pieces.push_back(piece);
    }

    /// Adds a few bytes to the last piece, if it still may grow.
    fn join(&mut self, channel: OutputChannel, bytes: &Bytes) -> bool {
        let Some(last) = self.pieces.back_mut() else {
            return false;
        };
        let fits =
            last.bytes.len() + bytes.len() <= JOINED_BYTES && self.held + bytes.len() <= self.limit;
        if last.seq.is_some() || last.channel != channel || !fits {
            return false;
        }
        let mut joined = match std::mem::take(&mut last.bytes).try_into_mut() {
            Ok(owned) => owned,
            Err(shared) => BytesMut::from(&*shared),
        };
        joined.extend_from_slice(bytes);
        last.bytes = joined.freeze();
        self.held += bytes.len();
        self.end += bytes.len() as u64;
        true
    }

    fn drop_front(&mut self) {
        let Some(piece) = self.pieces.pop_front() else {
            return;
        };
        self.held -= piece.cost();
        if piece.seq.is_some() {
            self.numbered -= 1;
        } else if !self.in_gap {
            self.in_gap = true;
            self.next += 1;
        }
    }

    /// Hands out what comes after a number, about `max_bytes` of it.
    pub(crate) fn take(&mut self, after: Option<u64>, max_bytes: usize) -> Taken {
        self.confirmed = self.confirmed.max(after);
        let mut taken = Taken::default();
        let mut room = max_bytes.max(1);
        let is_before = |piece: &Piece| piece.seq.is_some() && piece.seq <= after;
        let mut index = self
            .pieces
            .iter()
            .take_while(|piece| is_before(piece))
            .count();
        let expected = self.offset_after(after);
        while index < self.pieces.len() && room > 0 {
            if index == self.numbered {
                self.number(index, room);
            }
            let piece = &self.pieces[index];
            let Some(seq) = piece.seq else { break };
            if piece.bytes.len() > room && !taken.chunks.is_empty() {
                break;
            }
            if taken.chunks.is_empty() {
                taken.skipped_bytes = piece.start.saturating_sub(expected);
            }
            taken.chunks.push(ProcessChunk {
                seq,
                channel: piece.channel,
                bytes: piece.bytes.to_vec(),
            });
            room = room.saturating_sub(piece.bytes.len());
            index += 1;
        }
        taken.complete = index == self.pieces.len();
        if let Some(last) = taken.chunks.last() {
            let mark = (last.seq, self.pieces[index - 1].end());
            if self.marks.back() != Some(&mark) {
                self.marks.push_back(mark);
            }
            if self.marks.len() > MARKS {
                self.marks.pop_front();
            }
        }
        taken
    }

    /// Gives the first piece without a number one, cut to `room`.
    fn number(&mut self, index: usize, room: usize) {
        let piece = &mut self.pieces[index];
        if piece.bytes.len() > room {
            let rest = Piece {
                seq: None,
                channel: piece.channel,
                bytes: piece.bytes.split_off(room),
                start: piece.start + room as u64,
            };
            self.held += PIECE_OVERHEAD;
            self.pieces.insert(index + 1, rest);
        }
        self.pieces[index].seq = Some(self.next);
        self.next += 1;
        self.numbered += 1;
        self.in_gap = false;
    }

    /// The offset at which a reader that has everything up to a number stands.
    /// For a number nobody was given lately it is that of the nearest before.
    fn offset_after(&self, after: Option<u64>) -> u64 {
        let Some(after) = after else { return 0 };
        let held = self.pieces.iter().filter_map(|p| Some((p.seq?, p.end())));
        let known = held.chain(self.marks.iter().copied());
        known
            .filter(|&(seq, _)| seq <= after)
            .max()
            .map_or(0, |(_, offset)| offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use OutputChannel::{Stderr, Stdout};

    fn text(taken: &Taken) -> Vec<(u64, OutputChannel, String)> {
        let show = |c: &ProcessChunk| {
            let text = String::from_utf8(c.bytes.clone()).unwrap();
            (c.seq, c.channel, text)
        };
        taken.chunks.iter().map(show).collect()
    }

    fn piece(seq: u64, channel: OutputChannel, text: &str) -> (u64, OutputChannel, String) {
        (seq, channel, text.to_owned())
    }

    #[test]
    fn numbers_run_over_both_channels_and_reads_are_cut_to_measure() {
        let mut output = Output::new(4096);
        output.push(Stdout, "abcdef".into());
        output.push(Stderr, "xy".into());
        let first = output.take(None, 4);
        assert_eq!(text(&first), [piece(0, Stdout, "abcd")]);
        assert!(!first.complete);
        let second = output.take(Some(0), 100);
        assert_eq!(
            text(&second),
            [piece(1, Stdout, "ef"), piece(2, Stderr, "xy")]
        );
        assert!(second.complete);
        assert_eq!(
            output.take(Some(2), 100),
            Taken {
                complete: true,
                ..Taken::default()
            }
        );
    }

    #[test]
    fn asking_again_brings_the_same_as_long_as_there_is_room() {
        let mut output = Output::new(4096);
        output.push(Stdout, "abc".into());
        let first = output.take(None, 2);
        output.push(Stdout, "def".into());
        assert_eq!(text(&output.take(None, 2)), text(&first));
        assert_eq!(
            text(&output.take(None, 100)),
            [piece(0, Stdout, "ab"), piece(1, Stdout, "cdef")]
        );
    }

    #[test]
    fn what_is_dropped_unread_is_counted_and_leaves_a_gap_in_the_numbers() {
        let limit = 10 * (5000 + PIECE_OVERHEAD);
        let mut output = Output::new(limit);
        output.push(Stdout, "0123456789".into());
        assert_eq!(
            text(&output.take(None, 100)),
            [piece(0, Stdout, "0123456789")]
        );
        for _ in 0..30 {
            assert!(output.held <= limit);
            output.push(Stdout, vec![b'x'; 5000].into());
        }
        let after = output.take(Some(0), 1_000_000);
        assert_eq!(after.skipped_bytes, 20 * 5000);
        assert_eq!(after.chunks[0].seq, 2);
        assert_eq!(after.chunks.len(), 10);
        // From the beginning, the first piece is missing as well.
        assert_eq!(output.take(None, 1_000_000).skipped_bytes, 20 * 5000 + 10);
    }

    #[test]
    fn only_confirmed_output_makes_room_by_itself() {
        let mut output = Output::new(3 * (5000 + PIECE_OVERHEAD));
        for _ in 0..3 {
            assert!(output.make_room(5000));
            output.push(Stdout, vec![b'x'; 5000].into());
        }
        assert!(!output.make_room(5000));
        output.take(None, 5000);
        assert!(
            !output.make_room(5000),
            "handed out, but perhaps not received"
        );
        output.take(Some(0), 5000);
        assert!(output.make_room(5000));
        assert_eq!(output.take(Some(1), 5000).skipped_bytes, 0);
    }

    #[test]
    fn single_bytes_are_put_together_until_they_are_handed_out() {
        let mut output = Output::new(4096);
        for _ in 0..3000 {
            output.push(Stdout, "x".into());
        }
        output.push(Stderr, "e".into());
        output.push(Stdout, "y".into());
        let taken = output.take(None, 10_000);
        assert_eq!((taken.skipped_bytes, taken.chunks.len()), (0, 3));
        assert_eq!(taken.chunks[0].bytes.len(), 3000);
        output.push(Stdout, "z".into());
        assert_eq!(text(&output.take(Some(2), 10)), [piece(3, Stdout, "z")]);
    }
}
