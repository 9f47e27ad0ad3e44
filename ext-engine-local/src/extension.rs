//! How the engine plugs in.

use std::sync::Arc;

use haft_api::{
    Extension, ExtensionConfig, ExtensionRegistryBuilder, Manifest, Result, export_extension,
};

use crate::engine::LocalEngine;

/// Brings the engine `local`. Its settings are [`LocalSettings`](crate::LocalSettings).
#[derive(Debug, Default)]
pub struct LocalExtension;

impl Extension for LocalExtension {
    fn manifest(&self) -> Result<Manifest> {
        Manifest::new(
            "engine-local",
            env!("CARGO_PKG_VERSION"),
            "An embedded model in a supervised llama.cpp server",
        )
    }

    fn register(&self, config: &ExtensionConfig, to: &mut ExtensionRegistryBuilder) -> Result<()> {
        to.engine(Arc::new(LocalEngine::new(config.parse()?)?));
        Ok(())
    }
}

export_extension!(LocalExtension);
