//! The store keeps every promise of the trait.

use std::sync::Arc;

use haft_api::{ExtensionConfig, ExtensionRegistryBuilder, raw_json};
use haft_api::{Result, StoreOptions, ThreadStore, ThreadStoreFactory};
use haft_ext_store_postgres::PostgresStoreExtension;
use haft_testkit::StoreFixture;

use crate::support::{fresh_schema, server};

/// A schema of its own.
struct Place {
    schema: String,
    factory: Arc<dyn ThreadStoreFactory>,
}

#[haft_api::async_trait]
impl StoreFixture for Place {
    async fn open(&self) -> Result<Arc<dyn ThreadStore>> {
        let mut options = StoreOptions::new("");
        options.config = raw_json(format!(r#"{{"schema":"{}"}}"#, self.schema))?;
        self.factory.open(options).await
    }

    fn unavailable(&self) -> Option<String> {
        server().err()
    }
}

fn place() -> Place {
    let config = match server() {
        Ok(server) => serde_json::json!({ "url_file": server.url_file() }).to_string(),
        Err(_) => "{}".to_owned(),
    };
    let config = ExtensionConfig::from_json(&config).unwrap();
    let mut registry = ExtensionRegistryBuilder::new();
    registry
        .extension(&PostgresStoreExtension, &config)
        .unwrap();
    let registry = registry.build().unwrap();
    Place {
        schema: fresh_schema(),
        factory: Arc::clone(registry.store("postgres").unwrap()),
    }
}

haft_testkit::store_conformance!(place);
