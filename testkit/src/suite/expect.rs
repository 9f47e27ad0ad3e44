//! Expectations of the cases, worded as "expected …, got …".

use std::fmt::Debug;
use std::time::Duration;

use haft_api::{ErrorKind, Result};

use super::{Checked, Unmet};

/// Breaks the promise unless the condition holds. The message says what was
/// expected and what came.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::suite::Unmet::Broken(format!($($message)+)));
        }
    };
}

pub(crate) use ensure;

/// The value of something that must succeed.
pub(crate) fn ok<T>(what: &str, outcome: Result<T>) -> Result<T, Unmet> {
    outcome.map_err(|error| Unmet::Broken(format!("expected {what} to succeed, got: {error}")))
}

/// Something that must fail in this way.
pub(crate) fn fails<T>(what: &str, kind: ErrorKind, outcome: Result<T>) -> Checked {
    match outcome {
        Err(error) if error.kind() == kind => Ok(()),
        Err(error) => Err(Unmet::Broken(format!(
            "expected {what} to fail as {kind}, got {}: {error}",
            error.kind()
        ))),
        Ok(_) => Err(Unmet::Broken(format!(
            "expected {what} to fail as {kind}, got success"
        ))),
    }
}

/// Two values that must be equal.
pub(crate) fn same<T: PartialEq + Debug + ?Sized>(what: &str, expected: &T, got: &T) -> Checked {
    if expected == got {
        return Ok(());
    }
    Err(Unmet::Broken(format!(
        "{what}: expected {}, got {}",
        shown(expected),
        shown(got)
    )))
}

/// A value's debug form, cut where it would flood the report.
fn shown(value: &(impl Debug + ?Sized)) -> String {
    let mut text = format!("{value:?}");
    if text.len() > 600 {
        let end = (0..=600)
            .rev()
            .find(|&i| text.is_char_boundary(i))
            .unwrap_or(0);
        let rest = text.len() - end;
        text.truncate(end);
        text.push_str(&format!("… ({rest} more bytes)"));
    }
    text
}

/// Waits for something that must come soon, but not at once.
pub(crate) async fn soon<T>(
    what: &str,
    limit: Duration,
    run: impl Future<Output = T>,
) -> Result<T, Unmet> {
    tokio::time::timeout(limit, run)
        .await
        .map_err(|_| Unmet::Broken(format!("expected {what} within {limit:?}, got nothing")))
}

/// Leaves the case, because what is tested doesn't claim this.
pub(crate) fn claimed(claim: bool, what: &str) -> Checked {
    if claim {
        Ok(())
    } else {
        Err(Unmet::NotClaimed(what.to_owned()))
    }
}
