//! What one source says.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::runner::Runner;
use crate::args::{Approve, TurnArgs};

/// The settings that one source names. These are the keys of a configuration
/// file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Layer {
    /// The engine of turns that name none.
    pub(crate) engine: Option<String>,
    /// The model; the engine's default one where nothing is said.
    pub(crate) model: Option<String>,
    /// Where tools run, and what commands may do there.
    pub(crate) runner: Runner,
    /// The kind of store.
    pub(crate) store: Option<String>,
    /// What may happen without asking.
    pub(crate) approve: Option<Approve>,
    /// Seconds after which running tools are cut off.
    #[serde(deserialize_with = "seconds")]
    pub(crate) deadline: Option<Duration>,
    /// What the model is told besides what it is told anyway.
    pub(crate) instructions: Option<String>,
    /// Settings of extensions, by their ids.
    pub(crate) ext: BTreeMap<String, Map<String, Value>>,
}

impl Layer {
    /// What flags say.
    pub(crate) fn from_flags(args: &TurnArgs) -> Self {
        Self {
            engine: args.engine.clone(),
            model: args.model.clone(),
            runner: Runner::named(args.runner.clone()),
            approve: args.approve,
            deadline: args.deadline,
            ..Self::default()
        }
    }

    /// This layer over an earlier one. An extension's settings are laid over
    /// each other key by key.
    pub(crate) fn over(self, earlier: Self) -> Self {
        let mut ext = earlier.ext;
        for (id, settings) in self.ext {
            ext.entry(id).or_default().extend(settings);
        }
        Self {
            engine: self.engine.or(earlier.engine),
            model: self.model.or(earlier.model),
            runner: self.runner.over(earlier.runner),
            store: self.store.or(earlier.store),
            approve: self.approve.or(earlier.approve),
            deadline: self.deadline.or(earlier.deadline),
            instructions: self.instructions.or(earlier.instructions),
            ext,
        }
    }
}

fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    crate::args::seconds(&seconds.to_string())
        .map(Some)
        .map_err(serde::de::Error::custom)
}
