//! What of a failure a model is told, and what is the tool's own.

use haft_api::{Error, ErrorKind, Result, ToolOutput};

/// A failure that the model can do something about becomes a result it reads;
/// what broke beneath the tool stays an error.
pub(crate) fn tell(outcome: Result<ToolOutput>) -> Result<ToolOutput> {
    outcome.or_else(|error| match error.kind() {
        ErrorKind::NotFound
        | ErrorKind::Denied
        | ErrorKind::InvalidInput
        | ErrorKind::AlreadyExists
        | ErrorKind::Busy
        | ErrorKind::Unsupported => Ok(ToolOutput::error(words(&error))),
        _ => Err(error),
    })
}

/// An error as one line, without the name of the session's operation, which
/// means nothing to a model.
pub(crate) fn words(error: &Error) -> String {
    let text = error.to_string();
    let operation = error.operation_name().map(|name| format!("{name}: "));
    operation
        .and_then(|prefix| text.strip_prefix(&prefix).map(str::to_owned))
        .unwrap_or(text)
}
