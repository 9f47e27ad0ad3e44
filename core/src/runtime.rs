//! The runtime: parts in, threads out.

mod builder;
mod commands;
mod engines;
mod import;
mod shared;
mod tools;

use std::sync::Arc;

use haft_api::{
    Binding, Destination, DestinationId, Diagnostic, Error, ErrorKind, EventBody, ExtensionId,
    ForkPoint, ListThreads, MetadataPatch, NewThread, Registry, Result, ThreadId, ThreadPage,
};

use serde_json::value::RawValue;

pub use builder::RuntimeBuilder;
pub use import::{ImportReport, Piece};
pub(crate) use shared::Shared;
pub use tools::ToolRun;

use crate::guard;
use crate::thread::{Thread, keys, log::Log};

/// A running set of parts: engines, tools, runners and one store.
///
/// Cheap to clone. Nothing in it is global: a process may have many.
#[derive(Clone)]
pub struct Runtime {
    shared: Arc<Shared>,
}

/// What a thread is created with.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ThreadOptions {
    /// Its id; `None` makes a fresh one, in order of time.
    pub id: Option<ThreadId>,
    /// Its title.
    pub title: Option<String>,
    /// The local folder of an unbound thread; absolute.
    pub workspace: Option<String>,
    /// Where its side effects happen; `None` is the runtime's default runner,
    /// if it names a workspace, else the local folder.
    pub runner: Option<RunnerSelection>,
}

/// A runner for a thread: what its binding is made of.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunnerSelection {
    /// The provider.
    pub provider_id: ExtensionId,
    /// The provider's settings, a JSON object. No secrets.
    pub config: Box<RawValue>,
    /// What has to be there, in the provider's words.
    pub manifest: Option<Box<RawValue>>,
    /// The folder that relative paths start from; absolute.
    pub workspace: String,
    /// Further folders that may be read; absolute.
    pub read_roots: Vec<String>,
}

impl RunnerSelection {
    /// A provider with its default settings, and a folder of its.
    pub fn new(provider_id: ExtensionId, workspace: impl Into<String>) -> Self {
        Self {
            provider_id,
            config: haft_api::raw_json("{}").expect("an empty object is valid JSON"),
            manifest: None,
            workspace: workspace.into(),
            read_roots: Vec::new(),
        }
    }

    /// Sets the provider's settings.
    #[must_use]
    pub fn config(mut self, config: Box<RawValue>) -> Self {
        self.config = config;
        self
    }

    fn binding(self, thread: &ThreadId) -> Result<Binding> {
        let destination = Destination {
            id: DestinationId::new(format!("thread-{thread}"))?,
            provider_id: self.provider_id,
            config: self.config,
            manifest: self.manifest,
        };
        Ok(Binding {
            destination,
            workspace: self.workspace,
            read_roots: self.read_roots,
        })
    }
}

impl Runtime {
    /// Begins a runtime of these parts.
    pub fn builder(registry: Registry) -> RuntimeBuilder {
        RuntimeBuilder::new(registry)
    }

    /// The parts.
    pub fn registry(&self) -> &Registry {
        &self.shared.registry
    }

    /// What kept tools or their contributors out when the runtime was built.
    pub fn problems(&self) -> &[Error] {
        &self.shared.problems
    }

    /// Creates a thread; it is in the store when this returns.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`] for an id that is taken;
    /// [`ErrorKind::InvalidInput`] for a path that isn't absolute;
    /// [`ErrorKind::NotFound`] for a runner that isn't installed; what the
    /// runner says of its settings; what the store fails with.
    pub async fn create_thread(&self, options: ThreadOptions) -> Result<Thread> {
        let id = match options.id {
            Some(id) => id,
            None => ThreadId::new(uuid::Uuid::now_v7().to_string())?,
        };
        let mut metadata = MetadataPatch::default();
        if let Some(title) = options.title {
            metadata = metadata.title(title);
        }
        if let Some(workspace) = &options.workspace {
            if !std::path::Path::new(workspace).is_absolute() {
                return Err(
                    Error::new(ErrorKind::InvalidInput, "a workspace must be absolute")
                        .context("workspace", workspace),
                );
            }
            metadata = metadata.set(keys::WORKSPACE, raw(workspace)?);
        }
        let binding = match options.runner {
            Some(runner) => Some(runner.binding(&id)?),
            None => self.shared.default_binding(&id)?,
        };
        if let Some(binding) = &binding {
            self.shared.check_binding(binding)?;
            metadata = metadata.set(keys::BINDING, raw(binding)?);
        }
        let mut new = NewThread::new(id.clone());
        new.metadata = metadata;
        self.create(new, None).await
    }

