//! One page of a text file, with numbered lines.

use std::fmt::Write as _;

use haft_api::{Error, ErrorKind, Result};

use crate::paths::PAGE_BYTES;

/// Most lines of a page where none were named.
const PAGE_LINES: u64 = 2000;
/// Most bytes that are shown of one line.
const LINE_BYTES: usize = 2000;

/// Takes a file's bytes in order, cut anywhere, and keeps the lines asked for.
/// What it holds is bounded, whatever the file is like.
#[derive(Debug)]
pub(super) struct Page {
    first: u64,
    limit: u64,
    text: String,
    shown: u64,
    /// There is a line that doesn't fit any more.
    full: bool,
    /// The number of the line that is being read.
    number: u64,
    /// Its beginning, and how long it is.
    line: Vec<u8>,
    length: usize,
    not_utf8: bool,
    crlf: bool,
}

impl Page {
    /// A page from a line on, counted from 1, of so many lines at most.
    pub(super) fn new(first: Option<u64>, limit: Option<u64>) -> Self {
        Self {
            first: first.unwrap_or(1).max(1),
            limit: limit.unwrap_or(PAGE_LINES).max(1),
            text: String::new(),
            shown: 0,
            full: false,
            number: 1,
            line: Vec::new(),
            length: 0,
            not_utf8: false,
            crlf: false,
        }
    }

