#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

use std::sync::Arc;

use haft_api::{
    Extension, ExtensionConfig, ExtensionRegistryBuilder, Manifest, Result, export_extension,
};
use serde::Deserialize;

mod engine;
mod policy;
mod runner;
mod sink;
mod source;
mod store;
mod tool;

/// The extension: what registers all parts.
#[derive(Debug, Default)]
pub struct Example;

/// Its settings. A key that isn't one of these is an error.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Names of files that no tool may be called with.
    secrets: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            secrets: vec![".env".to_owned()],
        }
    }
}

impl Extension for Example {
    fn manifest(&self) -> Result<Manifest> {
        Manifest::new(
            "example",
            env!("CARGO_PKG_VERSION"),
            env!("CARGO_PKG_DESCRIPTION"),
        )
    }

    fn register(
        &self,
        config: &ExtensionConfig,
        registry: &mut ExtensionRegistryBuilder,
    ) -> Result<()> {
        let settings: Settings = config.parse()?;
        registry
            .tools(Arc::new(tool::Words))
            .tool_source(Arc::new(source::Units::new()?))
            .engine(Arc::new(engine::Parrot::new()?))
            .runner(Arc::new(runner::Scratch::new()?))
            .store(Arc::new(store::Ephemeral::new()?))
            .policy(Arc::new(policy::NoSecrets::new(settings.secrets)?))
            .event_sink(Arc::new(sink::Turns::default()));
        Ok(())
    }
}

export_extension!(Example);
