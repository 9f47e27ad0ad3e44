//! The one error type of the whole runtime.

use std::error::Error as StdError;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A [`std::result::Result`] whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

type Source = Box<dyn StdError + Send + Sync + 'static>;

/// What went wrong, as a caller may want to tell cases apart.
///
/// The kind never decides on a retry; [`ErrorStatus`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// The other side can't do this at all; asking again is pointless.
    Unsupported,
    /// The thing named doesn't exist.
    NotFound,
    /// The thing to be made exists already.
    AlreadyExists,
    /// The caller handed over something malformed.
    InvalidInput,
    /// Permission, policy or a credential stands in the way.
    Denied,
    /// Somebody else holds it (a thread's writer, a lease).
    Busy,
    /// Asked to slow down; [`Error::retry_after_ms`] may say by how much.
    RateLimited,
    /// The request is larger than the model's context window.
    ContextOverflow,
    /// A deadline passed.
    Timeout,
    /// The caller gave up.
    Cancelled,
    /// The other side can't be reached, died, or broke off.
    Unavailable,
    /// Stored or received bytes aren't what they must be.
    Corrupt,
    /// None of the above: a bug or something nobody foresaw.
    Unexpected,
}

impl ErrorKind {
    /// The kind's stable name, as it stands in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unsupported => "unsupported",
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::InvalidInput => "invalid_input",
            Self::Denied => "denied",
            Self::Busy => "busy",
            Self::RateLimited => "rate_limited",
            Self::ContextOverflow => "context_overflow",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Unavailable => "unavailable",
            Self::Corrupt => "corrupt",
            Self::Unexpected => "unexpected",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether the same request may succeed if it is made again.
///
/// This alone decides on retries, after the example of Apache OpenDAL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorStatus {
    /// It will fail again. Don't retry.
    Permanent,
    /// It may succeed if tried again.
    Temporary,
    /// It was temporary, was retried as often as allowed, and still failed.
    Persistent,
}

/// What failed, where, why, and whether trying again can help.
///
/// Everything that crosses one of this crate's traits fails with this type. A
/// failure that a tool wants to *tell the model* about is no `Error`: it is a
/// [`ToolOutput`](crate::ToolOutput) with `is_error`.
///
/// ```
/// use haft_api::{Error, ErrorKind};
///
/// let error = Error::new(ErrorKind::NotFound, "no such file")
///     .operation("read_file")
///     .context("path", "notes.txt");
/// assert_eq!(error.to_string(), "read_file: no such file (path: notes.txt)");
/// assert!(!error.is_temporary());
/// ```
pub struct Error {
    inner: Box<Inner>,
}

struct Inner {
    kind: ErrorKind,
    status: ErrorStatus,
    operation: Option<String>,
    message: String,
    context: Vec<(String, String)>,
    retry_after_ms: Option<u64>,
    source: Option<Source>,
}

