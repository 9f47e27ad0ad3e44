//! What can be told of many lines together for much less than of each alone.

use std::ops::Range;

use crate::frame::{BLOCK, count_opening, opening_in};

/// Where a buffer's whole lines are text, and about how many brackets they open.
#[derive(Default)]
pub(crate) struct Survey {
    /// What was looked at, as a range of the buffer.
    range: Range<usize>,
    /// The end of what is UTF-8 of it.
    text_end: usize,
    /// How many `{` and `[` there are before each block, and before the end.
    opening: Vec<usize>,
}

/// What a survey says of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Surveyed {
    /// Whether it is UTF-8. It may be where this says no.
    pub(crate) text: bool,
    /// It has at most so many `{` and `[`.
    pub(crate) opening: usize,
}

impl Survey {
    /// Forgets what is known, as the buffer is another.
    pub(crate) fn clear(&mut self) {
        self.range = 0..0;
    }

    /// Looks at a line that is at hand with its line break, and at all behind it
    /// that are.
    pub(crate) fn line(&mut self, buffer: &[u8], line: &Range<usize>) -> Surveyed {
        if line.start < self.range.start || line.end >= self.range.end {
            self.look(buffer, line.start);
        }
        let first = (line.start - self.range.start) / BLOCK;
        let last = (line.end - self.range.start).div_ceil(BLOCK);
        Surveyed {
            text: line.end <= self.text_end,
            opening: self.opening[last] - self.opening[first],
        }
    }

    // Apart, so that the loop has the registers to itself.
    #[inline(never)]
    fn look(&mut self, buffer: &[u8], start: usize) {
        let end = memchr::memrchr(b'\n', buffer).map_or(start, |at| at + 1);
        let lines = &buffer[start..end];
        self.range = start..end;
        let (blocks, rest) = lines.as_chunks::<BLOCK>();
        self.opening.resize(blocks.len() + 2, 0);
        let mut opening = 0;
        // Each byte for itself, so that they are taken many at once.
        let mut bits = [0; BLOCK];
        for (block, sum) in blocks.iter().zip(&mut self.opening[1..]) {
            for (bits, byte) in bits.iter_mut().zip(block) {
                *bits |= byte;
            }
            opening += opening_in(block);
            *sum = opening;
        }
        self.opening[blocks.len() + 1] = opening + count_opening(rest);
        let ascii = bits.is_ascii() && rest.is_ascii();
        let valid = match std::str::from_utf8(if ascii { b"" } else { lines }) {
            Ok(_) => lines.len(),
            Err(error) => error.valid_up_to(),
        };
        self.text_end = start + valid;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_has_more_brackets_than_is_said_nor_is_less_of_a_text() {
        let long = "[{".repeat(150);
        let lines = ["", "{", "x", &long, "ä[中", &"a".repeat(500), "{}", &long];
        for skipped in 0..lines.len() {
            for broken in 0..=lines.len() {
                let mut buffer = b"skipped".repeat(skipped);
                let mut ranges = Vec::new();
                for (number, line) in lines.iter().enumerate().skip(skipped) {
                    let start = buffer.len();
                    buffer.extend_from_slice(line.as_bytes());
                    if number == broken {
                        buffer.push(0xff);
                    }
                    ranges.push(start..buffer.len());
                    buffer.push(b'\n');
                }
                buffer.extend_from_slice(b"{{a line that isn't whole \xe4\xb8");
                let mut survey = Survey::default();
                for (number, range) in (skipped..).zip(ranges) {
                    let said = survey.line(&buffer, &range);
                    let line = &buffer[range];
                    let opening = |line: &[u8]| {
                        let brackets = line.iter().filter(|byte| b"[{".contains(byte));
                        brackets.count()
                    };
                    assert!(said.opening >= opening(line), "{number}: {said:?}");
                    assert!(said.opening <= opening(line) + 2 * BLOCK);
                    let before = number < broken || broken < skipped;
                    assert_eq!(said.text, before, "{number} of {skipped}.., {broken}");
                }
            }
        }
    }

    #[test]
    fn a_buffer_that_became_another_is_looked_at_again() {
        let mut survey = Survey::default();
        assert!(survey.line(b"one\n", &(0..3)).text);
        survey.clear();
        assert!(!survey.line(b"\xffne\n", &(0..3)).text);
        // As is what came to it.
        survey.clear();
        assert!(survey.line(b"one\ntw", &(0..3)).text);
        let two = survey.line(b"one\n[[\n", &(4..6));
        assert!(two.text && two.opening == 2, "{two:?}");
    }
}
