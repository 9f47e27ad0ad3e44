//! How the engine plugs in.

use std::path::PathBuf;
use std::sync::Arc;

use haft_api::{
    Extension, ExtensionConfig, ExtensionRegistryBuilder, Manifest, Result, export_extension,
};
use serde::Deserialize;

use crate::engine::ReplayEngine;

/// Brings the engine `replay`. Its settings are in the crate's description.
#[derive(Debug, Default)]
pub struct ReplayExtension;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    script: Option<PathBuf>,
}

impl Extension for ReplayExtension {
    fn manifest(&self) -> Result<Manifest> {
        Manifest::new(
            "engine-replay",
            env!("CARGO_PKG_VERSION"),
            "An engine that plays recorded or hand-written rounds",
        )
    }

    fn register(&self, config: &ExtensionConfig, to: &mut ExtensionRegistryBuilder) -> Result<()> {
        let settings: Settings = config.parse()?;
        to.engine(Arc::new(ReplayEngine::new(settings.script)?));
        Ok(())
    }
}

export_extension!(ReplayExtension);
