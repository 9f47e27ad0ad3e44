//! Settings.

use haft_api::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// Settings of the coding tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct CodingToolsConfig {
    /// How long a command may run when the model names no time, in seconds.
    pub shell_timeout_seconds: u64,
    /// The longest time that a model may ask for, in seconds.
    pub max_shell_timeout_seconds: u64,
}

impl Default for CodingToolsConfig {
    fn default() -> Self {
        Self {
            shell_timeout_seconds: 120,
            max_shell_timeout_seconds: 3600,
        }
    }
}

impl CodingToolsConfig {
    pub(crate) fn check(&self) -> Result<()> {
        let refuse = |key: &str, message: &str| {
            Err(Error::new(ErrorKind::InvalidInput, message)
                .operation("configure")
                .context("key", key))
        };
        if self.shell_timeout_seconds == 0 {
            return refuse("shell_timeout_seconds", "must be more than zero");
        }
        if self.max_shell_timeout_seconds < self.shell_timeout_seconds {
            return refuse(
                "max_shell_timeout_seconds",
                "must not be less than shell_timeout_seconds",
            );
        }
        Ok(())
    }
}
