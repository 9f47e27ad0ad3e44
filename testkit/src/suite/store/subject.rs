//! What a case has to do with: a fixture, and short ways through its store.

use std::sync::Arc;

use haft_api::{
    Durability, ListThreads, NewRecord, NewThread, ReadRange, Record, RecordPage, Result, ThreadId,
    ThreadMetadata, ThreadStore, ThreadWriter, raw_json,
};

use super::StoreFixture;
use crate::suite::Unmet;
use crate::suite::expect::{ensure, ok};

/// The fixture of one case.
pub(super) struct Subject {
    fixture: Box<dyn StoreFixture>,
}

impl Subject {
    pub(super) fn new(fixture: Box<dyn StoreFixture>) -> Self {
        Self { fixture }
    }

    /// A handle to the store.
    pub(super) async fn open(&self) -> Result<Store, Unmet> {
        if let Some(reason) = self.fixture.unavailable() {
            return Err(Unmet::NotClaimed(reason));
        }
        Ok(Store(ok("opening the store", self.fixture.open().await)?))
    }
}

/// A handle to a store.
#[derive(Clone)]
pub(super) struct Store(pub(super) Arc<dyn ThreadStore>);

impl Store {
    pub(super) async fn create(&self, id: &ThreadId) -> Result<Box<dyn ThreadWriter>, Unmet> {
        let created = self.0.create(NewThread::new(id.clone())).await;
        ok("creating a thread", created)
    }

    /// Creates a thread with these notes in it and lets go of it.
    pub(super) async fn filled(&self, id: &ThreadId, notes: &[&str]) -> Result<(), Unmet> {
        let mut writer = self.create(id).await?;
        for text in notes {
            append(&mut *writer, &[text]).await?;
        }
        ok("closing the writer", writer.close().await)
    }

    pub(super) async fn writer(&self, id: &ThreadId) -> Result<Box<dyn ThreadWriter>, Unmet> {
        ok("taking the writer", self.0.open_writer(id).await)
    }

    pub(super) async fn metadata(&self, id: &ThreadId) -> Result<ThreadMetadata, Unmet> {
        ok("asking for the metadata", self.0.metadata(id).await)
    }

    pub(super) async fn page(&self, id: &ThreadId, range: ReadRange) -> Result<RecordPage, Unmet> {
        ok("reading a page", self.0.read(id, range).await)
    }

    /// Every record, whatever pages they come in; numbers are contiguous from 0.
    pub(super) async fn all(&self, id: &ThreadId) -> Result<Vec<Record>, Unmet> {
        let mut records: Vec<Record> = Vec::new();
        let mut seq = 0;
        loop {
            let range = ReadRange::Forward { seq, limit: None };
            let page = self.page(id, range).await?;
            records.extend(page.records);
            match page.next {
                Some(next) => {
                    ensure!(
                        next > seq,
                        "expected the next page to go on, got {next} after {seq}"
                    );
                    seq = next;
                }
                None => break,
            }
        }
        for (expected, record) in (0..).zip(&records) {
            ensure!(
                record.seq == expected,
                "expected contiguous numbers, got {} in place of {expected}",
                record.seq
            );
        }
        Ok(records)
    }

    /// The notes of a thread, in order.
    pub(super) async fn notes(&self, id: &ThreadId) -> Result<Vec<String>, Unmet> {
        Ok(notes(&self.all(id).await?))
    }

    /// Every thread of the list, by pages of this size.
    pub(super) async fn list(
        &self,
        mut request: ListThreads,
    ) -> Result<Vec<ThreadMetadata>, Unmet> {
        let mut threads: Vec<ThreadMetadata> = Vec::new();
        loop {
            let page = ok("listing threads", self.0.list(request.clone()).await)?;
            if let Some(limit) = request.limit {
                ensure!(
                    page.threads.len() <= limit,
                    "expected at most {limit} threads in a page, got {}",
                    page.threads.len()
                );
            }
            ensure!(
                page.diagnostics.is_empty(),
                "expected every thread to be readable, got {:?}",
                page.diagnostics
            );
            let empty = page.threads.is_empty();
            threads.extend(page.threads);
            match page.next {
                Some(next) => {
                    ensure!(
                        !empty && request.cursor.as_ref() != Some(&next),
                        "expected each page to go on, got an empty page or the same cursor {next}"
                    );
                    request = request.after(next);
                }
                None => return Ok(threads),
            }
        }
    }

    /// The ids of the list, in its order.
    pub(super) async fn listed(&self) -> Result<Vec<ThreadId>, Unmet> {
        let threads = self.list(ListThreads::default()).await?;
        Ok(threads.into_iter().map(|thread| thread.id).collect())
    }
}

/// A record that is told from others by a text.
pub(super) fn note(text: &str) -> NewRecord {
    let data = serde_json::to_string(text).unwrap_or_default();
    record("conformance.note", &data)
}

/// A record of this kind with these data.
pub(super) fn record(kind: &str, data: &str) -> NewRecord {
    NewRecord {
        kind: kind.to_owned(),
        data: raw_json(data).unwrap_or_else(|error| panic!("{data:?} stands in a case: {error}")),
    }
}

/// Appends a group of notes and returns the first one's number.
pub(super) async fn append(writer: &mut dyn ThreadWriter, texts: &[&str]) -> Result<u64, Unmet> {
    let group = texts.iter().map(|text| note(text)).collect();
    let appended = writer.append(group, Durability::Buffered).await;
    Ok(ok("appending", appended)?.first_seq)
}

/// The texts of those records that are notes.
pub(super) fn notes(records: &[Record]) -> Vec<String> {
    records
        .iter()
        .filter(|record| record.kind == "conformance.note")
        .map(|record| serde_json::from_str(record.data.get()).unwrap_or_default())
        .collect()
}
