//! How the host plugs in.

use std::sync::Arc;

use haft_api::{
    Extension, ExtensionConfig, ExtensionRegistryBuilder, Manifest, Result, ToolSource,
    export_extension,
};

use crate::config::Settings;
use crate::host::QuickJsHost;

/// Brings the tool source `quickjs`. Its settings are [`Settings`].
#[derive(Debug, Default)]
pub struct QuickJsExtension;

impl Extension for QuickJsExtension {
    fn manifest(&self) -> Result<Manifest> {
        Manifest::new(
            "quickjs",
            env!("CARGO_PKG_VERSION"),
            "Skills written in JavaScript or TypeScript",
        )
    }

    fn register(&self, config: &ExtensionConfig, to: &mut ExtensionRegistryBuilder) -> Result<()> {
        let host = QuickJsHost::new(config.parse::<Settings>()?)?;
        if !host.has_places() {
            return Ok(());
        }
        to.tool_source(Arc::new(host) as Arc<dyn ToolSource>);
        Ok(())
    }
}

export_extension!(QuickJsExtension);
