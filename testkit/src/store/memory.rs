//! A store in memory.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use haft_api::{
    Error, ErrorKind, ExtensionId, ForkPoint, ListThreads, NewThread, ReadRange, Record,
    RecordPage, Result, StoreCapabilities, StoreOptions, ThreadId, ThreadMetadata, ThreadPage,
    ThreadStore, ThreadStoreFactory, ThreadWriter, async_trait, raw_json, unix_ms_now,
};

use super::writer::MemoryWriter;
use crate::fixture::extension_id;
use crate::lock::lock;

/// Most records of a page for which nobody named a number. Small, so that tests
/// meet more than one page.
const RECORDS_PER_PAGE: usize = 256;
/// Most threads of a page for which nobody named a number.
const THREADS_PER_PAGE: usize = 50;

/// One thread.
pub(super) struct Thread {
    pub(super) metadata: ThreadMetadata,
    pub(super) records: Vec<Record>,
    /// When it last changed, on the store's own clock.
    pub(super) changed: u64,
    /// Since when it has a writer.
    pub(super) writer_since_ms: Option<u64>,
}

/// All threads of a store.
#[derive(Default)]
pub(super) struct Threads {
    by_id: BTreeMap<ThreadId, Thread>,
    clock: u64,
}

impl Threads {
    /// A time later than all before.
    pub(super) fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    pub(super) fn get(&self, id: &ThreadId) -> Result<&Thread> {
        self.by_id.get(id).ok_or_else(|| not_found(id))
    }

    pub(super) fn get_mut(&mut self, id: &ThreadId) -> Result<&mut Thread> {
        self.by_id.get_mut(id).ok_or_else(|| not_found(id))
    }
}

fn not_found(id: &ThreadId) -> Error {
    Error::new(ErrorKind::NotFound, "there is no such thread").context("thread", id)
}

/// An honest store that keeps everything in memory: what a runtime needs of a
/// store, without a disk.
///
/// Clones, and handles made by [`reopen`](Self::reopen), have the same threads
/// and contend for the same writers, as processes do on one disk. So it says of
/// itself that it survives a restart: to a test, a new handle is one. Nothing
/// survives the end of the process.
///
/// It takes nothing that a store on disk would have to refuse: record kinds
/// must be words, and data must be free of line breaks between tokens.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> haft_api::Result<()> {
/// use haft_api::{Durability, NewRecord, NewThread, ReadRange, ThreadStore};
/// use haft_testkit::{MemoryStore, fixture};
///
/// let store = MemoryStore::new();
/// let thread = fixture::thread_id("t1");
/// let mut writer = store.create(NewThread::new(thread.clone())).await?;
/// writer.append(vec![NewRecord::new("note", &"hello")?], Durability::Barrier).await?;
/// writer.close().await?;
///
/// let page = store.reopen().read(&thread, ReadRange::ALL).await?;
/// assert_eq!(page.records[1].data.get(), r#""hello""#);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct MemoryStore {
    threads: Arc<Mutex<Threads>>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Another handle to the same threads, as a restarted process would open.
    #[must_use]
    pub fn reopen(&self) -> Self {
        self.clone()
    }

    /// The store as a trait object.
    pub fn shared(&self) -> Arc<dyn ThreadStore> {
        Arc::new(self.clone())
    }

    /// Every record of a thread, for assertions.
    ///
    /// # Panics
    /// If there is no such thread.
    pub fn records(&self, thread: &ThreadId) -> Vec<Record> {
        match lock(&self.threads).get(thread) {
            Ok(thread) => thread.records.clone(),
            Err(error) => panic!("{error}"),
        }
    }

    /// The ids of all threads.
    pub fn threads(&self) -> Vec<ThreadId> {
        lock(&self.threads).by_id.keys().cloned().collect()
    }

    fn take_writer(&self, id: &ThreadId) -> Result<Box<dyn ThreadWriter>> {
        let mut threads = lock(&self.threads);
        let thread = threads.get_mut(id)?;
        if let Some(since) = thread.writer_since_ms {
            return Err(busy(id, since).operation("open_writer"));
        }
        thread.writer_since_ms = Some(unix_ms_now());
        let next_seq = thread.metadata.next_seq;
        Ok(Box::new(MemoryWriter::new(
            Arc::clone(&self.threads),
            id.clone(),
            next_seq,
        )))
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = self.threads().len();
        f.debug_struct("MemoryStore")
            .field("threads", &threads)
            .finish()
    }
}

fn busy(id: &ThreadId, since_ms: u64) -> Error {
    let holder = format!("process {} since {since_ms}", std::process::id());
    Error::new(ErrorKind::Busy, "somebody else writes to this thread")
        .context("thread", id)
        .context("holder", holder)
}

/// The records that a fork begins with.
fn inherited(threads: &Threads, fork: &ForkPoint) -> Result<Vec<Record>> {
    let parent = threads.get(&fork.thread)?;
    let count = usize::try_from(fork.seq)
        .unwrap_or(usize::MAX)
        .saturating_add(1);
    match parent.records.get(..count) {
        Some(records) => Ok(records.to_vec()),
        None => Err(Error::new(
            ErrorKind::InvalidInput,
            "the fork's parent has no such record",
        )
        .context("parent", &fork.thread)
        .context("record", fork.seq)),
    }
}

