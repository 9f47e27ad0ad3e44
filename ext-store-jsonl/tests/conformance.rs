//! The store keeps every promise of the trait.

use std::sync::Arc;

use haft_api::{ExtensionConfig, ExtensionRegistryBuilder};
use haft_api::{Result, StoreOptions, ThreadStore, ThreadStoreFactory};
use haft_ext_store_jsonl::JsonlStoreExtension;
use haft_testkit::StoreFixture;

/// A home of its own, removed at the end.
struct Home {
    folder: tempfile::TempDir,
    factory: Arc<dyn ThreadStoreFactory>,
}

#[haft_api::async_trait]
impl StoreFixture for Home {
    async fn open(&self) -> Result<Arc<dyn ThreadStore>> {
        let home = self.folder.path().join("home");
        self.factory
            .open(StoreOptions::new(home.display().to_string()))
            .await
    }
}

fn home() -> Home {
    let mut registry = ExtensionRegistryBuilder::new();
    registry
        .extension(&JsonlStoreExtension, &ExtensionConfig::empty())
        .unwrap();
    let registry = registry.build().unwrap();
    Home {
        folder: tempfile::tempdir().unwrap(),
        factory: Arc::clone(registry.store("jsonl").unwrap()),
    }
}

haft_testkit::store_conformance!(home);
