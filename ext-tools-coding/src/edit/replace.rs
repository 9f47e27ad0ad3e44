//! Exact replacement that leaves everything else of a file as it is.

use memchr::memmem;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A file with replacements made.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Replaced {
    pub(super) bytes: Vec<u8>,
    /// The lines in which the old text began, from 1.
    pub(super) lines: Vec<usize>,
}

/// Why nothing was replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Problem {
    EmptyOld,
    NoChange,
    NotFound,
    Ambiguous { lines: Vec<usize> },
}

/// Replaces a text that occurs once, or (with `all`) wherever it occurs.
///
/// Line ends are no difference between `old` and the file; what is put in gets
/// the line ends of what it replaces. At the end of a file without a last line
/// end, `old` may have one: then neither gets one.
pub(super) fn replace(file: &[u8], old: &str, new: &str, all: bool) -> Result<Replaced, Problem> {
    let view = View::new(file);
    let old_lf = old.replace("\r\n", "\n");
    let mut new = new.to_owned();
    if old_lf.is_empty() {
        return Err(Problem::EmptyOld);
    }
    if old == new {
        return Err(Problem::NoChange);
    }
    let mut old = old_lf.as_bytes();
    let mut starts = view.find(old, all);
    if starts.is_empty()
        && let Some(shorter) = old.strip_suffix(b"\n")
        && !shorter.is_empty()
        && view.text.ends_with(shorter)
    {
        old = shorter;
        starts = vec![view.text.len() - old.len()];
        let length = new.strip_suffix('\n').map_or(new.len(), str::len);
        new.truncate(new[..length].strip_suffix('\r').map_or(length, str::len));
    }
    let lines: Vec<usize> = starts.iter().map(|&start| view.line(start)).collect();
    match starts.len() {
        0 => return Err(Problem::NotFound),
        1 => {}
        _ if all => {}
        _ => return Err(Problem::Ambiguous { lines }),
    }

    let mut bytes = Vec::with_capacity(file.len() + starts.len() * new.len());
    let mut done = 0;
    for start in starts {
        let (from, to) = (view.original(start), view.original(start + old.len()));
        bytes.extend_from_slice(&file[done..from]);
        bytes.extend_from_slice(&view.adapt(&new, &file[from..to]));
        done = to;
    }
    bytes.extend_from_slice(&file[done..]);
    if file.starts_with(BYTE_ORDER_MARK) && !bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.splice(..0, BYTE_ORDER_MARK.iter().copied());
    }
    if bytes == file {
        return Err(Problem::NoChange);
    }
    Ok(Replaced { bytes, lines })
}

/// A file with all line ends as `\n`, and the way back.
struct View {
    text: Vec<u8>,
    /// Where in `text` a `\r` was taken out, in order.
    removed: Vec<usize>,
    mostly_crlf: bool,
}

impl View {
    fn new(file: &[u8]) -> Self {
        let mut text = Vec::with_capacity(file.len());
        let mut removed = Vec::new();
        let mut done = 0;
        for at in memmem::find_iter(file, b"\r\n") {
            text.extend_from_slice(&file[done..at]);
            removed.push(text.len());
            done = at + 1;
        }
        text.extend_from_slice(&file[done..]);
        let ends = memchr::memchr_iter(b'\n', &text).count();
        Self {
            mostly_crlf: removed.len() * 2 > ends,
            text,
            removed,
        }
    }

    /// Where a text begins: with `all`, each time after the end of the last;
    /// otherwise also where occurrences overlap.
    fn find(&self, text: &[u8], all: bool) -> Vec<usize> {
        let finder = memmem::Finder::new(text);
        if all {
            return finder.find_iter(&self.text).collect();
        }
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(at) = self.text.get(from..).and_then(|rest| finder.find(rest)) {
            found.push(from + at);
            from += at + 1;
        }
        found
    }

    fn line(&self, at: usize) -> usize {
        memchr::memchr_iter(b'\n', &self.text[..at]).count() + 1
    }

    /// The offset in the file of an offset in the view.
    fn original(&self, at: usize) -> usize {
        at + self.removed.partition_point(|&removed| removed < at)
    }