/// The record that opens a thread which is no fork.
fn header(thread: &NewThread, now: u64) -> Result<Record> {
    Ok(Record {
        seq: 0,
        time_ms: now,
        kind: "header".to_owned(),
        data: raw_json(format!(r#"{{"format":1,"id":"{}"}}"#, thread.id))?,
    })
}

#[async_trait]
impl ThreadStore for MemoryStore {
    fn capabilities(&self) -> StoreCapabilities {
        let mut capabilities = StoreCapabilities::default();
        capabilities.survives_restart = true;
        capabilities.cross_process_lease = true;
        capabilities
    }

    async fn create(&self, new: NewThread) -> Result<Box<dyn ThreadWriter>> {
        {
            let mut threads = lock(&self.threads);
            if threads.by_id.contains_key(&new.id) {
                return Err(
                    Error::new(ErrorKind::AlreadyExists, "there is such a thread already")
                        .operation("create")
                        .context("thread", &new.id),
                );
            }
            let now = unix_ms_now();
            let records = match &new.parent {
                Some(fork) => inherited(&threads, fork)
                    .map_err(|e| e.operation("create").context("thread", &new.id))?,
                None => vec![header(&new, now)?],
            };
            let mut metadata = ThreadMetadata::new(new.id.clone(), now);
            metadata.apply(&new.metadata);
            metadata.parent = new.parent;
            metadata.next_seq = records.len() as u64;
            let thread = Thread {
                metadata,
                records,
                changed: threads.tick(),
                writer_since_ms: None,
            };
            threads.by_id.insert(new.id.clone(), thread);
        }
        self.take_writer(&new.id)
    }

    async fn open_writer(&self, thread: &ThreadId) -> Result<Box<dyn ThreadWriter>> {
        self.take_writer(thread)
    }

    async fn read(&self, thread: &ThreadId, range: ReadRange) -> Result<RecordPage> {
        let threads = lock(&self.threads);
        let records = &threads
            .get(thread)
            .map_err(|e| e.operation("read"))?
            .records;
        let place = |seq: u64| {
            usize::try_from(seq)
                .unwrap_or(usize::MAX)
                .min(records.len())
        };
        let mut page = RecordPage::default();
        match range {
            ReadRange::Forward { seq, limit } => {
                let from = place(seq);
                let limit = limit.unwrap_or(RECORDS_PER_PAGE).max(1);
                let to = from.saturating_add(limit).min(records.len());
                page.records = records[from..to].to_vec();
                page.next = (to < records.len()).then_some(to as u64);
            }
            ReadRange::Backward { before, limit } => {
                let to = before.map_or(records.len(), place);
                let from = to.saturating_sub(limit.max(1));
                page.records = records[from..to].to_vec();
                page.next = (from > 0).then_some(from as u64);
            }
        }
        Ok(page)
    }

    async fn metadata(&self, thread: &ThreadId) -> Result<ThreadMetadata> {
        let threads = lock(&self.threads);
        let thread = threads.get(thread).map_err(|e| e.operation("metadata"))?;
        Ok(thread.metadata.clone())
    }

    async fn list(&self, request: ListThreads) -> Result<ThreadPage> {
        let before = match &request.cursor {
            None => u64::MAX,
            Some(cursor) => cursor.parse().map_err(|_| {
                Error::new(ErrorKind::InvalidInput, "this cursor isn't from this store")
                    .operation("list")
                    .context("cursor", cursor)
            })?,
        };
        let threads = lock(&self.threads);
        let mut found: Vec<&Thread> = threads
            .by_id
            .values()
            .filter(|t| t.changed < before && (request.archived || !t.metadata.archived))
            .collect();
        found.sort_by_key(|thread| Reverse(thread.changed));
        let limit = request.limit.unwrap_or(THREADS_PER_PAGE).max(1);
        let mut page = ThreadPage::default();
        if found.len() > limit {
            page.next = Some(found[limit - 1].changed.to_string());
            found.truncate(limit);
        }
        page.threads = found.into_iter().map(|t| t.metadata.clone()).collect();
        Ok(page)
    }

    async fn delete(&self, id: &ThreadId) -> Result<()> {
        let mut threads = lock(&self.threads);
        let thread = threads.get(id).map_err(|e| e.operation("delete"))?;
        if let Some(since) = thread.writer_since_ms {
            return Err(busy(id, since).operation("delete"));
        }
        threads.by_id.remove(id);
        Ok(())
    }
}

/// Opens one store, whatever the options say: the same one every time, so that
/// a second opening stands for a restart.
#[derive(Clone)]
pub struct MemoryStoreFactory {
    id: ExtensionId,
    store: Arc<dyn ThreadStore>,
}

impl MemoryStoreFactory {
    /// A factory `memory` of this store: a [`MemoryStore`], or one that is
    /// wrapped in a [`FaultStore`](crate::FaultStore).
    pub fn new(store: Arc<dyn ThreadStore>) -> Self {
        Self {
            id: extension_id("memory"),
            store,
        }
    }
}

impl fmt::Debug for MemoryStoreFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStoreFactory")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl ThreadStoreFactory for MemoryStoreFactory {
    fn id(&self) -> &ExtensionId {
        &self.id
    }

    async fn open(&self, _: StoreOptions) -> Result<Arc<dyn ThreadStore>> {
        Ok(Arc::clone(&self.store))
    }
}
