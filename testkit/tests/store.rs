//! The store suite passes on an honest store.

use haft_testkit::{FaultStore, MemoryStore};

haft_testkit::store_conformance!(|| {
    let store = MemoryStore::new();
    move || std::future::ready(Ok(store.reopen().shared()))
});

/// A wrapper without faults changes nothing.
mod wrapped {
    use super::*;

    haft_testkit::store_conformance!(|| {
        let store = MemoryStore::new();
        move || std::future::ready(Ok(FaultStore::new(store.reopen().shared()).shared()))
    });
}
