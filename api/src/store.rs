//! Stores: where threads live.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind, Result};
use crate::id::{ExtensionId, ThreadId};
use crate::record::{Diagnostic, NewRecord, Record};

/// When an append's records must be on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Handed to the operating system: survives `kill -9`, not a power cut.
    Buffered,
    /// A barrier: on the disk, with all that was written before, when the
    /// append returns (under a store's policy that says so).
    Barrier,
}

/// What a thread is created with.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NewThread {
    /// Its id.
    pub id: ThreadId,
    /// Its first metadata.
    pub metadata: MetadataPatch,
    /// The thread it continues, if it is a fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ForkPoint>,
}

impl NewThread {
    /// A thread with no metadata and no parent.
    pub fn new(id: ThreadId) -> Self {
        Self {
            id,
            metadata: MetadataPatch::default(),
            parent: None,
        }
    }
}

/// Where a fork leaves its parent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkPoint {
    /// The parent.
    pub thread: ThreadId,
    /// The last of its records that the fork has, too.
    pub seq: u64,
}

/// What is known of a thread without reading its log.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ThreadMetadata {
    /// Its id.
    pub id: ThreadId,
    /// When it was created, in milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// When something was last appended.
    pub updated_ms: u64,
    /// The number of the next record.
    pub next_seq: u64,
    /// Its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whether it was put away.
    #[serde(default)]
    pub archived: bool,
    /// The parent, if it is a fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ForkPoint>,
    /// Further values by name: the runtime's (`workspace`, `binding`,
    /// `session_state`, …) and extensions'.
    #[serde(default)]
    pub extra: std::collections::BTreeMap<String, Box<RawValue>>,
}

impl ThreadMetadata {
    /// A thread of which nothing but this is known.
    pub fn new(id: ThreadId, created_ms: u64) -> Self {
        Self {
            id,
            created_ms,
            updated_ms: created_ms,
            next_seq: 0,
            title: None,
            archived: false,
            parent: None,
            extra: std::collections::BTreeMap::new(),
        }
    }

    /// Applies a patch.
    pub fn apply(&mut self, patch: &MetadataPatch) {
        if let Some(title) = &patch.title {
            self.title = (!title.is_empty()).then(|| title.clone());
        }
        if let Some(archived) = patch.archived {
            self.archived = archived;
        }
        for (name, value) in &patch.extra {
            match value {
                Some(value) => self.extra.insert(name.clone(), value.clone()),
                None => self.extra.remove(name),
            };
        }
    }
}

/// A change of metadata. What isn't named stays.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MetadataPatch {
    /// A new title; the empty one removes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whether it is put away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<bool>,
    /// Further values; `null` removes one.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub extra: std::collections::BTreeMap<String, Option<Box<RawValue>>>,
}

impl MetadataPatch {
    /// Sets one further value.
    #[must_use]
    pub fn set(mut self, name: impl Into<String>, value: Box<RawValue>) -> Self {
        self.extra.insert(name.into(), Some(value));
        self
    }

    /// Sets the title.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }
}

/// Which records to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "snake_case")]
pub enum ReadRange {
    /// From this number on, oldest first.
    Forward {
        /// The first record.
        seq: u64,
        /// Most records in the page; `None` leaves it to the store.
        limit: Option<usize>,
    },
    /// The last ones before this number, given oldest first. `None` is the end.
    Backward {
        /// The record after the last one.
        before: Option<u64>,
        /// Most records in the page.
        limit: usize,
    },
}

impl ReadRange {
    /// Everything, in as many pages as the store likes.
    pub const ALL: Self = Self::Forward {
        seq: 0,
        limit: None,
    };
}

/// A page of records.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecordPage {
    /// The records, by number.
    pub records: Vec<Record>,
    /// Forward: the number to go on with, if there is more. Backward: the
    /// number to go on before, if there is more.
    pub next: Option<u64>,
    /// What was found amiss while reading this page.
    pub diagnostics: Vec<Diagnostic>,
}

impl RecordPage {
    /// The number to go on with after this page, which was read forward from
    /// `seq`; `None` if it was the last one. Whoever reads all pages asks this,
    /// lest a store at fault keeps them for ever.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) if the page says that
    /// there is more, but leads no further: its `next` isn't after `seq`, or
    /// there is nothing in it.
    pub fn next_after(&self, seq: u64) -> Result<Option<u64>> {
        let Some(next) = self.next else {
            return Ok(None);
        };
        let is_empty = self.records.is_empty() && self.diagnostics.is_empty();
        if next > seq && !is_empty {
            return Ok(Some(next));
        }
        let what = match is_empty {
            true => "with nothing in it",
            false => "that leads back",
        };
        Err(Error::new(
            ErrorKind::Corrupt,
            format!("the store is at fault: it gave a page {what} and said that there is more"),
        )
        .context("seq", seq)
        .context("next", next))
    }
}

