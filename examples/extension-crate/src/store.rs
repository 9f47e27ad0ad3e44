//! A store: threads in memory.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haft_api::{
    Appended, Durability, Error, ErrorKind, ExtensionId, ListThreads, MetadataPatch, NewRecord,
    NewThread, ReadRange, Record, RecordPage, Result, StoreCapabilities, StoreOptions, ThreadId,
    ThreadMetadata, ThreadPage, ThreadStore, ThreadStoreFactory, ThreadWriter, async_trait,
    unix_ms_now,
};

/// Opens stores that end with their last user.
pub(crate) struct Ephemeral {
    id: ExtensionId,
}

impl Ephemeral {
    pub(crate) fn new() -> Result<Self> {
        let id = ExtensionId::new("ephemeral")?;
        Ok(Self { id })
    }
}

#[async_trait]
impl ThreadStoreFactory for Ephemeral {
    fn id(&self) -> &ExtensionId {
        &self.id
    }

    async fn open(&self, _: StoreOptions) -> Result<Arc<dyn ThreadStore>> {
        Ok(Arc::new(Store::default()))
    }
}

struct Thread {
    metadata: ThreadMetadata,
    records: Vec<Record>,
    /// Its place in the order of changes.
    changed: u64,
    has_writer: bool,
}

#[derive(Default)]
struct Threads {
    by_id: BTreeMap<ThreadId, Thread>,
    changes: u64,
}

type Shared = Arc<Mutex<Threads>>;

fn lock(threads: &Shared) -> MutexGuard<'_, Threads> {
    threads.lock().unwrap_or_else(PoisonError::into_inner)
}

fn error(kind: ErrorKind, what: &str, thread: &ThreadId) -> Error {
    Error::new(kind, what).context("thread", thread)
}

impl Threads {
    fn get(&mut self, id: &ThreadId) -> Result<&mut Thread> {
        let found = self.by_id.get_mut(id);
        found.ok_or_else(|| error(ErrorKind::NotFound, "no such thread", id))
    }

    /// A thread that is about to change.
    fn change(&mut self, id: &ThreadId) -> Result<&mut Thread> {
        self.changes += 1;
        let changes = self.changes;
        let thread = self.get(id)?;
        thread.changed = changes;
        thread.metadata.updated_ms = unix_ms_now();
        Ok(thread)
    }
}

#[derive(Default)]
struct Store {
    threads: Shared,
}

#[async_trait]
impl ThreadStore for Store {
    fn capabilities(&self) -> StoreCapabilities {
        StoreCapabilities::default()
    }

    async fn create(&self, new: NewThread) -> Result<Box<dyn ThreadWriter>> {
        {
            let mut threads = lock(&self.threads);
            if threads.by_id.contains_key(&new.id) {
                let what = "there is such a thread already";
                return Err(error(ErrorKind::AlreadyExists, what, &new.id));
            }
            let records = match &new.parent {
                None => vec![number(NewRecord::new("header", &new.id)?, 0)],
                Some(fork) => {
                    let parent = &threads.get(&fork.thread)?.records;
                    let records = parent.iter().take_while(|record| record.seq <= fork.seq);
                    let records: Vec<_> = records.cloned().collect();
                    if records.last().is_none_or(|last| last.seq != fork.seq) {
                        let what = "the parent has no such record";
                        return Err(error(ErrorKind::InvalidInput, what, &fork.thread));
                    }
                    records
                }
            };
            let mut metadata = ThreadMetadata::new(new.id.clone(), unix_ms_now());
            metadata.apply(&new.metadata);
            metadata.parent = new.parent;
            metadata.next_seq = records.len() as u64;
            let thread = Thread {
                metadata,
                records,
                changed: 0,
                has_writer: false,
            };
            threads.by_id.insert(new.id.clone(), thread);
            threads.change(&new.id)?;
        }
        self.open_writer(&new.id).await
    }

    async fn open_writer(&self, id: &ThreadId) -> Result<Box<dyn ThreadWriter>> {
        let mut threads = lock(&self.threads);
        let thread = threads.get(id)?;
        if thread.has_writer {
            let what = "somebody else writes to this thread";
            return Err(error(ErrorKind::Busy, what, id).context("holder", "this process"));
        }
        thread.has_writer = true;
        Ok(Box::new(Writer {
            id: id.clone(),
            next_seq: thread.metadata.next_seq,
            threads: Arc::clone(&self.threads),
        }))
    }

