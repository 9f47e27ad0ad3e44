#![doc = include_str!("../README.md")]

mod config;
#[cfg(unix)]
mod environment;
mod files;
#[cfg(unix)]
mod processes;
mod provider;
#[cfg(target_os = "linux")]
mod sandbox;
mod session;
mod supervisor;

use std::sync::Arc;

use haft_api::{
    Extension, ExtensionConfig, ExtensionRegistryBuilder, Manifest, Result, export_extension,
};

pub use config::{Limits, LocalConfig, Sandbox};
pub use provider::LocalRunner;
pub use supervisor::supervise_if_asked;

/// Brings the runner provider `local`; its settings are [`LocalConfig`].
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalRunnerExtension;

impl Extension for LocalRunnerExtension {
    fn manifest(&self) -> Result<Manifest> {
        Manifest::new(
            "runner-local",
            env!("CARGO_PKG_VERSION"),
            "Runs tools in a local directory",
        )
    }

    fn register(
        &self,
        config: &ExtensionConfig,
        registry: &mut ExtensionRegistryBuilder,
    ) -> Result<()> {
        registry.runner(Arc::new(LocalRunner::new(config.parse()?)?));
        Ok(())
    }
}

export_extension!(LocalRunnerExtension);