/// Which threads to list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ListThreads {
    /// Where the page before ended.
    pub cursor: Option<String>,
    /// Most threads in a page; `None` leaves it to the store.
    pub limit: Option<usize>,
    /// Whether to include those put away.
    pub archived: bool,
}

impl ListThreads {
    /// The next page after this cursor.
    #[must_use]
    pub fn after(mut self, cursor: impl Into<String>) -> Self {
        self.cursor = Some(cursor.into());
        self
    }

    /// At most so many in a page.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }
}

/// A page of threads, the one changed last first.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ThreadPage {
    /// The threads.
    pub threads: Vec<ThreadMetadata>,
    /// Where to go on, if there is more.
    pub next: Option<String>,
    /// Threads that couldn't be read, and why.
    pub diagnostics: Vec<Diagnostic>,
}

/// What a store can do beyond what all must.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct StoreCapabilities {
    /// What is acknowledged survives the end of the process.
    pub survives_restart: bool,
    /// What a barrier acknowledged survives a power cut.
    pub survives_power_loss: bool,
    /// The writer's lease holds across processes.
    pub cross_process_lease: bool,
}

/// Keeps threads.
///
/// # For implementers
/// - An append is one durable group: after a crash all of its records are there
///   or the ones from some point on aren't, never a hole; what was acknowledged
///   with [`Durability::Barrier`] is there.
/// - One writer per thread, across processes where
///   [`StoreCapabilities::cross_process_lease`] says so; readers are never
///   blocked and repair nothing.
/// - Unknown record kinds are kept byte for byte.
/// - A failed append changed nothing that a reader can see; the writer may be
///   used again unless it says otherwise.
///
/// ```
/// use haft_api::*;
///
/// async fn titles(store: &dyn ThreadStore) -> Result<Vec<String>> {
///     let mut titles = Vec::new();
///     let mut request = ListThreads::default();
///     loop {
///         let page = store.list(request.clone()).await?;
///         titles.extend(page.threads.into_iter().filter_map(|thread| thread.title));
///         match page.next {
///             Some(next) => request = request.after(next),
///             None => return Ok(titles),
///         }
///     }
/// }
/// ```
#[async_trait]
#[diagnostic::on_unimplemented(
    message = "`{Self}` isn't a thread store",
    note = "implement `haft_api::ThreadStore` (with `#[haft_api::async_trait]`) and hand a `ThreadStoreFactory` for it to `ExtensionRegistryBuilder::store`"
)]
pub trait ThreadStore: Send + Sync + 'static {
    /// What it can do. Constant.
    fn capabilities(&self) -> StoreCapabilities;

    /// Creates a thread, durably, and opens it for writing. Its record 0 is a
    /// header that the store makes.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`](crate::ErrorKind::AlreadyExists).
    async fn create(&self, thread: NewThread) -> Result<Box<dyn ThreadWriter>>;

    /// Takes the thread's writer. What a crash left is repaired at the first
    /// append.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`](crate::ErrorKind::Busy), naming the holder, if
    /// somebody has it; [`ErrorKind::NotFound`](crate::ErrorKind::NotFound).
    async fn open_writer(&self, thread: &ThreadId) -> Result<Box<dyn ThreadWriter>>;

    /// Reads a page of records. A fork's begin with its parent's.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound). Damage is no error
    /// but a diagnostic.
    async fn read(&self, thread: &ThreadId, range: ReadRange) -> Result<RecordPage>;

    /// What is known of a thread.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound).
    async fn metadata(&self, thread: &ThreadId) -> Result<ThreadMetadata>;

    /// Lists threads, the one changed last first. A thread that can't be read
    /// costs its own line, not the list.
    ///
    /// # Errors
    /// If the store itself can't be read, or the cursor isn't one of its own.
    async fn list(&self, request: ListThreads) -> Result<ThreadPage>;

    /// Deletes a thread and all that is its own.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`](crate::ErrorKind::Busy) while somebody writes to it;
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound).
    async fn delete(&self, thread: &ThreadId) -> Result<()>;

    /// Reads all of a thread's log and says what is amiss with it. Changes
    /// nothing.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound), and as
    /// [`read`](Self::read) and [`RecordPage::next_after`].
    async fn check(&self, thread: &ThreadId) -> Result<Vec<Diagnostic>> {
        let mut diagnostics = Vec::new();
        let mut seq = 0;
        loop {
            let page = self
                .read(thread, ReadRange::Forward { seq, limit: None })
                .await?;
            let next = page.next_after(seq);
            diagnostics.extend(page.diagnostics);
            match next.map_err(|e| e.context("thread", thread))? {
                Some(next) => seq = next,
                None => return Ok(diagnostics),
            }
        }
    }
}

