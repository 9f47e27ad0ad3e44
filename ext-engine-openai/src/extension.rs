//! How the engine plugs in.

use std::sync::Arc;

use haft_api::{
    Extension, ExtensionConfig, ExtensionId, ExtensionRegistryBuilder, Manifest, Result,
    export_extension,
};

use crate::config::OpenAiConfig;
use crate::engine::OpenAiEngine;

/// Brings the engine `openai`. Its settings are a [`OpenAiConfig`].
#[derive(Debug, Default)]
pub struct OpenAiExtension;

impl Extension for OpenAiExtension {
    fn manifest(&self) -> Result<Manifest> {
        Manifest::new(
            "engine-openai",
            env!("CARGO_PKG_VERSION"),
            "An engine for OpenAI and every server that speaks its wire",
        )
    }

    fn register(&self, config: &ExtensionConfig, to: &mut ExtensionRegistryBuilder) -> Result<()> {
        let config: OpenAiConfig = config.parse()?;
        let engine = OpenAiEngine::new(ExtensionId::new("openai")?, config)?;
        to.engine(Arc::new(engine));
        Ok(())
    }
}

export_extension!(OpenAiExtension);
