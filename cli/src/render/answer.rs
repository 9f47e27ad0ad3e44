//! The answer on standard output, whole even where pieces of it were missed.

use std::io::{self, Write};

use super::visible;

/// Writes messages as they stream in, each on lines of its own.
///
/// Pieces are lossy: a reader that is too slow for them is told so. The message
/// itself isn't, so what was missed is written once the message is complete.
pub(crate) struct Answer<W> {
    out: W,
    /// Whether control characters are shown rather than written.
    guard: bool,
    /// Bytes of messages that aren't complete yet which are written already.
    ahead: usize,
    /// Whether pieces are missing after those.
    gap: bool,
    line_is_open: bool,
}

impl<W: Write> Answer<W> {
    /// An answer that goes there; `guard` for a terminal.
    pub(crate) fn new(out: W, guard: bool) -> Self {
        Self {
            out,
            guard,
            ahead: 0,
            gap: false,
            line_is_open: false,
        }
    }

    /// A piece of a message.
    pub(crate) fn piece(&mut self, text: &str) -> io::Result<()> {
        if !self.gap {
            self.write(text)?;
            self.ahead += text.len();
        }
        Ok(())
    }

    /// Pieces were missed.
    pub(crate) fn missed(&mut self) {
        self.gap = true;
    }

    /// Whatever was missed so far was none of a message that is still to come.
    pub(crate) fn between_messages(&mut self) {
        self.gap &= self.ahead > 0;
    }

    /// A message is complete: this is its text.
    pub(crate) fn message(&mut self, text: &str) -> io::Result<()> {
        if self.ahead >= text.len() {
            self.ahead -= text.len();
        } else {
            let rest = text.get(self.ahead..).unwrap_or_default();
            self.ahead = 0;
            self.gap = false;
            self.write(rest)?;
        }
        if self.ahead == 0 {
            self.gap = false;
            self.end_line()?;
        }
        Ok(())
    }

    /// Ends a line that is open.
    pub(crate) fn end_line(&mut self) -> io::Result<()> {
        if self.line_is_open {
            self.out.write_all(b"\n")?;
            self.line_is_open = false;
        }
        Ok(())
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        let shown = if self.guard {
            visible(text)
        } else {
            text.into()
        };
        self.out.write_all(shown.as_bytes())?;
        if !text.is_empty() {
            self.line_is_open = !text.ends_with('\n');
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `+` is a piece, `!` a gap, `=` a message, `|` the end of a tool call.
    fn written(steps: &[&str]) -> String {
        let mut out = Vec::new();
        let mut answer = Answer::new(&mut out, false);
        for step in steps {
            match step.split_at(1) {
                ("+", text) => answer.piece(text).unwrap(),
                ("=", text) => answer.message(text).unwrap(),
                ("|", _) => answer.between_messages(),
                _ => answer.missed(),
            }
        }
        answer.end_line().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_answer_is_whole_whatever_was_missed() {
        let check =
            |steps: &[&str], expected: &str| assert_eq!(written(steps), expected, "{steps:?}");
        check(&["+a", "+b", "=ab"], "ab\n");
        check(&["=ab"], "ab\n");
        check(&["+a", "!", "=abcd"], "abcd\n");
        check(&["+a", "!", "+d", "=abcd", "+e", "=e"], "abcd\ne\n");
        check(&["+中", "!", "=中文"], "中文\n");
        // Two messages of one round are told of after all their pieces.
        check(&["+a", "+b", "=a", "=b"], "ab\n");
        check(&["+a", "!", "=ab", "=cd"], "ab\ncd\n");
        check(&["+ab", "!", "=a", "=bc"], "abc\n");
        check(&["+a\n", "=a\n"], "a\n");
        // A message that was never completed.
        check(&["+ab"], "ab\n");
        // What was missed was a tool's output.
        check(&["!", "|", "+a", "+b"], "ab\n");
        check(&[], "");
    }

    #[test]
    fn a_terminal_is_guarded() {
        let mut out = Vec::new();
        Answer::new(&mut out, true)
            .piece("a\u{1b}]0;x\u{7}")
            .unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a␛]0;x␇");
    }
}