/// What an append did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Appended {
    /// The number of the group's first record.
    pub first_seq: u64,
    /// When the group was written, in milliseconds since the Unix epoch.
    pub time_ms: u64,
    /// What was repaired on the way.
    pub diagnostics: Vec<Diagnostic>,
}

impl Appended {
    /// An append with nothing amiss.
    pub fn new(first_seq: u64, time_ms: u64) -> Self {
        Self {
            first_seq,
            time_ms,
            diagnostics: Vec::new(),
        }
    }
}

/// A thread's one writer. Dropping it lets go of the thread.
///
/// A future of it that is dropped half-way leaves the thread in a state that
/// the next append copes with: the group was written whole or not at all.
///
/// ```
/// use haft_api::*;
///
/// async fn note(writer: &mut dyn ThreadWriter, text: &str) -> Result<u64> {
///     let record = NewRecord::new("my_extension.note", &text)?;
///     Ok(writer.append(vec![record], Durability::Barrier).await?.first_seq)
/// }
/// ```
#[async_trait]
pub trait ThreadWriter: Send + Sync + 'static {
    /// The thread. Constant.
    fn thread(&self) -> &ThreadId;

    /// The number the next record will get, as far as is known now: a repair
    /// may add one of its own before it.
    fn next_seq(&self) -> u64;

    /// Appends a group of records.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) (full disk,
    /// lost lease, failed barrier), [`ErrorKind::Denied`](crate::ErrorKind::Denied)
    /// (a newer format is read-only).
    async fn append(&mut self, group: Vec<NewRecord>, durability: Durability) -> Result<Appended>;

    /// Changes the metadata, durably, and returns them as they are now.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    async fn patch_metadata(&mut self, patch: MetadataPatch) -> Result<ThreadMetadata>;

    /// Makes all that was appended durable and lets go of the thread.
    ///
    /// # Errors
    /// If something that was appended may not be durable.
    async fn close(self: Box<Self>) -> Result<()>;
}

/// Opens a store by its configuration.
///
/// ```
/// use std::sync::Arc;
/// use haft_api::*;
///
/// struct Nowhere(ExtensionId);
///
/// #[async_trait]
/// impl ThreadStoreFactory for Nowhere {
///     fn id(&self) -> &ExtensionId {
///         &self.0
///     }
///     async fn open(&self, options: StoreOptions) -> Result<Arc<dyn ThreadStore>> {
///         Err(Error::new(ErrorKind::Unsupported, "this store keeps nothing")
///             .context("home", options.home))
///     }
/// }
/// ```
#[async_trait]
#[diagnostic::on_unimplemented(
    message = "`{Self}` doesn't open thread stores",
    note = "implement `haft_api::ThreadStoreFactory` (with `#[haft_api::async_trait]`)"
)]
pub trait ThreadStoreFactory: Send + Sync + 'static {
    /// The store's id, as users write it. Constant.
    fn id(&self) -> &ExtensionId;

    /// Opens the store.
    ///
    /// # Errors
    /// If it can't be had, or the configuration isn't right; it names the
    /// setting or the path.
    async fn open(&self, options: StoreOptions) -> Result<Arc<dyn ThreadStore>>;
}

/// What a store is opened with.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StoreOptions {
    /// The folder that belongs to the runtime; stores on disk live in it.
    pub home: String,
    /// The store's own settings, a JSON object.
    pub config: Box<RawValue>,
}

impl StoreOptions {
    /// Default settings in this folder.
    pub fn new(home: impl Into<String>) -> Self {
        let empty = RawValue::from_string("{}".to_owned());
        Self {
            home: home.into(),
            config: empty.expect("an empty object is valid JSON"),
        }
    }
}

#[cfg(test)]
mod tests;
