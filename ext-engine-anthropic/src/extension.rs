//! How the engine plugs in.

use std::sync::Arc;

use haft_api::{
    Extension, ExtensionConfig, ExtensionId, ExtensionRegistryBuilder, Manifest, Result,
    export_extension,
};

use crate::config::AnthropicConfig;
use crate::engine::AnthropicEngine;

/// Brings the engine `anthropic`. Its settings are an [`AnthropicConfig`].
#[derive(Debug, Default)]
pub struct AnthropicExtension;

impl Extension for AnthropicExtension {
    fn manifest(&self) -> Result<Manifest> {
        Manifest::new(
            "engine-anthropic",
            env!("CARGO_PKG_VERSION"),
            "An engine for Anthropic's models and every server that speaks Messages",
        )
    }

    fn register(&self, config: &ExtensionConfig, to: &mut ExtensionRegistryBuilder) -> Result<()> {
        let config: AnthropicConfig = config.parse()?;
        let engine = AnthropicEngine::new(ExtensionId::new("anthropic")?, config)?;
        to.engine(Arc::new(engine));
        Ok(())
    }
}

export_extension!(AnthropicExtension);
