//! What comes of a tool call.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use haft_api::{Part, Result, ToolOutput};

use super::expect::ensure;
use super::{Checked, Unmet};
use crate::history::content;

/// How long a call may take that has no reason to take long.
const SOON: Duration = Duration::from_secs(20);

/// Waits for a call's outcome, which must be neither a panic nor long in coming.
pub(super) async fn settled(
    what: &str,
    run: impl Future<Output = Result<ToolOutput>>,
) -> Result<Result<ToolOutput>, Unmet> {
    match tokio::time::timeout(SOON, AssertUnwindSafe(run).catch_unwind()).await {
        Ok(Ok(outcome)) => Ok(outcome),
        Ok(Err(panic)) => {
            let message = haft_api::panic_message(&*panic);
            Err(format!("expected {what} to end with a result, got: {message}").into())
        }
        Err(_) => Err(format!("expected {what} to end within {SOON:?}, got nothing").into()),
    }
}

/// Whether the model would take it as a failure.
pub(super) fn failed(outcome: &Result<ToolOutput>) -> bool {
    outcome.as_ref().map_or(true, |output| output.is_error)
}

/// An outcome in few words.
pub(super) fn describe(outcome: &Result<ToolOutput>) -> String {
    match outcome {
        Ok(output) => {
            let text = haft_api::join_text(&output.parts);
            let text: String = text.chars().take(200).collect();
            let word = if output.is_error {
                "an error result"
            } else {
                "a success"
            };
            format!("{word}: {text:?}")
        }
        Err(error) => format!("an error: {error}"),
    }
}

/// Checks that providers would take an output's parts.
pub(super) fn well_formed(what: &str, output: &ToolOutput) -> Checked {
    for part in &output.parts {
        match part {
            Part::Text { text } => {
                ensure!(
                    !text.is_empty(),
                    "expected no empty text in the result of {what}"
                );
            }
            Part::Image { media_type, data } => {
                if let Err(problem) = content::image(media_type, data) {
                    return Err(format!("the result of {what} has an image {problem}").into());
                }
            }
            Part::Json { value } => {
                if let Err(error) = content::json(value.get()) {
                    return Err(format!("the result of {what} has invalid JSON: {error}").into());
                }
            }
            _ => {}
        }
    }
    Ok(())
}
