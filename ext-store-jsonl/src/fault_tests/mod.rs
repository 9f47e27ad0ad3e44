//! The store on a disk that fails, and at the hands of a machine that dies.

mod crash;
mod disk;
mod failures;

use std::path::Path;
use std::sync::Arc;

use haft_api::{NewRecord, NewThread, ReadRange, Record, ThreadId, ThreadStore};

use crate::config::{DurabilityPolicy, JsonlConfig};
use crate::store::JsonlStore;
use disk::TestDisk;

fn open(
    home: &Path,
    policy: DurabilityPolicy,
    disk: &Arc<TestDisk>,
) -> haft_api::Result<JsonlStore> {
    let config = JsonlConfig::default().durability(policy);
    JsonlStore::open_with(home, config, Arc::clone(disk) as _)
}

fn id(text: &str) -> ThreadId {
    ThreadId::new(text).unwrap()
}

fn new(text: &str) -> NewThread {
    NewThread::new(id(text))
}

fn notes(texts: &[&str]) -> Vec<NewRecord> {
    texts
        .iter()
        .map(|text| NewRecord::new("note", text).unwrap())
        .collect()
}

/// All records of a thread and the codes of what was said of it.
async fn read(
    store: &JsonlStore,
    id: &ThreadId,
) -> haft_api::Result<(Vec<Record>, Vec<haft_api::DiagnosticCode>)> {
    let page = store.read(id, ReadRange::ALL).await?;
    assert_eq!(page.next, None);
    let codes = page
        .diagnostics
        .iter()
        .map(|diagnostic| diagnostic.code)
        .collect();
    Ok((page.records, codes))
}

fn texts(records: &[Record]) -> Vec<String> {
    let notes = records.iter().filter(|record| record.kind == "note");
    notes.map(|record| record.parse().unwrap()).collect()
}
