//! Why a script's code failed.

use std::fmt;

use haft_api::{Error, ErrorKind, Part, ToolOutput};
use mlua::{Lua, Value};

use crate::json::{self, Marks};

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// The script raised an error, or the host refused what it asked for.
    Error,
    /// Its time was over.
    Deadline,
    /// Its caller gave up.
    Cancelled,
    /// It wanted more memory than it may have.
    Memory,
    /// It was stuck in code that can't be interrupted; the state was given up.
    Wedged,
    /// The host itself failed.
    Panic,
    /// There is no such thing.
    NotFound,
}

impl FailureKind {
    fn error_kind(self) -> ErrorKind {
        match self {
            Self::Error | Self::Memory => ErrorKind::InvalidInput,
            Self::Deadline => ErrorKind::Timeout,
            Self::Cancelled => ErrorKind::Cancelled,
            Self::Wedged => ErrorKind::Unavailable,
            Self::Panic => ErrorKind::Unexpected,
            Self::NotFound => ErrorKind::NotFound,
        }
    }
}

/// A failure of a script's code.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Which kind.
    pub kind: FailureKind,
    /// What happened.
    pub message: String,
    /// The error value as JSON, where the script raised a table.
    pub value: Option<String>,
    /// Where, as a traceback.
    pub trace: Option<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.trace {
            Some(trace) if !trace.is_empty() => write!(f, "\n{trace}"),
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
            trace: None,
        }
    }

    pub(crate) fn error(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Error, message)
    }

    /// From what a guarded call gave as its error: the value and a traceback.
    pub(crate) fn from_raised(lua: &Lua, raised: &Value) -> Self {
        if let Value::Table(wrapped) = raised
            && let Ok(trace) = wrapped.raw_get::<mlua::LuaString>("trace")
        {
            let value: Value = wrapped.raw_get("value").unwrap_or(Value::Nil);
            let mut failure = Self::from_value(lua, &value);
            failure.trace = Some(trace.to_string_lossy());
            return failure;
        }
        Self::from_value(lua, raised)
    }

    fn from_value(lua: &Lua, value: &Value) -> Self {
        match value {
            Value::String(text) => Self::from_text(text.to_string_lossy()),
            Value::Error(error) => Self::from_error(error),
            Value::Table(table) => {
                let json = Marks::of(lua)
                    .and_then(|marks| json::encode(&marks, value, &json::Limits::default()))
                    .map(|json| json.get().to_owned())
                    .ok();
                let message = table
                    .raw_get::<mlua::LuaString>("message")
                    .map(|text| text.to_string_lossy())
                    .ok()
                    .or_else(|| value.to_string().ok().filter(|t| !t.starts_with("table: ")))
                    .or_else(|| json.clone())
                    .unwrap_or_else(|| "an error that is a table".to_owned());
                let mut failure = Self::error(message);
                failure.value = json;
                failure
            }
            other => Self::error(match other.to_string() {
                Ok(text) => text,
                Err(_) => format!("an error of type {}", other.type_name()),
            }),
        }
    }

    fn from_text(text: String) -> Self {
        if text == "not enough memory" {
            Self::memory()
        } else if text.contains("stack overflow") && text.len() > 400 {
            // Lua appends a traceback of its own.
            let first = text.lines().next().unwrap_or_default().to_owned();
            Self::error(first)
        } else {
            Self::error(text)
        }
    }

    fn memory() -> Self {
        Self::new(
            FailureKind::Memory,
            "not enough memory: the script reached the host's memory limit",
        )
    }

    pub(crate) fn from_error(error: &mlua::Error) -> Self {
        match error {
            mlua::Error::MemoryError(_) => Self::memory(),
            mlua::Error::RuntimeError(text) => Self::from_text(text.clone()),
            mlua::Error::CallbackError { cause, traceback } => {
                let mut failure = Self::from_error(cause);
                failure.trace.get_or_insert_with(|| traceback.clone());
                failure
            }
            other => Self::error(other.to_string()),
        }
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
        Error::new(self.kind.error_kind(), self.to_string())
    }
}
