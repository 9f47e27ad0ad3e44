//! Searching the bytes of one file after another.

use std::fmt::Write as _;
use std::io;

use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch,
};
use haft_api::{Error, ErrorKind, Result};

use crate::paths::PAGE_BYTES;

/// Most bytes that are shown of one line.
const LINE_BYTES: usize = 500;

/// Memory for a compiled pattern, in bytes.
const PATTERN_BYTES: usize = 16 * 1024 * 1024;

/// A matcher for [`Matches::search`].
///
/// # Errors
/// [`ErrorKind::InvalidInput`] if the pattern isn't one, or is too large.
pub(super) fn compile(pattern: &str, ignore_case: bool) -> Result<RegexMatcher> {
    if pattern.is_empty() {
        return Err(Error::new(ErrorKind::InvalidInput, "the pattern is empty"));
    }
    RegexMatcherBuilder::new()
        .case_insensitive(ignore_case)
        .crlf(true)
        .size_limit(PATTERN_BYTES)
        .dfa_size_limit(PATTERN_BYTES)
        .build(pattern)
        .map_err(|e| {
            let message = format!("the pattern isn't valid: {e}");
            Error::new(ErrorKind::InvalidInput, message).context("pattern", pattern)
        })
}

/// How the search of a file ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Searched {
    Whole,
    /// It isn't text; what was found in it is forgotten.
    Binary,
    /// There is more than may be shown.
    Enough,
}

/// Collects matches as text.
pub(super) struct Matches {
    searcher: Searcher,
    text: String,
    shown: usize,
    limit: usize,
    cut: bool,
    with_context: bool,
}

impl Matches {
    pub(super) fn new(context: usize, limit: usize) -> Self {
        let searcher = SearcherBuilder::new()
            .line_terminator(LineTerminator::crlf())
            .line_number(true)
            .before_context(context)
            .after_context(context)
            .binary_detection(BinaryDetection::quit(0))
            .build();
        Self {
            searcher,
            text: String::new(),
            shown: 0,
            limit,
            cut: false,
            with_context: context > 0,
        }
    }

    /// Matching lines so far.
    pub(super) fn shown(&self) -> usize {
        self.shown
    }

    /// Whether there were more than may be shown.
    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Searches a file.
    ///
    /// # Errors
    /// If the searcher fails, which it has no reason to.
    pub(super) fn search(
        &mut self,
        matcher: &RegexMatcher,
        path: &str,
        bytes: &[u8],
    ) -> Result<Searched> {
        let mut searcher = self.searcher.clone();
        let before = (self.text.len(), self.shown);
        if self.with_context && !self.text.is_empty() {
            self.text.push_str("--\n");
        }
        let start = self.text.len();
        let mut sink = FileSink {
            matches: self,
            path,
            binary: false,
            enough: false,
        };
        let searched = searcher.search_slice(matcher, bytes, &mut sink);
        let (binary, enough) = (sink.binary, sink.enough);
        searched.map_err(|e| {
            Error::new(ErrorKind::Unexpected, "the search failed")
                .context("path", path)
                .source(e)
        })?;
        if binary || self.text.len() == start {
            self.text.truncate(before.0);
            self.shown = before.1;
        }
        if binary {
            return Ok(Searched::Binary);
        }
        self.cut |= enough;
        Ok(if enough {
            Searched::Enough
        } else {
            Searched::Whole
        })
    }

    fn add(&mut self, path: &str, mark: char, number: Option<u64>, line: &[u8]) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let mut kept = line.len().min(LINE_BYTES);
        while kept < line.len() && kept > 0 && line[kept] & 0xc0 == 0x80 {
            kept -= 1;
        }
        let text = String::from_utf8_lossy(&line[..kept]);
        let number = number.unwrap_or(0);
        // A `String` takes whatever is written to it.
        let _ = write!(self.text, "{path}{mark}{number}{mark}{text}");
        if kept < line.len() {
            let _ = write!(self.text, "… [{} bytes more]", line.len() - kept);
        }
        self.text.push('\n');
    }
}

struct FileSink<'a> {
    matches: &'a mut Matches,
    path: &'a str,
    binary: bool,
    enough: bool,
}

impl Sink for FileSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if self.matches.shown >= self.matches.limit || self.matches.text.len() >= PAGE_BYTES {
            self.enough = true;
            return Ok(false);
        }
        self.matches.shown += 1;
        self.matches
            .add(self.path, ':', found.line_number(), found.bytes());
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> io::Result<bool> {
        if self.matches.text.len() < PAGE_BYTES {
            self.matches
                .add(self.path, '-', found.line_number(), found.bytes());
        }
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.matches.text.push_str("--\n");
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.binary = true;
        Ok(false)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        self.binary |= finish.binary_byte_offset().is_some();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(
        pattern: &str,
        context: usize,
        limit: usize,
        files: &[(&str, &[u8])],
    ) -> (String, bool) {
        let matcher = compile(pattern, false).unwrap();
        let mut matches = Matches::new(context, limit);
        for (path, bytes) in files {
            matches.search(&matcher, path, bytes).unwrap();
        }
        let cut = matches.is_cut();
        (matches.into_text(), cut)
    }

    #[test]
    fn matches_are_shown_with_path_line_and_context() {
        let file: &[u8] = b"one\r\ntwo\r\nthree\r\nfour\r\nfive\r\nsix\r\ntwo again\r\n";
        let files = [("a", file), ("b", b"nothing"), ("c", b"two\nend")];
        let (text, cut) = search("two", 0, 9, &files);
        assert_eq!(
            (text.as_str(), cut),
            ("a:2:two\na:7:two again\nc:1:two\n", false)
        );
        let (text, _) = search("two", 1, 9, &files);
        assert_eq!(
            text,
            "a-1-one\na:2:two\na-3-three\n--\na-6-six\na:7:two again\n--\nc:1:two\nc-2-end\n"
        );
        let (text, cut) = search("two", 0, 2, &files);
        assert_eq!((text.as_str(), cut), ("a:2:two\na:7:two again\n", true));
        let (_, cut) = search("two", 0, 3, &files);
        assert!(!cut, "just as many as may be shown");
    }

    #[test]
    fn binary_files_leave_no_trace() {
        let files: [(&str, &[u8]); 2] = [("bin", b"two\n\0\ntwo\n"), ("a", b"two\n")];
        assert_eq!(search("two", 0, 9, &files).0, "a:1:two\n");
        assert_eq!(search("two", 2, 9, &files).0, "a:1:two\n");
    }

    #[test]
    fn long_lines_and_long_results_are_cut() {
        let line = "中".repeat(1000) + "needle\n";
        let (text, _) = search("needle", 0, 9, &[("a", line.as_bytes())]);
        assert_eq!(
            text,
            format!("a:1:{}… [2508 bytes more]\n", "中".repeat(166))
        );
        let many = "needle in a line of hay\n".repeat(100_000);
        let (text, cut) = search("needle", 0, 1_000_000, &[("a", many.as_bytes())]);
        assert!(cut && text.len() < PAGE_BYTES + 1000, "{}", text.len());
    }
}
