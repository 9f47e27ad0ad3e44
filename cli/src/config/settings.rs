//! The settings that hold in the end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haft_api::ExtensionConfig;
use haft_core::prices::PriceTable;
use serde_json::{Map, Value};

use super::{Environment, Layer, RUNNER_EXTENSION, file, nearest, paths, workspace_file};
use crate::args::{Approve, PlaceArgs};
use crate::failure::{Failure, Outcome};
use crate::plugins::PluginFile;

/// Where settings come from.
#[derive(Debug, Clone)]
pub(crate) struct Sources<'a> {
    /// The flags that every command has.
    pub(crate) place: &'a PlaceArgs,
    /// The environment.
    pub(crate) environment: &'a Environment,
    /// The workspace whose file counts, if one does.
    pub(crate) workspace: Option<&'a Path>,
    /// What flags say.
    pub(crate) flags: Layer,
}

/// The settings of a command.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The folder of Haft's own data; absolute.
    pub(crate) home: PathBuf,
    /// The engine that was chosen, if one was.
    pub(crate) engine: Option<String>,
    /// The model that was chosen, if one was.
    pub(crate) model: Option<String>,
    /// Engines to ask where that one fails: ids, or `id:model`.
    pub(crate) fallback: Vec<String>,
    /// When conversations are summarised, if somebody said.
    pub(crate) compact_at: Option<f64>,
    /// What models cost.
    pub(crate) prices: PriceTable,
    /// Where tools run.
    pub(crate) runner: String,
    /// The kind of store.
    pub(crate) store: String,
    /// What may happen without asking.
    pub(crate) approve: Approve,
    /// When running tools are cut off.
    pub(crate) deadline: Option<Duration>,
    /// What the model is told besides.
    pub(crate) instructions: Option<String>,
    /// The shared objects that the user named.
    pub(crate) plugins: Vec<PluginFile>,
    ext: BTreeMap<String, Map<String, Value>>,
}

impl Settings {
    /// Reads all sources.
    pub(crate) fn load(sources: Sources<'_>) -> Outcome<Self> {
        let Sources {
            place,
            environment,
            workspace,
            flags,
        } = sources;
        let home = paths::home(place, environment)?;
        let mut layer = user_layer(place, environment)?;
        if let Some(workspace) = workspace {
            layer = workspace_file::load(workspace)?.over(layer);
        }
        let mut layer = flags.over(environment.layer()?.over(layer));
        let mut prices = PriceTable::known();
        for (model, price) in std::mem::take(&mut layer.prices) {
            prices.set(model, price);
        }
        let runner = layer.runner.id.take();
        let mut ext = layer.ext;
        let of_runner = layer.runner.settings();
        if !of_runner.is_empty() {
            let settings = ext.entry(RUNNER_EXTENSION.to_owned()).or_default();
            settings.extend(of_runner);
        }
        Ok(Self {
            home,
            engine: layer.engine,
            model: layer.model,
            fallback: layer.fallback.unwrap_or_default(),
            compact_at: layer.compact_at,
            prices,
            runner: runner.unwrap_or_else(|| crate::assembly::LOCAL_RUNNER.to_owned()),
            store: layer.store.unwrap_or_else(|| "jsonl".to_owned()),
            approve: layer.approve.unwrap_or_default(),
            deadline: layer.deadline,
            instructions: layer.instructions,
            plugins: layer.plugin,
            ext,
        })
    }

    /// Whether somebody set this of an extension.
    pub(crate) fn has(&self, extension: &str, key: &str) -> bool {
        self.ext
            .get(extension)
            .is_some_and(|settings| settings.contains_key(key))
    }

    /// Sets something of an extension, over what was said.
    pub(crate) fn set(&mut self, extension: &str, key: &str, value: impl Into<Value>) {
        let settings = self.ext.entry(extension.to_owned()).or_default();
        settings.insert(key.to_owned(), value.into());
    }

    /// Adds to a list of an extension.
    pub(crate) fn push(&mut self, extension: &str, key: &str, value: impl Into<Value>) {
        let settings = self.ext.entry(extension.to_owned()).or_default();
        let list = settings
            .entry(key)
            .or_insert_with(|| Value::Array(Vec::new()));
        // Anything else is left for the extension to refuse.
        if let Value::Array(list) = list {
            list.push(value.into());
        }
    }

    /// Sets something of an extension that nobody has set.
    pub(crate) fn set_default(&mut self, extension: &str, key: &str, value: impl Into<Value>) {
        if !self.has(extension, key) {
            self.set(extension, key, value);
        }
    }

    /// The settings of every extension that has some.
    pub(crate) fn extensions(&self) -> Outcome<Vec<(&str, ExtensionConfig)>> {
        let mut configs = Vec::with_capacity(self.ext.len());
        for (id, settings) in &self.ext {
            let config = ExtensionConfig::from_value(settings).map_err(Failure::usage)?;
            configs.push((id.as_str(), config));
        }
        Ok(configs)
    }

    /// The settings of one extension.
    #[cfg(feature = "engine-local")]
    pub(crate) fn extension(&self, id: &str) -> Outcome<ExtensionConfig> {
        match self.ext.get(id) {
            Some(settings) => ExtensionConfig::from_value(settings).map_err(Failure::usage),
            None => Ok(ExtensionConfig::empty()),
        }
    }

    /// Refuses settings of extensions that aren't here.
    pub(crate) fn check_extensions<'n>(
        &self,
        known: impl IntoIterator<Item = &'n str> + Clone,
    ) -> Outcome<()> {
        for id in self.ext.keys() {
            if known.clone().into_iter().any(|known| known == id) {
                continue;
            }
            let hint = match nearest(id, known.clone()) {
                Some(near) => format!("did you mean `ext.{near}`?"),
                None => format!(
                    "there are {}",
                    known.into_iter().collect::<Vec<_>>().join(", ")
                ),
            };
            return Err(Failure::usage(format!(
                "the configuration has settings for `ext.{id}`, which isn't in this program; {hint}"
            )));
        }
        Ok(())
    }
}

fn user_layer(place: &PlaceArgs, environment: &Environment) -> Outcome<Layer> {
    let Some((path, must_exist)) = paths::user_file(place, environment) else {
        return Ok(Layer::default());
    };
    match file::read(&path)? {
        Some(text) => file::parse(&path, &text),
        None if must_exist => Err(Failure::usage(format!(
            "the configuration {} isn't there",
            path.display()
        ))),
        None => Ok(Layer::default()),
    }
}
