//! The store itself.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use haft_api::{
    Diagnostic, ListThreads, NewThread, ReadRange, RecordPage, Result, StoreCapabilities, ThreadId,
    ThreadMetadata, ThreadPage, ThreadStore, ThreadWriter, async_trait,
};

use crate::blocking::blocking;
use crate::config::{DurabilityPolicy, JsonlConfig};
use crate::create::create;
use crate::disk::{FileOps, SystemFiles};
use crate::family::Families;
use crate::index::Index;
use crate::layout::Layout;
use crate::read;
use crate::thread_log::ThreadLog;
use crate::writer::JsonlWriter;

/// Threads as files below a home folder; see the [crate's documentation](crate).
///
/// Several stores, in one process or many, may share a home. A clone is the
/// same store.
#[derive(Clone)]
pub struct JsonlStore {
    shared: Arc<Shared>,
}

struct Shared {
    layout: Arc<Layout>,
    index: Arc<Index>,
    families: Families,
    policy: DurabilityPolicy,
}

impl JsonlStore {
    /// Opens the store in a home folder, which is made, with mode 0700, if it
    /// doesn't exist. Does a little file work and blocks for it.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`](haft_api::ErrorKind::Denied) and
    /// [`ErrorKind::Unavailable`](haft_api::ErrorKind::Unavailable) if the folder
    /// can't be made or opened; the path is named.
    pub fn open(home: impl AsRef<Path>, config: JsonlConfig) -> Result<Self> {
        Self::open_with(home.as_ref(), config, Arc::new(SystemFiles))
    }

    pub(crate) fn open_with(
        home: &Path,
        config: JsonlConfig,
        ops: Arc<dyn FileOps>,
    ) -> Result<Self> {
        let (layout, diagnostics) = Layout::open(home, ops)?;
        let layout = Arc::new(layout);
        Ok(Self {
            shared: Arc::new(Shared {
                index: Arc::new(Index::new(Arc::clone(&layout), diagnostics)),
                layout,
                families: Families::default(),
                policy: config.durability,
            }),
        })
    }

    /// Does file work of an operation about a thread.
    async fn work<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Shared) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let shared = Arc::clone(&self.shared);
        blocking(move || work(&shared))
            .await
            .map_err(|e| e.operation(operation))
    }
}

impl fmt::Debug for JsonlStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonlStore")
            .field("threads", &self.shared.layout.threads().path())
            .field("durability", &self.shared.policy)
            .finish()
    }
}

#[async_trait]
impl ThreadStore for JsonlStore {
    fn capabilities(&self) -> StoreCapabilities {
        let mut capabilities = StoreCapabilities::default();
        capabilities.survives_restart = true;
        capabilities.survives_power_loss = self.shared.policy.keeps_barriers();
        capabilities.cross_process_lease = true;
        capabilities
    }

    async fn create(&self, thread: NewThread) -> Result<Box<dyn ThreadWriter>> {
        let create = |shared: &Shared| {
            create(&shared.layout, &shared.index, shared.policy, thread).map(JsonlWriter::new)
        };
        Ok(Box::new(self.work("create", create).await?))
    }

    async fn open_writer(&self, thread: &ThreadId) -> Result<Box<dyn ThreadWriter>> {
        let thread = thread.clone();
        let open = move |shared: &Shared| {
            let folder = shared.layout.thread(&thread)?;
            let index = Arc::clone(&shared.index);
            ThreadLog::open(folder, &thread, shared.policy, index).map(JsonlWriter::new)
        };
        Ok(Box::new(self.work("open_writer", open).await?))
    }

    async fn read(&self, thread: &ThreadId, range: ReadRange) -> Result<RecordPage> {
        let thread = thread.clone();
        self.work("read", move |shared| {
            read::read_page(&shared.layout, &thread, range)
        })
        .await
    }

    async fn metadata(&self, thread: &ThreadId) -> Result<ThreadMetadata> {
        let thread = thread.clone();
        self.work("metadata", move |shared| {
            read::metadata(&shared.layout, &thread)
        })
        .await
    }

    async fn list(&self, request: ListThreads) -> Result<ThreadPage> {
        self.work("list", move |shared| shared.index.list(&request))
            .await
    }

    async fn delete(&self, thread: &ThreadId) -> Result<()> {
        let thread = thread.clone();
        let delete = move |shared: &Shared| {
            shared
                .families
                .delete(&shared.layout, shared.policy, &thread)
        };
        self.work("delete", delete).await
    }

    async fn check(&self, thread: &ThreadId) -> Result<Vec<Diagnostic>> {
        let thread = thread.clone();
        self.work("check", move |shared| read::check(&shared.layout, &thread))
            .await
    }
}
