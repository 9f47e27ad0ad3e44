//! What the environment says.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::time::Duration;

use clap::ValueEnum as _;

use super::Layer;
use super::runner::Runner;
use crate::args::{self, Approve};
use crate::failure::{Failure, Outcome};

/// The variables of the process, or of a test.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// The variables of this process.
    pub(crate) fn of_process() -> Self {
        let ours = |name: &OsStr| {
            let name = name.to_string_lossy();
            let prefixes = ["HAFT_", "OPENAI_", "ANTHROPIC_", "XDG_"];
            prefixes.iter().any(|prefix| name.starts_with(prefix))
                || matches!(&*name, "HOME" | "APPDATA" | "LOCALAPPDATA")
        };
        Self(std::env::vars_os().filter(|(name, _)| ours(name)).collect())
    }

    /// A variable. An empty one counts as not set.
    pub(crate) fn path(&self, name: &str) -> Option<&OsStr> {
        let value = self.0.get(OsStr::new(name))?;
        (!value.is_empty()).then_some(value)
    }

    /// A variable of text.
    pub(crate) fn text(&self, name: &str) -> Outcome<Option<&str>> {
        match self.path(name) {
            None => Ok(None),
            Some(value) => value
                .to_str()
                .map(Some)
                .ok_or_else(|| Failure::usage(format!("{name} isn't UTF-8"))),
        }
    }

    /// Whether a variable is set.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.path(name).is_some()
    }

    /// The settings that Haft's own variables make.
    pub(super) fn layer(&self) -> Outcome<Layer> {
        let text = |name: &str| self.text(name).map(|value| value.map(str::to_owned));
        Ok(Layer {
            engine: text("HAFT_ENGINE")?,
            model: text("HAFT_MODEL")?,
            runner: Runner::named(text("HAFT_RUNNER")?),
            store: text("HAFT_STORE")?,
            approve: self.approve()?,
            deadline: self.deadline()?,
            ..Layer::default()
        })
    }

    fn approve(&self) -> Outcome<Option<Approve>> {
        let Some(text) = self.text("HAFT_APPROVE")? else {
            return Ok(None);
        };
        Approve::from_str(text, false).map(Some).map_err(|_| {
            let message = format!("HAFT_APPROVE is `{text}`; it can be ask, edits, plan or all");
            Failure::usage(message)
        })
    }

    fn deadline(&self) -> Outcome<Option<Duration>> {
        let Some(text) = self.text("HAFT_DEADLINE")? else {
            return Ok(None);
        };
        args::seconds(text)
            .map(Some)
            .map_err(|why| Failure::usage(format!("HAFT_DEADLINE is `{text}`; {why}")))
    }
}

#[cfg(test)]
impl Environment {
    pub(super) fn with(mut self, name: &str, value: &OsStr) -> Self {
        self.0.insert(name.into(), value.to_owned());
        self
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(variables: [(&str, &str); N]) -> Self {
        let owned = |(name, value): (&str, &str)| (name.into(), value.into());
        Self(variables.into_iter().map(owned).collect())
    }
}
