//! Extension crates of this workspace, unchanged, as shared objects.

use std::sync::Arc;

use haft_api::{Result, StoreOptions, ThreadStore, ThreadStoreFactory, async_trait};
use haft_testkit::StoreFixture;

mod support;

use support::{Loaded, extension_crate, root};

/// A home of its own, and the JSONL store as a plug-in.
struct Home {
    folder: tempfile::TempDir,
    factory: Arc<dyn ThreadStoreFactory>,
}

#[async_trait]
impl StoreFixture for Home {
    async fn open(&self) -> Result<Arc<dyn ThreadStore>> {
        let home = self.folder.path().join("home");
        let options = StoreOptions::new(home.display().to_string());
        self.factory.open(options).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_jsonl_store() {
    // Before the suite: building takes longer than a case may.
    let loaded = Loaded::new(&extension_crate(&root(), "haft-ext-store-jsonl"));
    let factory = Arc::clone(loaded.registry.store("jsonl").expect("the store"));
    let suite = haft_testkit::store_suite(move || Home {
        folder: tempfile::tempdir().expect("a temporary folder"),
        factory: Arc::clone(&factory),
    });
    haft_testkit::run_all(suite).await.assert_kept();
    loaded.at_rest().await;
}
