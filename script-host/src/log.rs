//! Where what scripts say for people goes.

use std::fmt;
use std::io::Write as _;

/// How serious a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Level {
    /// For the script's author.
    Debug,
    /// Good to know.
    Info,
    /// Something isn't as it should be.
    Warn,
    /// Something failed.
    Error,
}

impl Level {
    /// The level of this name; `warning` is `warn` too.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "debug" => Self::Debug,
            "info" => Self::Info,
            "warn" | "warning" => Self::Warn,
            "error" => Self::Error,
            _ => return None,
        })
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        })
    }
}

/// Takes what scripts say for people. Called on a host's own threads; returns
/// at once, and doesn't panic.
///
/// ```
/// use std::sync::Mutex;
/// use haft_script_host::{Level, LogSink};
///
/// #[derive(Default)]
/// struct Kept(Mutex<Vec<String>>);
///
/// impl LogSink for Kept {
///     fn log(&self, script: &str, level: Level, message: &str) {
///         let line = format!("{script} {level}: {message}");
///         self.0.lock().unwrap().push(line);
///     }
/// }
///
/// let kept = Kept::default();
/// kept.log("words", Level::Warn, "no dictionary");
/// assert_eq!(*kept.0.lock().unwrap(), ["words warn: no dictionary"]);
/// ```
pub trait LogSink: Send + Sync + 'static {
    /// Takes a message of a script (an extension, a skill), named by its id.
    fn log(&self, script: &str, level: Level, message: &str);
}

/// Prints to standard error, all but what is for authors.
#[derive(Debug, Clone, Copy)]
pub struct StderrLog {
    kind: &'static str,
}

impl StderrLog {
    /// For scripts of a kind, which each line begins with.
    pub const fn new(kind: &'static str) -> Self {
        Self { kind }
    }
}

impl LogSink for StderrLog {
    fn log(&self, script: &str, level: Level, message: &str) {
        if level > Level::Debug {
            let mut stderr = std::io::stderr().lock();
            // A closed standard error is nobody's concern here.
            writeln!(stderr, "{}: {script}: {level}: {message}", self.kind).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_read_as_it_is_written() {
        for level in [Level::Debug, Level::Info, Level::Warn, Level::Error] {
            assert_eq!(Level::parse(&level.to_string()), Some(level));
        }
        assert_eq!(Level::parse("warning"), Some(Level::Warn));
        assert_eq!(Level::parse("fatal"), None);
    }
}
