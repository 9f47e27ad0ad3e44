//! What one source says.

use std::collections::BTreeMap;
use std::time::Duration;

use haft_core::prices::Price;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::runner::Runner;
use crate::args::{Approve, TurnArgs};
use crate::plugins::PluginFile;

/// The settings that one source names. These are the keys of a configuration
/// file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Layer {
    /// The engine of turns that name none.
    pub(crate) engine: Option<String>,
    /// The model; the engine's default one where nothing is said.
    pub(crate) model: Option<String>,
    /// Engines to ask where that one fails: ids, or `id:model`.
    pub(crate) fallback: Option<Vec<String>>,
    /// The share of a model's context window at which the older part of a
    /// conversation is summarised; 0 leaves it to the model's refusal.
    #[serde(deserialize_with = "share")]
    pub(crate) compact_at: Option<f64>,
    /// What models cost, by the beginnings of their names.
    pub(crate) prices: BTreeMap<String, Price>,
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
    /// Shared objects to load. A workspace names none.
    pub(crate) plugin: Vec<PluginFile>,
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
    /// each other key by key; shared objects come one after another.
    pub(crate) fn over(self, earlier: Self) -> Self {
        let mut plugin = earlier.plugin;
        plugin.extend(self.plugin);
        let mut ext = earlier.ext;
        for (id, settings) in self.ext {
            ext.entry(id).or_default().extend(settings);
        }
        let mut prices = earlier.prices;
        prices.extend(self.prices);
        Self {
            engine: self.engine.or(earlier.engine),
            model: self.model.or(earlier.model),
            fallback: self.fallback.or(earlier.fallback),
            compact_at: self.compact_at.or(earlier.compact_at),
            prices,
            runner: self.runner.over(earlier.runner),
            store: self.store.or(earlier.store),
            approve: self.approve.or(earlier.approve),
            deadline: self.deadline.or(earlier.deadline),
            instructions: self.instructions.or(earlier.instructions),
            plugin,
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

fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let share = f64::deserialize(deserializer)?;
    match (0.0..=1.0).contains(&share) {
        true => Ok(Some(share)),
        false => Err(serde::de::Error::custom(format!(
            "`compact_at` is a share of the window, from 0 to 1, and not {share}"
        ))),
    }
}
