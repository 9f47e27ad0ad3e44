//! How the store plugs in.

use std::sync::Arc;

use haft_api::{
    Extension, ExtensionConfig, ExtensionId, ExtensionRegistryBuilder, Manifest, Result,
    StoreOptions, ThreadStore, ThreadStoreFactory, async_trait, export_extension, raw_json,
};

use crate::config::PostgresConfig;
use crate::store::PostgresStore;

/// Registers a [`ThreadStoreFactory`] of the id `postgres`.
///
/// The extension's settings are the defaults of the stores it opens; a store's
/// own settings, of the same form, go before them. Nothing is connected to
/// before a store is opened.
#[derive(Debug, Default)]
pub struct PostgresStoreExtension;

impl Extension for PostgresStoreExtension {
    fn manifest(&self) -> Result<Manifest> {
        Manifest::new(
            "store-postgres",
            env!("CARGO_PKG_VERSION"),
            env!("CARGO_PKG_DESCRIPTION"),
        )
    }

    fn register(
        &self,
        config: &ExtensionConfig,
        registry: &mut ExtensionRegistryBuilder,
    ) -> Result<()> {
        let defaults = PostgresConfig::default().overlay(&raw_json(config.as_json())?)?;
        registry.store(Arc::new(PostgresFactory {
            id: ExtensionId::new("postgres")?,
            defaults,
        }));
        Ok(())
    }
}

export_extension!(PostgresStoreExtension);

/// Opens stores in a database.
struct PostgresFactory {
    id: ExtensionId,
    defaults: PostgresConfig,
}

#[async_trait]
impl ThreadStoreFactory for PostgresFactory {
    fn id(&self) -> &ExtensionId {
        &self.id
    }

    async fn open(&self, options: StoreOptions) -> Result<Arc<dyn ThreadStore>> {
        let config = self.defaults.clone().overlay(&options.config)?;
        Ok(Arc::new(PostgresStore::open(config).await?))
    }
}
