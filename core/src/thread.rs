//! A thread in memory: its log, its events, its one turn at a time.

mod approvals;
pub(crate) mod arguments;
pub(crate) mod fold;
pub(crate) mod history;
mod journal;
pub(crate) mod log;
pub(crate) mod records;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use haft_api::{
    Binding, Diagnostic, Durability, EngineMemo, Event, ExtensionId, Item, MetadataPatch,
    NoticeLevel, RemoteRunnerSession, Result, SessionState, ThreadId, ThreadMetadata, TurnId,
    Usage, async_trait,
};

use crate::events::{EventHub, Subscription};
use crate::runtime::Shared;
use crate::turn::ActiveTurn;
use crate::workspace::{Place, StateKeeper, Workspace};

use approvals::Desk;
pub(crate) use journal::ThreadJournal;
use log::Log;
use records::ThreadRecord;
pub use records::TurnStatus;

/// The names under which the runtime keeps its own metadata.
pub(crate) mod keys {
    pub(crate) const WORKSPACE: &str = "workspace";
    pub(crate) const BINDING: &str = "binding";
    pub(crate) const SESSION_STATE: &str = "session_state";
}

/// An item and where it stands.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ThreadItem {
    /// The number of its record.
    pub seq: u64,
    /// The turn it belongs to.
    pub turn: Option<TurnId>,
    /// The item.
    pub item: Arc<Item>,
}

/// A page of a thread's items.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ThreadItems {
    /// The items, oldest first, the results of a round in call order.
    pub items: Vec<ThreadItem>,
    /// What was found amiss when the thread was read.
    pub diagnostics: Vec<Diagnostic>,
    /// Tokens of all its turns.
    pub usage: Usage,
    /// Tokens of all its rounds, by who answered them. May be less than
    /// [`usage`](Self::usage) where a log was damaged.
    pub models: Vec<ModelUsage>,
}

/// Tokens of the rounds that one model answered.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelUsage {
    /// The engine.
    pub engine: ExtensionId,
    /// The model, if its name is known.
    pub model: Option<String>,
    /// The tokens.
    pub usage: Usage,
}

impl ModelUsage {
    /// No tokens of an engine's unnamed model.
    pub fn new(engine: ExtensionId) -> Self {
        Self {
            engine,
            model: None,
            usage: Usage::default(),
        }
    }
}

/// A thread. Cheap to clone; the thread stays open while one clone lives.
#[derive(Clone)]
pub struct Thread {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) id: ThreadId,
    pub(crate) shared: Arc<Shared>,
    pub(crate) hub: EventHub,
    pub(crate) log: tokio::sync::Mutex<Log>,
    pub(crate) desk: Desk,
    /// The turn that runs, or is about to.
    pub(crate) active: Mutex<Option<Arc<ActiveTurn>>>,
    memos: Mutex<HashMap<ExtensionId, EngineMemo>>,
    workspace: OnceLock<Arc<Workspace>>,
    /// Fixed when the thread is opened: a binding doesn't change.
    metadata: ThreadMetadata,
}

