//! How the store plugs in.

use std::sync::Arc;

use haft_api::{
    Error, ErrorKind, Extension, ExtensionConfig, ExtensionId, ExtensionRegistryBuilder, Manifest,
    Result, StoreOptions, ThreadStore, ThreadStoreFactory, async_trait, export_extension, raw_json,
};

use crate::blocking::blocking;
use crate::config::JsonlConfig;
use crate::store::JsonlStore;

/// Registers a [`ThreadStoreFactory`] of the id `jsonl`.
///
/// The extension's settings are the defaults of the stores it opens; a store's
/// own settings, of the same form, go before them.
#[derive(Debug, Default)]
pub struct JsonlStoreExtension;

impl Extension for JsonlStoreExtension {
    fn manifest(&self) -> Result<Manifest> {
        Manifest::new(
            "store-jsonl",
            env!("CARGO_PKG_VERSION"),
            env!("CARGO_PKG_DESCRIPTION"),
        )
    }

    fn register(
        &self,
        config: &ExtensionConfig,
        registry: &mut ExtensionRegistryBuilder,
    ) -> Result<()> {
        let defaults = JsonlConfig::default().overlay(&raw_json(config.as_json())?)?;
        registry.store(Arc::new(JsonlFactory {
            id: ExtensionId::new("jsonl")?,
            defaults,
        }));
        Ok(())
    }
}

export_extension!(JsonlStoreExtension);

/// Opens stores below a runtime's home.
struct JsonlFactory {
    id: ExtensionId,
    defaults: JsonlConfig,
}

#[async_trait]
impl ThreadStoreFactory for JsonlFactory {
    fn id(&self) -> &ExtensionId {
        &self.id
    }

    async fn open(&self, options: StoreOptions) -> Result<Arc<dyn ThreadStore>> {
        let config = self.defaults.clone().overlay(&options.config)?;
        if options.home.is_empty() {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "the store's home is empty; give the path of a folder",
            )
            .operation("open the jsonl store"));
        }
        let store = blocking(move || JsonlStore::open(options.home, config)).await?;
        Ok(Arc::new(store))
    }
}
