//! A store whose operations fail when a test wants them to.

use std::fmt;
use std::sync::Arc;

use haft_api::{
    Appended, Diagnostic, Durability, ListThreads, MetadataPatch, NewRecord, NewThread, ReadRange,
    RecordPage, Result, StoreCapabilities, ThreadId, ThreadMetadata, ThreadPage, ThreadStore,
    ThreadWriter, async_trait,
};

#[cfg(doc)]
use crate::crash::CrashMoment;
use crate::faults::Faults;
use crate::journal::{Journal, JournalEntry};

/// What can be made to fail in a [`FaultStore`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum StoreOperation {
    /// [`ThreadStore::create`].
    Create,
    /// [`ThreadStore::open_writer`].
    OpenWriter,
    /// [`ThreadWriter::append`], of any thread.
    Append,
    /// [`ThreadWriter::append`] with [`Durability::Barrier`]; counted as an
    /// append as well.
    Barrier,
    /// [`ThreadWriter::patch_metadata`].
    PatchMetadata,
    /// [`ThreadWriter::close`].
    Close,
    /// [`ThreadStore::read`].
    Read,
    /// [`ThreadStore::metadata`].
    Metadata,
    /// [`ThreadStore::list`].
    List,
    /// [`ThreadStore::delete`].
    Delete,
}