    /// Whether what follows would not be shown.
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            self.add(&bytes[..end]);
            self.end_line();
            bytes = &bytes[end + 1..];
        }
        self.add(bytes);
    }

    fn is_wanted(&self) -> bool {
        self.number >= self.first && !self.full
    }

    fn add(&mut self, bytes: &[u8]) {
        self.length += bytes.len();
        if self.is_wanted() {
            // One byte more than is shown, to find a carriage return there.
            let room = (LINE_BYTES + 1).saturating_sub(self.line.len());
            self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    fn end_line(&mut self) {
        if self.is_wanted() {
            let mut line = std::mem::take(&mut self.line);
            self.show(&line);
            line.clear();
            self.line = line;
        }
        self.number += 1;
        self.length = 0;
    }

    fn show(&mut self, mut line: &[u8]) {
        if self.shown == self.limit {
            self.full = true;
            return;
        }
        let mut length = self.length;
        if self.number == 1
            && let Some(rest) = line.strip_prefix(b"\xef\xbb\xbf")
        {
            line = rest;
            length -= 3;
        }
        if length == line.len()
            && let Some(rest) = line.strip_suffix(b"\r")
        {
            line = rest;
            length -= 1;
            self.crlf = true;
        }
        let mut kept = line.len().min(LINE_BYTES);
        if kept < length {
            // Not within a character.
            while kept > 0 && line.get(kept).is_some_and(|byte| byte & 0xc0 == 0x80) {
                kept -= 1;
            }
        }
        let text = String::from_utf8_lossy(&line[..kept]);
        self.not_utf8 |= matches!(text, std::borrow::Cow::Owned(_));
        let mut shown = format!("{:>6}\t{text}", self.number);
        if kept < length {
            // A `String` takes whatever is written to it.
            let _ = write!(shown, "… [{} bytes more in this line]", length - kept);
        }
        shown.push('\n');
        if self.shown > 0 && self.text.len() + shown.len() > PAGE_BYTES {
            self.full = true;
            return;
        }
        self.text.push_str(&shown);
        self.shown += 1;
    }

    /// The page as text. `whole`: all of the file was fed.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the file has fewer lines than the first
    /// one asked for.
    pub(super) fn finish(mut self, whole: bool, size: u64) -> Result<String> {
        if self.length > 0 {
            self.end_line();
        }
        let lines = self.number - 1;
        if self.shown == 0 {
            if lines == 0 {
                return Ok("[the file is empty]\n".to_owned());
            }
            let message = format!("the file has only {lines} lines");
            return Err(Error::new(ErrorKind::InvalidInput, message).context("offset", self.first));
        }
        let mut text = self.text;
        if self.full {
            let last = self.first + self.shown - 1;
            let of = match whole {
                true => format!(" of {lines}"),
                false => format!(" of a file of {size} bytes"),
            };
            let first = self.first;
            let next = last + 1;
            let _ = writeln!(text, "[lines {first}-{last}{of}; go on with offset {next}]");
        }
        if self.crlf {
            text.push_str("[lines end in CRLF]\n");
        }
        if self.not_utf8 {
            text.push_str("[not valid UTF-8: what can't be shown is replaced by \u{fffd}]\n");
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(first: u64, limit: u64, content: &[u8]) -> Result<String> {
        // Cut everywhere, the result is the same.
        let mut whole = Page::new(Some(first), Some(limit));
        whole.feed(content);
        let mut bytewise = Page::new(Some(first), Some(limit));
        content.chunks(1).for_each(|byte| bytewise.feed(byte));
        let text = whole.finish(true, content.len() as u64);
        let again = bytewise.finish(true, content.len() as u64);
        assert_eq!(text.as_ref().ok(), again.as_ref().ok());
        text
    }

    #[test]
    fn lines_are_numbered_and_paged() {
        let check = |first: u64, limit: u64, content: &str, expected: &str| {
            assert_eq!(
                page(first, limit, content.as_bytes()).unwrap(),
                expected,
                "{content:?}"
            );
        };
        check(1, 9, "a\nb", "     1\ta\n     2\tb\n");
        check(1, 9, "a\nb\n", "     1\ta\n     2\tb\n");
        check(1, 9, "a\n\n", "     1\ta\n     2\t\n");
        check(
            2,
            1,
            "a\nb\nc\n",
            "     2\tb\n[lines 2-2 of 3; go on with offset 3]\n",
        );
        check(2, 2, "a\nb\nc\n", "     2\tb\n     3\tc\n");
        check(1, 9, "", "[the file is empty]\n");
        check(1, 9, "\n", "     1\t\n");
        check(
            1,
            9,
            "\u{feff}a\r\nb\r\n",
            "     1\ta\n     2\tb\n[lines end in CRLF]\n",
        );
        let error = page(4, 9, b"a\nb\nc").unwrap_err().to_string();
        assert!(error.contains("only 3 lines"), "{error}");
    }

    #[test]
    fn long_lines_are_cut_between_characters() {
        let line = "中".repeat(2000);
        let text = page(1, 9, format!("{line}\nb").as_bytes()).unwrap();
        let shown = "中".repeat(666);
        let more = 6000 - 666 * 3;
        assert_eq!(
            text,
            format!("     1\t{shown}… [{more} bytes more in this line]\n     2\tb\n")
        );
        assert!(!text.contains('\u{fffd}') && !text.contains("UTF-8"));
        for length in LINE_BYTES - 1..LINE_BYTES + 2 {
            let text = page(1, 9, format!("{}\r\n", "x".repeat(length)).as_bytes()).unwrap();
            assert_eq!(
                text.contains("more in this line"),
                length > LINE_BYTES,
                "{length}"
            );
        }
    }

    #[test]
    fn a_page_is_bounded_in_bytes() {
        let text = page(1, 100_000, "0123456789\n".repeat(10_000).as_bytes()).unwrap();
        assert!(text.len() <= PAGE_BYTES + 100, "{}", text.len());
        assert!(text.contains(" of 10000; go on with offset "), "{text}");
    }

    #[test]
    fn what_is_not_utf8_is_shown_as_far_as_it_can_be() {
        let text = page(1, 9, b"gr\xfc\xdfe\n").unwrap();
        assert!(
            text.starts_with("     1\tgr\u{fffd}\u{fffd}e\n[not valid UTF-8"),
            "{text}"
        );
    }
}
