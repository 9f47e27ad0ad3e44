//! Why a skill's code failed.

use std::fmt;

use haft_api::{Error, ErrorKind, Part, ToolOutput};

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// The script threw, or the host refused what it asked for.
    Error,
    /// Its time was over.
    Deadline,
    /// Its caller gave up.
    Cancelled,
    /// The skill was stopped, or isn't running.
    Stopped,
    /// It wanted more memory than it may have.
    Memory,
    /// The skill's runtime was given up because of code that couldn't be
    /// interrupted, this call's or another's.
    Wedged,
    /// The host itself failed.
    Panic,
}

impl FailureKind {
    fn error_kind(self) -> ErrorKind {
        match self {
            Self::Error | Self::Memory => ErrorKind::InvalidInput,
            Self::Deadline => ErrorKind::Timeout,
            Self::Cancelled => ErrorKind::Cancelled,
            Self::Stopped | Self::Wedged => ErrorKind::Unavailable,
            Self::Panic => ErrorKind::Unexpected,
        }
    }
}

/// A failure of a skill's code.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Failure {
    /// Which kind.
    pub kind: FailureKind,
    /// What happened.
    pub message: String,
    /// What was thrown, as JSON, where it was no `Error`.
    pub value: Option<String>,
    /// Where, as a stack of calls.
    pub stack: Option<String>,
    /// Whether it may be that there was no memory left.
    pub(crate) short_of_memory: bool,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match self.stack.as_deref().map(str::trim_end) {
            Some(stack) if !stack.is_empty() => write!(f, "\n{stack}"),
            _ => Ok(()),
        }
    }
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            value: None,
            stack: None,
            short_of_memory: kind == FailureKind::Memory,
        }
    }

    pub(crate) fn error(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Error, message)
    }

    pub(crate) fn deadline(what: &str) -> Self {
        Self::new(
            FailureKind::Deadline,
            format!("{what} was stopped: its time was over"),
        )
    }

    pub(crate) fn stopped(skill: &str) -> Self {
        Self::new(
            FailureKind::Stopped,
            format!("the skill `{skill}` was stopped"),
        )
    }

    /// What the model reads of a failed call.
    pub(crate) fn output(&self, tool: &str) -> ToolOutput {
        let mut parts = vec![Part::text(format!("the tool `{tool}` failed: {self}"))];
        if let Some(value) = &self.value
            && let Ok(value) = haft_api::raw_json(value.clone())
        {
            parts.push(Part::Json { value });
        }
        let mut output = ToolOutput::parts(parts);
        output.is_error = true;
        output
    }

    pub(crate) fn into_error(self) -> Error {
        let error = Error::new(self.kind.error_kind(), self.to_string());
        match self.kind {
            // The same call would be told the same.
            FailureKind::Stopped | FailureKind::Wedged => error.permanent(),
            _ => error,
        }
    }
}
