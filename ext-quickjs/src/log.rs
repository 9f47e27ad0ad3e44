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
    pub(crate) fn parse(text: &str) -> Option<Self> {
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

/// Takes what scripts say for people. Called on skills' own threads; returns
/// at once.
pub trait LogSink: Send + Sync + 'static {
    /// Takes a message of a skill.
    fn log(&self, skill: &str, level: Level, message: &str);
}

/// Prints to standard error, all but what is for authors.
#[derive(Debug, Clone, Copy, Default)]
pub struct StderrLog;

impl LogSink for StderrLog {
    fn log(&self, skill: &str, level: Level, message: &str) {
        if level > Level::Debug {
            let mut stderr = std::io::stderr().lock();
            // A closed standard error is nobody's concern here.
            writeln!(stderr, "skill: {skill}: {level}: {message}").ok();
        }
    }
}
