//! How a command fails: one line for people, one status for programs.

use std::fmt;
use std::io;

use haft_api::Error;

/// Why a command ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was asked for can't be asked for: a flag, an argument, the
    /// configuration, or something they name that isn't there. Status 2.
    Usage(String),
    /// Doing it failed. Status 1.
    Failed(String),
    /// The user gave up. Status 130.
    Interrupted,
    /// Nobody reads standard output any more: nothing is left to be said.
    Unheard,
}

/// What a command returns: its exit status, or why there is none yet.
pub(crate) type Outcome<T = u8> = Result<T, Failure>;

/// The turn completed, or the command did what it was asked.
pub(crate) const DONE: u8 = 0;
/// The turn failed, or a check found something.
pub(crate) const FAILED: u8 = 1;
/// Usage or configuration.
pub(crate) const USAGE: u8 = 2;
/// Interrupted.
pub(crate) const INTERRUPTED: u8 = 130;

impl Failure {
    /// Wrong usage, from anything that says so.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::Usage(message.to_string())
    }

    /// A failure, from anything that says so.
    pub(crate) fn failed(message: impl fmt::Display) -> Self {
        Self::Failed(message.to_string())
    }

    /// A failure to write to standard output.
    pub(crate) fn output(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Unheard,
            _ => Self::Failed(format!("can't write to standard output: {error}")),
        }
    }

    /// The exit status.
    pub(crate) fn status(&self) -> u8 {
        match self {
            Self::Usage(_) => USAGE,
            Self::Failed(_) => FAILED,
            Self::Interrupted => INTERRUPTED,
            Self::Unheard => DONE,
        }
    }

    /// The line for people; `None` where there is nothing to say.
    pub(crate) fn message(&self) -> Option<String> {
        match self {
            Self::Usage(message) | Self::Failed(message) => Some(one_line(message)),
            Self::Interrupted => Some("interrupted".to_owned()),
            Self::Unheard => None,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::failed(error)
    }
}

/// A message without line breaks and other control characters.
pub(crate) fn one_line(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_whatever_it_came_from() {
        let check = |text: &str, expected: &str| {
            assert_eq!(Failure::usage(text).message().as_deref(), Some(expected));
        };
        check("a\n  b\tc\r\n", "a b c");
        check("red: \u{1b}[31mx", "red: [31mx");
    }

    #[test]
    fn a_closed_pipe_is_no_failure_and_a_full_disk_is() {
        let status = |kind: io::ErrorKind| Failure::output(&kind.into()).status();
        assert_eq!(status(io::ErrorKind::BrokenPipe), DONE);
        assert_eq!(status(io::ErrorKind::StorageFull), FAILED);
    }
}