    async fn read(&self, id: &ThreadId, range: ReadRange) -> Result<RecordPage> {
        let mut threads = lock(&self.threads);
        let records = &threads.get(id)?.records;
        let place = |seq: u64| {
            usize::try_from(seq)
                .unwrap_or(usize::MAX)
                .min(records.len())
        };
        let mut page = RecordPage::default();
        match range {
            ReadRange::Forward { seq, limit } => {
                let from = place(seq);
                let end = from.saturating_add(limit.unwrap_or(usize::MAX).max(1));
                let end = end.min(records.len());
                page.records = records[from..end].to_vec();
                page.next = (end < records.len()).then_some(end as u64);
            }
            ReadRange::Backward { before, limit } => {
                let end = before.map_or(records.len(), place);
                let from = end.saturating_sub(limit.max(1));
                page.records = records[from..end].to_vec();
                page.next = (from > 0).then_some(from as u64);
            }
        }
        Ok(page)
    }

    async fn metadata(&self, id: &ThreadId) -> Result<ThreadMetadata> {
        Ok(lock(&self.threads).get(id)?.metadata.clone())
    }

    async fn list(&self, request: ListThreads) -> Result<ThreadPage> {
        let before = request.cursor.map(|cursor| {
            cursor.parse().map_err(|_| {
                Error::new(ErrorKind::InvalidInput, "not a cursor of this store")
                    .context("cursor", &cursor)
            })
        });
        let before = before.transpose()?.unwrap_or(u64::MAX);
        let threads = lock(&self.threads);
        let mut found: Vec<_> = threads
            .by_id
            .values()
            .filter(|thread| thread.changed < before)
            .filter(|thread| request.archived || !thread.metadata.archived)
            .collect();
        found.sort_by_key(|thread| Reverse(thread.changed));
        let limit = request.limit.unwrap_or(usize::MAX).max(1);
        let mut page = ThreadPage::default();
        if found.len() > limit {
            page.next = Some(found[limit - 1].changed.to_string());
            found.truncate(limit);
        }
        page.threads = found.iter().map(|thread| thread.metadata.clone()).collect();
        Ok(page)
    }

    async fn delete(&self, id: &ThreadId) -> Result<()> {
        let mut threads = lock(&self.threads);
        if threads.get(id)?.has_writer {
            return Err(error(ErrorKind::Busy, "somebody writes to this thread", id));
        }
        threads.by_id.remove(id);
        Ok(())
    }
}

fn number(record: NewRecord, seq: u64) -> Record {
    Record {
        seq,
        time_ms: unix_ms_now(),
        kind: record.kind,
        data: record.data,
    }
}

struct Writer {
    id: ThreadId,
    next_seq: u64,
    threads: Shared,
}

#[async_trait]
impl ThreadWriter for Writer {
    fn thread(&self) -> &ThreadId {
        &self.id
    }

    fn next_seq(&self) -> u64 {
        self.next_seq
    }

    async fn append(&mut self, group: Vec<NewRecord>, _: Durability) -> Result<Appended> {
        let mut threads = lock(&self.threads);
        let thread = threads.change(&self.id)?;
        let first_seq = self.next_seq;
        let records = (first_seq..)
            .zip(group)
            .map(|(seq, record)| number(record, seq));
        thread.records.extend(records);
        self.next_seq = thread.records.len() as u64;
        thread.metadata.next_seq = self.next_seq;
        Ok(Appended::new(first_seq, thread.metadata.updated_ms))
    }

    async fn patch_metadata(&mut self, patch: MetadataPatch) -> Result<ThreadMetadata> {
        let mut threads = lock(&self.threads);
        let thread = threads.change(&self.id)?;
        thread.metadata.apply(&patch);
        Ok(thread.metadata.clone())
    }

    async fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Ok(thread) = lock(&self.threads).get(&self.id) {
            thread.has_writer = false;
        }
    }
}