    async fn create(&self, new: NewThread, parent: Option<ThreadId>) -> Result<Thread> {
        let id = new.id.clone();
        let store = &self.shared.store;
        let created = guard::future("thread store", store.create(new)).await;
        let writer = created.map_err(|e| e.operation("create").context("thread", &id))?;
        let log = Log::created(&self.shared, &id, writer).await?;
        let thread = Thread::new(Arc::clone(&self.shared), log);
        self.shared.remember(&thread);
        thread
            .inner
            .hub
            .tell_of_creation(EventBody::ThreadCreated { parent });
        Ok(thread)
    }

    /// Opens a thread for reading; its writer is taken with the first write.
    /// One that is open already is the same thread.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; what the store fails with.
    pub async fn open_thread(&self, id: &ThreadId) -> Result<Thread> {
        if let Some(open) = self.shared.open(id) {
            return Ok(open);
        }
        let log = Log::read(&self.shared, id)
            .await
            .map_err(|e| e.context("thread", id))?;
        // Two that opened it at once get one and the same.
        Ok(self
            .shared
            .remember(&Thread::new(Arc::clone(&self.shared), log)))
    }

    /// Creates a thread that goes on where another one stands, or stood at the
    /// record `at`. The history is shared, not copied.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is no such thread;
    /// [`ErrorKind::InvalidInput`] if it has no such record; what the store
    /// fails with.
    pub async fn fork_thread(
        &self,
        parent: &ThreadId,
        at: Option<u64>,
        id: Option<ThreadId>,
    ) -> Result<Thread> {
        let store = &self.shared.store;
        let metadata = guard::future("thread store", store.metadata(parent)).await?;
        let last = metadata.next_seq.saturating_sub(1);
        let seq = at.unwrap_or(last);
        if seq > last {
            return Err(
                Error::new(ErrorKind::InvalidInput, "the thread has no such record")
                    .context("thread", parent)
                    .context("record", seq)
                    .context("last", last),
            );
        }
        let id = match id {
            Some(id) => id,
            None => ThreadId::new(uuid::Uuid::now_v7().to_string())?,
        };
        let mut new = NewThread::new(id);
        new.parent = Some(ForkPoint {
            thread: parent.clone(),
            seq,
        });
        // A fork starts with its parent's place, but with a sandbox of its own.
        for key in [keys::WORKSPACE, keys::BINDING] {
            if let Some(value) = metadata.extra.get(key) {
                new.metadata = new.metadata.set(key, value.clone());
            }
        }
        if let Some(title) = metadata.title {
            new.metadata = new.metadata.title(title);
        }
        self.create(new, Some(parent.clone())).await
    }

    /// Lists threads, the one changed last first.
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn list_threads(&self, request: ListThreads) -> Result<ThreadPage> {
        guard::future("thread store", self.shared.store.list(request)).await
    }

    /// Deletes a thread.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] while it is open for writing here or elsewhere;
    /// [`ErrorKind::NotFound`].
    pub async fn delete_thread(&self, id: &ThreadId) -> Result<()> {
        guard::future("thread store", self.shared.store.delete(id)).await
    }

    /// Reads all of a thread and says what is amiss with its log and its
    /// history. Changes nothing.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; what the store fails with.
    pub async fn check_thread(&self, id: &ThreadId) -> Result<Vec<Diagnostic>> {
        let mut found = guard::future("thread store", self.shared.store.check(id)).await?;
        let log = Log::read(&self.shared, id).await?;
        for diagnostic in log.folded.diagnostics {
            if !found.contains(&diagnostic) {
                found.push(diagnostic);
            }
        }
        Ok(found)
    }
}

fn raw(value: &impl serde::Serialize) -> Result<Box<RawValue>> {
    serde_json::value::to_raw_value(value)
        .map_err(|error| Error::new(ErrorKind::InvalidInput, error.to_string()).source(error))
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime")
            .field("registry", &self.shared.registry)
            .finish()
    }
}
