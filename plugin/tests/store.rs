//! Stores through the boundary.

use std::sync::Arc;
use std::time::Duration;

use haft_api::{
    Durability, Error, ErrorKind, MetadataPatch, NewRecord, NewThread, StoreOptions, ThreadId,
    ThreadStore, raw_json,
};
use haft_testkit::{FaultStore, MemoryStore, MemoryStoreFactory, StoreOperation};

mod support;

use support::{Loaded, within};

fn plugged(store: Arc<dyn ThreadStore>) -> Loaded {
    Loaded::in_process(move |registry| {
        registry.store(Arc::new(MemoryStoreFactory::new(Arc::clone(&store))));
    })
}

async fn open(loaded: &Loaded) -> Arc<dyn ThreadStore> {
    let [factory] = loaded.registry.stores() else {
        panic!("one store");
    };
    within(factory.part.open(StoreOptions::new("/home")))
        .await
        .unwrap()
}

// Each promise of a store, kept through the boundary.
haft_testkit::store_conformance!(|| {
    let store = MemoryStore::new();
    move || {
        let loaded = plugged(store.reopen().shared());
        async move { Ok(open(&loaded).await) }
    }
});

fn thread(name: &str) -> ThreadId {
    ThreadId::new(name).unwrap()
}

fn record() -> NewRecord {
    NewRecord {
        kind: "x".to_owned(),
        data: raw_json("1").unwrap(),
    }
}

#[tokio::test]
async fn a_writer_knows_where_it_stands() {
    let loaded = plugged(MemoryStore::new().shared());
    let store = open(&loaded).await;
    assert_eq!(
        store.capabilities(),
        MemoryStore::new().shared().capabilities()
    );
    let mut writer = store.create(NewThread::new(thread("a"))).await.unwrap();
    assert_eq!((writer.thread().as_str(), writer.next_seq()), ("a", 1));
    writer
        .append(vec![record(), record()], Durability::Barrier)
        .await
        .unwrap();
    assert_eq!(writer.next_seq(), 3);
    let patch = MetadataPatch::default().title("t");
    let metadata = writer.patch_metadata(patch).await.unwrap();
    assert_eq!(metadata.title.as_deref(), Some("t"));
    // Whatever the patch wrote, both sides agree.
    assert_eq!(
        store.metadata(&thread("a")).await.unwrap().next_seq,
        writer.next_seq()
    );
    let busy = store.open_writer(&thread("a")).await.err().unwrap();
    assert_eq!(busy.kind(), ErrorKind::Busy);
    drop(writer);
    let writer = store.open_writer(&thread("a")).await.unwrap();
    writer.close().await.unwrap();
    assert!(store.check(&thread("a")).await.unwrap().is_empty());
    store.delete(&thread("a")).await.unwrap();
    drop(store);
    loaded.at_rest().await;
}

#[tokio::test]
async fn an_append_that_is_cancelled_leaves_a_writer_that_works() {
    let faulty = FaultStore::new(MemoryStore::new().shared());
    let loaded = plugged(faulty.shared());
    let store = open(&loaded).await;
    let mut writer = store.create(NewThread::new(thread("a"))).await.unwrap();
    let gate = haft_testkit::Gate::new();
    faulty
        .faults()
        .on(StoreOperation::Append)
        .next()
        .hold(&gate);
    let held = writer.append(vec![record()], Durability::Buffered);
    let cancelled = tokio::time::timeout(Duration::from_millis(20), held).await;
    assert!(cancelled.is_err());
    gate.open();
    let full = Error::new(ErrorKind::Unavailable, "the disk is full");
    faulty.faults().on(StoreOperation::Append).next().fail(full);
    let failed = writer.append(vec![record()], Durability::Buffered).await;
    assert_eq!(failed.unwrap_err().message(), "the disk is full");
    let appended = writer.append(vec![record()], Durability::Buffered).await;
    assert_eq!(appended.unwrap().first_seq, 1);
    assert_eq!(writer.next_seq(), 2);
    // The last known is what is answered once nobody is there.
    loaded.plugin.close();
    assert_eq!(writer.next_seq(), 2);
    let gone = writer.append(vec![record()], Durability::Buffered).await;
    assert_eq!(gone.unwrap_err().kind(), ErrorKind::Unavailable);
}
