//! How the host plugs in.

use std::sync::Arc;

use haft_api::{
    Extension, ExtensionConfig, ExtensionRegistryBuilder, Manifest, Result, ToolSource,
    export_extension,
};

use crate::config::Settings;
use crate::host::LuaHost;
use crate::source::Listeners;

/// Brings the tool source `lua`. Its settings are [`Settings`].
#[derive(Debug, Default)]
pub struct LuaExtension;

impl Extension for LuaExtension {
    fn manifest(&self) -> Result<Manifest> {
        Manifest::new(
            "lua",
            env!("CARGO_PKG_VERSION"),
            "Tools and commands written in Lua",
        )
    }

    fn register(&self, config: &ExtensionConfig, to: &mut ExtensionRegistryBuilder) -> Result<()> {
        let host = LuaHost::new(config.parse::<Settings>()?)?;
        if host.settings().paths.is_empty() && host.settings().folders.is_empty() {
            return Ok(());
        }
        to.event_sink(Arc::new(Listeners(host.clone())));
        to.tool_source(Arc::new(host) as Arc<dyn ToolSource>);
        Ok(())
    }
}

export_extension!(LuaExtension);