    /// A new text with the line ends that are usual where it goes.
    fn adapt(&self, new: &str, replaced: &[u8]) -> Vec<u8> {
        let crlf = match (
            memmem::find(replaced, b"\r\n"),
            memchr::memchr(b'\n', replaced),
        ) {
            (Some(_), _) => true,
            (None, Some(_)) => false,
            (None, None) => self.mostly_crlf,
        };
        if !crlf {
            return new.as_bytes().to_vec();
        }
        new.replace("\r\n", "\n").replace('\n', "\r\n").into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_but_the_text_stays_as_it_is() {
        let check = |file: &str, old: &str, new: &str, expected: &str| {
            let replaced = replace(file.as_bytes(), old, new, false);
            let replaced = replaced.unwrap_or_else(|p| panic!("{file:?} {old:?}: {p:?}"));
            assert_eq!(
                String::from_utf8(replaced.bytes).unwrap(),
                expected,
                "{file:?} {old:?}"
            );
        };
        check("a\nb\nc\n", "b", "x", "a\nx\nc\n");
        check("a\nb\nc", "c", "x", "a\nb\nx");
        check("a\nb\n", "b\n", "", "a\n");
        // CRLF stays, whichever the model writes.
        check("a\r\nb\r\nc", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc");
        check("a\r\nb\r\nc", "a\r\nb", "x\r\ny", "x\r\ny\r\nc");
        check("a\r\nb\r\nc", "b", "x\ny", "a\r\nx\r\ny\r\nc");
        check("a\r\nb\r\n", "\nb", "", "a\r\n");
        check("a\r\nb\r\n", "b\n", "b\nc\n", "a\r\nb\r\nc\r\n");
        // Mixed line ends: each place keeps its own.
        check("a\r\nb\nc\nd\n", "b\nc", "x\ny", "a\r\nx\ny\nd\n");
        check("a\r\nb\nc\nd\n", "a\nb", "x\ny", "x\r\ny\nc\nd\n");
        // A lone carriage return is text like any other.
        check("a\rb\nc\n", "b", "x", "a\rx\nc\n");
        // No last line end, though the model thinks there is one.
        check("a\nb", "b\n", "c\n", "a\nc");
        check("a\r\nb", "a\nb\n", "a\nc\nd\n", "a\r\nc\r\nd");
        // A byte order mark.
        check("\u{feff}a\nb\n", "a\n", "x\n", "\u{feff}x\nb\n");
        check("\u{feff}a\n", "\u{feff}a", "x", "\u{feff}x\n");
    }

    #[test]
    fn bytes_that_are_not_utf8_survive() {
        let replaced = replace(b"\xff\xfe a b \xe4", "a", "x", false).unwrap();
        assert_eq!(replaced.bytes, b"\xff\xfe x b \xe4");
    }

    #[test]
    fn what_is_not_unique_is_named_by_line() {
        let check = |file: &str, old: &str, lines: &[usize]| {
            let lines = lines.to_vec();
            let outcome = replace(file.as_bytes(), old, "new", false);
            assert_eq!(outcome, Err(Problem::Ambiguous { lines }), "{file:?}");
        };
        check("x\ny\nx\n", "x", &[1, 3]);
        check("aaa", "aa", &[1, 1]);
        check("x\r\nx\r\nx", "x\n", &[1, 2]);
    }

    #[test]
    fn all_replaces_each_once() {
        let replaced = replace(b"x\r\nyx\r\nx", "x", "xx", true).unwrap();
        assert_eq!(replaced.bytes, b"xx\r\nyxx\r\nxx");
        assert_eq!(replaced.lines, [1, 2, 3]);
        assert_eq!(replace(b"aaa", "aa", "b", true).unwrap().bytes, b"ba");
    }

    #[test]
    fn what_changes_nothing_is_a_problem() {
        assert_eq!(replace(b"a", "", "b", false), Err(Problem::EmptyOld));
        assert_eq!(replace(b"a", "a", "a", false), Err(Problem::NoChange));
        assert_eq!(
            replace(b"a\r\nb", "a\nb", "a\r\nb", false),
            Err(Problem::NoChange)
        );
        assert_eq!(replace(b"a", "b", "c", true), Err(Problem::NotFound));
        assert_eq!(replace(b"", "\n", "c", false), Err(Problem::NotFound));
    }
}
