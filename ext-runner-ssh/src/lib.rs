#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod client;
mod config;
mod connection;
mod ending;
mod files;
mod link;
mod output;
mod process;
mod processes;
mod provider;
mod quote;
mod session;
mod watch;
mod wire;

use std::sync::Arc;

use haft_api::{
    Extension, ExtensionConfig, ExtensionRegistryBuilder, Manifest, Result, export_extension,
};

pub use config::{HostKeys, SshConfig};
pub use provider::SshRunner;

/// Brings the runner provider `ssh`; its settings are [`SshConfig`].
#[derive(Debug, Clone, Copy, Default)]
pub struct SshRunnerExtension;

impl Extension for SshRunnerExtension {
    fn manifest(&self) -> Result<Manifest> {
        Manifest::new(
            "runner-ssh",
            env!("CARGO_PKG_VERSION"),
            "Runs tools on a machine over SSH",
        )
    }

    fn register(
        &self,
        config: &ExtensionConfig,
        registry: &mut ExtensionRegistryBuilder,
    ) -> Result<()> {
        registry.runner(Arc::new(SshRunner::new(config.parse()?)?));
        Ok(())
    }
}

export_extension!(SshRunnerExtension);