impl Error {
    /// An error of this kind. `message` says what happened and, where there is
    /// something to be done, what to do. The status starts as permanent, except
    /// for the kinds that are temporary by nature (rate limited, unavailable).
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let status = match kind {
            ErrorKind::RateLimited | ErrorKind::Unavailable => ErrorStatus::Temporary,
            _ => ErrorStatus::Permanent,
        };
        Self {
            inner: Box::new(Inner {
                kind,
                status,
                operation: None,
                message: message.into(),
                context: Vec::new(),
                retry_after_ms: None,
                source: None,
            }),
        }
    }

    /// An error from [`std::io`], its kind taken from the I/O error's.
    pub fn io(error: std::io::Error, message: impl Into<String>) -> Self {
        use std::io::ErrorKind as Io;
        let kind = match error.kind() {
            Io::NotFound | Io::NotADirectory => ErrorKind::NotFound,
            Io::PermissionDenied | Io::ReadOnlyFilesystem => ErrorKind::Denied,
            Io::AlreadyExists => ErrorKind::AlreadyExists,
            Io::InvalidInput | Io::InvalidFilename | Io::IsADirectory => ErrorKind::InvalidInput,
            Io::TimedOut => ErrorKind::Timeout,
            Io::InvalidData | Io::UnexpectedEof => ErrorKind::Corrupt,
            Io::StorageFull
            | Io::QuotaExceeded
            | Io::ConnectionRefused
            | Io::ConnectionReset
            | Io::ConnectionAborted
            | Io::BrokenPipe
            | Io::NotConnected => ErrorKind::Unavailable,
            _ => ErrorKind::Unexpected,
        };
        Self::new(kind, message).source(error)
    }

    /// Names the operation that failed (`append`, `stream_turn`, `provision`).
    /// An operation that is already named becomes context, so that wrapping
    /// loses nothing.
    #[must_use]
    pub fn operation(mut self, operation: impl Into<String>) -> Self {
        if let Some(earlier) = self.inner.operation.replace(operation.into()) {
            self.inner.context.push(("called".to_owned(), earlier));
        }
        self
    }

    /// Adds a fact: which extension, thread, file, tool.
    #[must_use]
    pub fn context(mut self, key: impl Into<String>, value: impl fmt::Display) -> Self {
        self.inner.context.push((key.into(), value.to_string()));
        self
    }

    /// Attaches the error beneath this one.
    #[must_use]
    pub fn source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.inner.source = Some(source.into());
        self
    }

    /// Marks the error as worth a retry.
    #[must_use]
    pub fn temporary(mut self) -> Self {
        self.inner.status = ErrorStatus::Temporary;
        self
    }

    /// Marks the error as not worth a retry.
    #[must_use]
    pub fn permanent(mut self) -> Self {
        self.inner.status = ErrorStatus::Permanent;
        self
    }

    /// Marks a temporary error as retried in vain. A permanent one stays so.
    #[must_use]
    pub fn persistent(mut self) -> Self {
        if self.inner.status == ErrorStatus::Temporary {
            self.inner.status = ErrorStatus::Persistent;
        }
        self
    }

    /// Says how long the other side asked to wait, in milliseconds.
    #[must_use]
    pub fn with_retry_after_ms(mut self, delay: u64) -> Self {
        self.inner.retry_after_ms = Some(delay);
        self
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// Whether a retry can help.
    pub fn status(&self) -> ErrorStatus {
        self.inner.status
    }

    /// True if a retry can help.
    pub fn is_temporary(&self) -> bool {
        self.inner.status == ErrorStatus::Temporary
    }

    /// The message alone, without operation, context and sources.
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// The operation that failed, if named.
    pub fn operation_name(&self) -> Option<&str> {
        self.inner.operation.as_deref()
    }

    /// The value of a context pair.
    pub fn context_value(&self, key: &str) -> Option<&str> {
        self.inner
            .context
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
    }

    /// How long the other side asked to wait, in milliseconds.
    pub fn retry_after_ms(&self) -> Option<u64> {
        self.inner.retry_after_ms
    }

    /// Everything but the source's type, as data that crosses a process or a
    /// plug-in boundary. The chain of sources is kept as text.
    pub fn to_data(&self) -> ErrorData {
        let mut causes = Vec::new();
        let mut next = self
            .inner
            .source
            .as_deref()
            .map(|s| s as &(dyn StdError + 'static));
        while let Some(error) = next {
            causes.push(error.to_string());
            next = error.source();
        }
        ErrorData {
            kind: self.inner.kind,
            status: self.inner.status,
            operation: self.inner.operation.clone(),
            message: self.inner.message.clone(),
            context: self.inner.context.clone(),
            retry_after_ms: self.inner.retry_after_ms,
            causes,
        }
    }
}

/// An [`Error`] as plain data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorData {
    /// See [`Error::kind`].
    pub kind: ErrorKind,
    /// See [`Error::status`].
    pub status: ErrorStatus,
    /// See [`Error::operation_name`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// See [`Error::message`].
    pub message: String,
    /// Context pairs in the order they were added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<(String, String)>,
    /// See [`Error::retry_after_ms`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The texts of the chain of sources, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
}

/// The texts of an error's sources, kept after their types were lost.
#[derive(Debug)]
struct Cause {
    text: String,
    next: Option<Box<Cause>>,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl StdError for Cause {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.next.as_deref().map(|c| c as &(dyn StdError + 'static))
    }
}

impl From<ErrorData> for Error {
    fn from(data: ErrorData) -> Self {
        let cause = data
            .causes
            .into_iter()
            .rev()
            .fold(None, |next, text| Some(Box::new(Cause { text, next })));
        Self {
            inner: Box::new(Inner {
                kind: data.kind,
                status: data.status,
                operation: data.operation,
                message: data.message,
                context: data.context,
                retry_after_ms: data.retry_after_ms,
                source: cause.map(|c| c as Source),
            }),
        }
    }
}

impl fmt::Display for Error {
    /// One line: operation, message, context, then the causes. What several
    /// layers said alike stands there once.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.inner;
        if let Some(operation) = &inner.operation {
            write!(f, "{operation}: ")?;
        }
        f.write_str(&inner.message)?;
        for (index, pair) in inner.context.iter().enumerate() {
            if inner.context[..index].contains(pair) {
                continue;
            }
            let (key, value) = pair;
            write!(f, "{}{key}: {value}", if index == 0 { " (" } else { ", " })?;
        }
        if !inner.context.is_empty() {
            f.write_str(")")?;
        }
        let mut next = inner
            .source
            .as_deref()
            .map(|s| s as &(dyn StdError + 'static));
        while let Some(error) = next {
            write!(f, ": {error}")?;
            // An `Error` beneath prints its own chain.
            next = if error.is::<Error>() {
                None
            } else {
                error.source()
            };
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.inner;
        f.debug_struct("Error")
            .field("kind", &inner.kind)
            .field("status", &inner.status)
            .field("operation", &inner.operation)
            .field("message", &inner.message)
            .field("context", &inner.context)
            .field("retry_after_ms", &inner.retry_after_ms)
            .field("source", &inner.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.inner
            .source
            .as_deref()
            .map(|s| s as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_names_operation_context_and_causes() {
        let io = std::io::Error::new(std::io::ErrorKind::StorageFull, "no space left");
        let error = Error::io(io, "the log can't be written")
            .operation("append")
            .context("thread", "t1")
            .context("file", "log.jsonl");
        assert_eq!(
            error.to_string(),
            "append: the log can't be written (thread: t1, file: log.jsonl): no space left"
        );
    }

    #[test]
    fn what_several_layers_name_alike_is_printed_once() {
        let error = Error::new(ErrorKind::NotFound, "no script")
            .context("engine", "replay")
            .context("thread", "t1")
            .context("engine", "replay")
            .context("engine", "retry");
        assert_eq!(
            error.to_string(),
            "no script (engine: replay, thread: t1, engine: retry)"
        );
    }

    #[test]
    fn data_round_trip_keeps_everything_but_the_sources_type() {
        let io = std::io::Error::other("inner");
        let error = Error::new(ErrorKind::RateLimited, "slow down")
            .operation("stream_turn")
            .context("engine", "x")
            .with_retry_after_ms(1500)
            .source(Error::new(ErrorKind::Denied, "outer").source(io));
        let data = error.to_data();
        let json = serde_json::to_string(&data).unwrap();
        let back = Error::from(serde_json::from_str::<ErrorData>(&json).unwrap());
        assert_eq!(back.to_data().kind, ErrorKind::RateLimited);
        assert_eq!(back.retry_after_ms(), Some(1500));
        assert_eq!(back.to_data().causes.len(), data.causes.len());
        assert!(back.to_string().contains("outer"), "{back}");
    }

    #[test]
    fn retry_follows_the_status_only() {
        assert!(Error::new(ErrorKind::Unavailable, "x").is_temporary());
        assert!(
            !Error::new(ErrorKind::Unavailable, "x")
                .persistent()
                .is_temporary()
        );
        assert!(
            Error::new(ErrorKind::Denied, "x")
                .temporary()
                .is_temporary()
        );
        let denied = Error::new(ErrorKind::Denied, "x").persistent();
        assert_eq!(denied.status(), ErrorStatus::Permanent);
    }
}