impl Thread {
    pub(crate) fn new(shared: Arc<Shared>, log: Log) -> Self {
        let metadata = log.metadata().clone();
        let id = metadata.id.clone();
        let sinks = shared.sinks();
        let inner = Inner {
            hub: EventHub::new(id.clone(), log.next_event(), sinks),
            id,
            shared,
            log: tokio::sync::Mutex::new(log),
            desk: Desk::default(),
            active: Mutex::default(),
            memos: Mutex::default(),
            workspace: OnceLock::new(),
            metadata,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The thread's id.
    pub fn id(&self) -> &ThreadId {
        &self.inner.id
    }

    /// What is known of it, as of the last change made here.
    pub async fn metadata(&self) -> ThreadMetadata {
        self.inner.log.lock().await.metadata().clone()
    }

    /// Changes the title or other metadata.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`](haft_api::ErrorKind::Busy) if another process writes
    /// to the thread; what the store fails with.
    pub async fn patch_metadata(&self, patch: MetadataPatch) -> Result<ThreadMetadata> {
        self.inner.patch_metadata(patch).await
    }

    /// The thread's events from now on. `capacity` is how many lossy ones may
    /// wait for a slow reader.
    pub fn subscribe(&self, capacity: usize) -> Subscription {
        self.inner.hub.subscribe(capacity)
    }

    /// The lossless events with numbers from `from` to `to`: what a subscriber
    /// that was away, or lagged, needs to catch up. From memory where they are
    /// recent, else rebuilt from the store with the numbers they had.
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn events(&self, from: u64, to: u64) -> Result<Vec<Event>> {
        let (recent, complete) = self.inner.hub.recent(from, to);
        if complete {
            return Ok(recent);
        }
        let first_recent = recent.first().map_or(u64::MAX, |event| event.seq);
        let mut events = log::stored_events(&self.inner.shared, &self.inner.id, from, to).await?;
        events.retain(|event| event.seq < first_recent);
        events.extend(recent);
        Ok(events)
    }

    /// The items before the record `before` (`None`: the end), at most `limit`
    /// of them.
    pub async fn items(&self, before: Option<u64>, limit: usize) -> ThreadItems {
        self.inner.log.lock().await.items(before, limit)
    }

    /// Puts the workspace's sandbox to sleep, made first if need be, and stores
    /// its handle. The next tool that needs it wakes it.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](haft_api::ErrorKind::Unsupported) if the
    /// runner can't; [`ErrorKind::Denied`](haft_api::ErrorKind::Denied) if the
    /// thread has no workspace; what the runner or the store fails with.
    pub async fn pause_workspace(&self) -> Result<SessionState> {
        self.inner.workspace().pause().await
    }

    /// Wakes the workspace's sandbox, or makes it, and gives its session.
    ///
    /// # Errors
    /// As [`pause_workspace`](Self::pause_workspace).
    pub async fn resume_workspace(&self) -> Result<Arc<dyn RemoteRunnerSession>> {
        self.inner.workspace().session().await
    }

    /// Lets go of the workspace's sandbox without ending it, and stores the
    /// handle by which it can be rejoined.
    ///
    /// # Errors
    /// As [`pause_workspace`](Self::pause_workspace).
    pub async fn detach_workspace(&self) -> Result<SessionState> {
        self.inner.workspace().detach().await
    }

    /// Reattaches to the sandbox of the stored handle. Never makes one.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](haft_api::ErrorKind::NotFound) if there is no
    /// handle, or the sandbox is gone; what the runner or the store fails with.
    pub async fn rejoin_workspace(&self) -> Result<Arc<dyn RemoteRunnerSession>> {
        self.inner.workspace().rejoin().await
    }

    /// Ends the workspace's sandbox if it is live.
    ///
    /// # Errors
    /// If it may still be there.
    pub async fn close_workspace(&self) -> Result<()> {
        self.inner.workspace().close().await
    }

    /// The questions that wait for an answer: approvals and external calls of
    /// the turn under way, and approvals that an earlier process asked for.
    pub async fn open_requests(&self) -> Vec<OpenRequest> {
        self.inner.open_requests().await
    }
}

pub use approvals::OpenRequest;

impl std::fmt::Debug for Thread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Thread").field(&self.inner.id).finish()
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    pub(crate) fn memo(&self, engine: &ExtensionId) -> EngineMemo {
        lock(&self.memos).entry(engine.clone()).or_default().clone()
    }

    /// The thread's workspace: its binding, or the local directory, or nowhere.
    pub(crate) fn workspace(self: &Arc<Self>) -> Arc<Workspace> {
        let make = || {
            let extra = |key: &str| self.metadata.extra.get(key);
            let stored = extra(keys::SESSION_STATE)
                .and_then(|raw| serde_json::from_str::<SessionState>(raw.get()).ok());
            let place = match extra(keys::BINDING) {
                Some(raw) => self.bound(raw.get()),
                None => {
                    let workspace = extra(keys::WORKSPACE)
                        .and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
                    self.shared.local_place(&self.id, workspace)
                }
            };
            Arc::new(self.shared.workspace(place, stored))
        };
        Arc::clone(self.workspace.get_or_init(make))
    }

    fn bound(self: &Arc<Self>, binding: &str) -> Place {
        let binding = match serde_json::from_str::<Binding>(binding) {
            Ok(binding) => binding,
            Err(error) => {
                return Place::Nowhere(format!("the stored binding can't be read: {error}"));
            }
        };
        let id = &binding.destination.provider_id;
        match self.shared.registry.runner(id.as_str()) {
            Some(provider) => Place::Bound {
                provider: Arc::clone(provider),
                keeper: Arc::new(Keeper(Arc::downgrade(self))),
                binding,
            },
            None => Place::Nowhere(format!("the runner `{id}` is not installed")),
        }
    }
}

/// Keeps the session's handle in the thread's metadata.
struct Keeper(Weak<Inner>);

#[async_trait]
impl StateKeeper for Keeper {
    async fn keep(&self, state: &SessionState) -> Result<()> {
        // A thread that was closed meanwhile keeps nothing: its sandbox is
        // found again by the destination's id.
        let Some(thread) = self.0.upgrade() else {
            return Ok(());
        };
        let raw = serde_json::value::to_raw_value(state).map_err(|error| {
            haft_api::Error::new(
                haft_api::ErrorKind::Unexpected,
                "a session's state isn't JSON",
            )
            .source(error)
        })?;
        let patch = MetadataPatch::default().set(keys::SESSION_STATE, raw);
        thread.patch_metadata(patch).await.map(drop)
    }

    async fn lost(&self, reason: &str) -> Result<()> {
        let Some(thread) = self.0.upgrade() else {
            return Ok(());
        };
        let notice = Item::Notice {
            level: NoticeLevel::Warning,
            code: "workspace_lost".to_owned(),
            text: format!("the workspace is gone, a fresh one takes its place: {reason}"),
        };
        let turn = lock(&thread.active).as_ref().map(|turn| turn.id.clone());
        let record = ThreadRecord::Item(Arc::new(notice));
        let mut log = thread.log.lock().await;
        thread
            .append(&mut log, turn.as_ref(), &[record], Durability::Barrier)
            .await
    }
}
