//! Where a page of the listing ends.

use std::fmt;

use haft_api::{Error, ErrorKind, Result, ThreadId};

/// The place of a thread in the listing: the one changed last comes first, of
/// those changed at the same time the one with the later id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cursor {
    pub(super) updated_ms: u64,
    pub(super) thread: ThreadId,
}

impl Cursor {
    pub(super) fn new(updated_ms: u64, thread: ThreadId) -> Self {
        Self { updated_ms, thread }
    }

    pub(super) fn parse(text: &str) -> Result<Self> {
        let parse = || {
            let (updated_ms, thread) = text.split_once('.')?;
            Some(Self {
                updated_ms: updated_ms.parse().ok()?,
                thread: ThreadId::new(thread).ok()?,
            })
        };
        parse().ok_or_else(|| {
            let shown: String = text
                .chars()
                .take(80)
                .flat_map(char::escape_default)
                .collect();
            let message = "the cursor isn't one that this store gave out";
            Error::new(ErrorKind::InvalidInput, message).context("cursor", shown)
        })
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.updated_ms, self.thread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_cursors_are_taken() {
        for text in ["0.a", "1760000000123.0199c0de-0000-7000-8000-000000000000"] {
            assert_eq!(Cursor::parse(text).unwrap().to_string(), text);
        }
        for text in [
            "", ".", "a", "1", "1.", ".a", "x.a", "1.A", "1.../x", "-1.a",
        ] {
            assert_eq!(
                Cursor::parse(text).unwrap_err().kind(),
                ErrorKind::InvalidInput
            );
        }
    }
}
