//! Colours, and text that can do no harm to a terminal.

use std::borrow::Cow;
use std::fmt;

use anstyle::AnsiColor;

/// A look, if there may be looks at all.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Style {
    colour: bool,
}

impl Style {
    /// With or without colours.
    pub(crate) fn new(colour: bool) -> Self {
        Self { colour }
    }

    fn paint(self, style: anstyle::Style, text: impl fmt::Display) -> String {
        match self.colour {
            true => format!("{style}{text}{style:#}"),
            false => text.to_string(),
        }
    }

    /// Beside the point.
    pub(crate) fn dim(self, text: impl fmt::Display) -> String {
        self.paint(anstyle::Style::new().dimmed(), text)
    }

    /// To be found again.
    pub(crate) fn bold(self, text: impl fmt::Display) -> String {
        self.paint(anstyle::Style::new().bold(), text)
    }

    /// Good.
    pub(crate) fn good(self, text: impl fmt::Display) -> String {
        self.paint(AnsiColor::Green.on_default(), text)
    }

    /// To be careful with.
    pub(crate) fn warning(self, text: impl fmt::Display) -> String {
        self.paint(AnsiColor::Yellow.on_default(), text)
    }

    /// Bad.
    pub(crate) fn bad(self, text: impl fmt::Display) -> String {
        self.paint(AnsiColor::Red.on_default().bold(), text)
    }
}

/// The line that says why a command failed.
pub(crate) fn failure_line(message: &str, colour: bool) -> String {
    format!("{} {message}", Style::new(colour).bad("error:"))
}

/// Text from a model, a tool or a file as a terminal may get it: control
/// characters, which could move the cursor or worse, are shown, not obeyed.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    let harmless = |c: char| !c.is_control() || c == '\n' || c == '\t';
    if text.chars().all(harmless) {
        return Cow::Borrowed(text);
    }
    let shown = |c: char| match c {
        c if harmless(c) => c,
        // Unicode's pictures of control characters.
        '\0'..='\x1f' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        '\x7f' => '\u{2421}',
        _ => '\u{fffd}',
    };
    Cow::Owned(text.replace("\r\n", "\n").chars().map(shown).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_not_obeyed() {
        let check = |text: &str, expected: &str| assert_eq!(visible(text), expected);
        check("plain\n\ttext é 中", "plain\n\ttext é 中");
        check("a\u{1b}[2Jb\u{7}", "a␛[2Jb␇");
        check("a\r\nb\rc", "a\nb␍c");
        check("\u{9b}31m\u{7f}", "\u{fffd}31m␡");
    }

    #[test]
    fn without_colour_there_is_nothing_but_text() {
        assert_eq!(failure_line("no", false), "error: no");
        assert!(failure_line("no", true).starts_with("\u{1b}["));
    }
}