/// Wraps any store: counts what is done, makes it slow or fail, ends it at any
/// point as a crash does, and writes each acknowledged append into a [`Journal`].
///
/// | what happens to the store | how a test says so |
/// |---|---|
/// | a full disk | `on(Append).nth(n).fail(error)` |
/// | a barrier that fails (`EIO` of `fdatasync`) | `on(Barrier).nth(n).fail_after(error)` |
/// | a slow disk | `on(Append).always().delay(time)` |
/// | a disk that hangs | `on(Append).next().stall()`, or `hold(&gate)` |
/// | a process that is killed | [`crash_at`](Faults::crash_at) with [`CrashMoment::Before`], `Within` or `After` |
/// | one that is killed in mid-write | the same with [`CrashMoment::Torn`] |
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> haft_api::Result<()> {
/// use haft_api::*;
/// use haft_testkit::{FaultStore, MemoryStore, StoreOperation, fixture};
///
/// let store = FaultStore::new(MemoryStore::new().shared());
/// let full = || Error::new(ErrorKind::Unavailable, "no space left");
/// store.faults().on(StoreOperation::Append).nth(0).fail(full());
/// store.faults().on(StoreOperation::Append).nth(1).fail_after(full());
///
/// let mut writer = store.create(NewThread::new(fixture::thread_id("t1"))).await?;
/// let note = || vec![NewRecord::new("note", &1).unwrap()];
/// assert!(writer.append(note(), Durability::Buffered).await.is_err(), "nothing written");
/// assert!(writer.append(note(), Durability::Buffered).await.is_err(), "written, then failed");
/// assert_eq!(writer.append(note(), Durability::Barrier).await?.first_seq, 2);
/// assert_eq!(store.faults().on(StoreOperation::Barrier).count(), 1);
/// # Ok(())
/// # }
/// ```
///
/// # Crashes
/// A story is told over and over, and each time the process ends in another of
/// its operations. Then the store is opened anew, without faults, and whatever
/// was acknowledged must be there. [`store_conformance!`](crate::store_conformance)
/// does this with a story of its own; for yours:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> haft_api::Result<()> {
/// use haft_api::*;
/// use haft_testkit::{CrashMoment, FaultStore, MemoryStore, fixture};
///
/// /// Returns how many notes were acknowledged.
/// async fn story(store: &FaultStore) -> usize {
///     let thread = NewThread::new(fixture::thread_id("t"));
///     let Ok(mut writer) = store.create(thread).await else { return 0 };
///     for number in 0..5 {
///         let note = vec![NewRecord::new("note", &number).unwrap()];
///         if writer.append(note, Durability::Barrier).await.is_err() {
///             return number;
///         }
///     }
///     5
/// }
///
/// for moment in CrashMoment::ALL {
///     for number in 0.. {
///         let disk = MemoryStore::new(); // the place that your store is opened in
///         let store = FaultStore::new(disk.shared());
///         store.faults().crash_at(number, moment);
///         let acknowledged = story(&store).await;
///         let crashed = store.faults().is_crashed();
///         drop(store);
///
///         let store = disk.reopen();
///         if let Ok(page) = store.read(&fixture::thread_id("t"), ReadRange::ALL).await {
///             assert!(page.records.len() > acknowledged, "{number} {moment:?}");
///         } else {
///             assert_eq!(acknowledged, 0);
///         }
///         if !crashed {
///             break; // the story came to its end
///         }
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// That is a process's end. What a power cut takes from files that weren't
/// synced is beyond a wrapper; a store of files is best put on a file system in
/// an image of which a copy is made at a random moment.
#[derive(Clone)]
pub struct FaultStore {
    inner: Arc<dyn ThreadStore>,
    faults: Faults<StoreOperation>,
    journal: Journal,
}

impl FaultStore {
    /// A store without faults, and with a journal of its own.
    pub fn new(inner: Arc<dyn ThreadStore>) -> Self {
        Self {
            inner,
            faults: Faults::new(),
            journal: Journal::new(),
        }
    }

    /// Writes into this journal: the one that the runtime under test publishes
    /// into.
    #[must_use]
    pub fn with_journal(mut self, journal: &Journal) -> Self {
        self.journal = journal.clone();
        self
    }

    /// Where faults are put in, and operations are counted.
    pub fn faults(&self) -> &Faults<StoreOperation> {
        &self.faults
    }

    /// What was acknowledged, in order.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The store as a trait object.
    pub fn shared(&self) -> Arc<dyn ThreadStore> {
        Arc::new(self.clone())
    }

    fn wrap(&self, writer: Box<dyn ThreadWriter>) -> Box<dyn ThreadWriter> {
        Box::new(FaultWriter {
            inner: writer,
            faults: self.faults.clone(),
            journal: self.journal.clone(),
        })
    }
}

impl fmt::Debug for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultStore")
            .field("faults", &self.faults)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl ThreadStore for FaultStore {
    fn capabilities(&self) -> StoreCapabilities {
        self.inner.capabilities()
    }

    async fn create(&self, thread: NewThread) -> Result<Box<dyn ThreadWriter>> {
        let created = self.inner.create(thread);
        let writer = self.faults.run(StoreOperation::Create, created).await?;
        Ok(self.wrap(writer))
    }

    async fn open_writer(&self, thread: &ThreadId) -> Result<Box<dyn ThreadWriter>> {
        let opened = self.inner.open_writer(thread);
        let writer = self.faults.run(StoreOperation::OpenWriter, opened).await?;
        Ok(self.wrap(writer))
    }

    async fn read(&self, thread: &ThreadId, range: ReadRange) -> Result<RecordPage> {
        let read = self.inner.read(thread, range);
        self.faults.run(StoreOperation::Read, read).await
    }

    async fn metadata(&self, thread: &ThreadId) -> Result<ThreadMetadata> {
        let metadata = self.inner.metadata(thread);
        self.faults.run(StoreOperation::Metadata, metadata).await
    }

    async fn list(&self, request: ListThreads) -> Result<ThreadPage> {
        let list = self.inner.list(request);
        self.faults.run(StoreOperation::List, list).await
    }

    async fn delete(&self, thread: &ThreadId) -> Result<()> {
        let delete = self.inner.delete(thread);
        self.faults.run(StoreOperation::Delete, delete).await
    }

    async fn check(&self, thread: &ThreadId) -> Result<Vec<Diagnostic>> {
        self.inner.check(thread).await
    }
}

struct FaultWriter {
    inner: Box<dyn ThreadWriter>,
    faults: Faults<StoreOperation>,
    journal: Journal,
}

#[async_trait]
impl ThreadWriter for FaultWriter {
    fn thread(&self) -> &ThreadId {
        self.inner.thread()
    }

    fn next_seq(&self) -> u64 {
        self.inner.next_seq()
    }

    async fn append(&mut self, group: Vec<NewRecord>, durability: Durability) -> Result<Appended> {
        let thread = self.inner.thread().clone();
        let run = self.faults.begin(StoreOperation::Append);
        let mut group = group;
        if run.is_torn() {
            group.truncate(group.len() / 2);
        }
        let records = group.clone();
        let append = self.inner.append(group, durability);
        let appended = run.run_part(async {
            match durability {
                Durability::Buffered => append.await,
                Durability::Barrier => {
                    let barrier = self.faults.run_within(StoreOperation::Barrier, append);
                    barrier.await
                }
            }
        });
        let appended = appended.await?;
        self.journal.push(JournalEntry::Stored {
            thread,
            first_seq: appended.first_seq,
            records,
            durability,
        });
        Ok(appended)
    }

    async fn patch_metadata(&mut self, patch: MetadataPatch) -> Result<ThreadMetadata> {
        let patched = self.inner.patch_metadata(patch);
        self.faults
            .run(StoreOperation::PatchMetadata, patched)
            .await
    }

    async fn close(self: Box<Self>) -> Result<()> {
        let closed = self.inner.close();
        self.faults.run(StoreOperation::Close, closed).await
    }
}
