//! The sandboxes of a runner in memory, which outlive any runtime.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use haft_api::{
    Binding, Error, ErrorKind, ProcessId, ProcessSpec, Result, SessionId, SessionState,
};

use super::Setup;
use super::files::Tree;
use super::lease::Leases;
use super::path::Roots;
use super::process::Process;
use crate::lock::lock;

/// A session's id from text of a test, or of this crate.
pub(super) fn session_id(text: &str) -> SessionId {
    SessionId::new(text).unwrap_or_else(|e| panic!("{text:?} stands in a test as an id: {e}"))
}

/// Everything that is there.
#[derive(Default)]
pub(super) struct World {
    inner: Mutex<Inner>,
    pub(super) leases: Leases,
}

#[derive(Default)]
struct Inner {
    sandboxes: BTreeMap<SessionId, Arc<Sandbox>>,
    created: Vec<Binding>,
    resumed: Vec<SessionState>,
    processes: Vec<ProcessSpec>,
    made: usize,
}

impl World {
    pub(super) fn created(&self) -> Vec<Binding> {
        lock(&self.inner).created.clone()
    }

    pub(super) fn resumed(&self) -> Vec<SessionState> {
        lock(&self.inner).resumed.clone()
    }

    pub(super) fn processes(&self) -> Vec<ProcessSpec> {
        lock(&self.inner).processes.clone()
    }

    pub(super) fn sandboxes(&self) -> Vec<SessionId> {
        lock(&self.inner).sandboxes.keys().cloned().collect()
    }

    pub(super) fn note_creation(&self, binding: &Binding) {
        lock(&self.inner).created.push(binding.clone());
    }

    pub(super) fn note_resumption(&self, state: &SessionState) {
        lock(&self.inner).resumed.push(state.clone());
    }

    pub(super) fn note_process(&self, spec: &ProcessSpec) {
        lock(&self.inner).processes.push(spec.clone());
    }

    pub(super) fn find(&self, id: &SessionId) -> Option<Arc<Sandbox>> {
        lock(&self.inner).sandboxes.get(id).cloned()
    }

    /// The one sandbox that all threads have, or a new one.
    pub(super) fn sandbox_for(&self, setup: &Setup, binding: &Binding) -> Result<Arc<Sandbox>> {
        let mut inner = lock(&self.inner);
        let id = match &setup.one_session {
            Some(id) => id.clone(),
            None => {
                inner.made += 1;
                session_id(&format!("{}-{}", setup.id, inner.made))
            }
        };
        if let Some(sandbox) = inner.sandboxes.get(&id) {
            sandbox.wake();
            return Ok(Arc::clone(sandbox));
        }
        let sandbox = Arc::new(Sandbox::new(id.clone(), setup, binding)?);
        inner.sandboxes.insert(id, Arc::clone(&sandbox));
        Ok(sandbox)
    }

    pub(super) fn lose(&self, id: &SessionId) {
        let sandbox = lock(&self.inner).sandboxes.remove(id);
        if let Some(sandbox) = sandbox {
            sandbox.end();
        }
    }
}

/// How a sandbox is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Awake,
    Asleep,
    Over,
}

/// One sandbox.
pub(super) struct Sandbox {
    pub(super) id: SessionId,
    pub(super) roots: Roots,
    pub(super) files: Mutex<Tree>,
    pub(super) processes: Mutex<BTreeMap<ProcessId, Arc<Process>>>,
    state: Mutex<State>,
}

struct State {
    life: Life,
    attachments: u64,
    snapshots: u64,
}

impl Sandbox {
    fn new(id: SessionId, setup: &Setup, binding: &Binding) -> Result<Self> {
        let roots = Roots::new(binding);
        let mut files = Tree::new(&roots);
        for (path, bytes) in &setup.files {
            files.put(&roots, path, bytes.clone())?;
        }
        Ok(Self {
            id,
            roots,
            files: Mutex::new(files),
            processes: Mutex::default(),
            state: Mutex::new(State {
                life: Life::Awake,
                attachments: 0,
                snapshots: 0,
            }),
        })
    }

    /// Counts a session that attaches, and returns its number.
    pub(super) fn attach(&self) -> u64 {
        let mut state = lock(&self.state);
        state.attachments += 1;
        state.attachments
    }

    /// Takes a snapshot, and returns its name.
    pub(super) fn take_snapshot(&self) -> String {
        let mut state = lock(&self.state);
        state.snapshots += 1;
        format!("{}-snapshot-{}", self.id, state.snapshots)
    }

    /// The name of the last snapshot.
    pub(super) fn snapshot(&self) -> Option<String> {
        let snapshots = lock(&self.state).snapshots;
        (snapshots > 0).then(|| format!("{}-snapshot-{snapshots}", self.id))
    }

    pub(super) fn wake(&self) {
        let mut state = lock(&self.state);
        if state.life == Life::Asleep {
            state.life = Life::Awake;
        }
    }

    pub(super) fn sleep(&self) {
        let mut state = lock(&self.state);
        if state.life == Life::Awake {
            state.life = Life::Asleep;
        }
    }

    /// Ends it and all that runs in it.
    pub(super) fn end(&self) {
        lock(&self.state).life = Life::Over;
        let processes = std::mem::take(&mut *lock(&self.processes));
        for process in processes.into_values() {
            process.kill();
        }
    }

    /// Whether it can be used.
    pub(super) fn check(&self) -> Result<()> {
        let problem = match lock(&self.state).life {
            Life::Awake => return Ok(()),
            Life::Asleep => "the sandbox is paused: resume it first",
            Life::Over => "the sandbox is gone",
        };
        Err(Error::new(ErrorKind::Unavailable, problem).context("session", &self.id))
    }

    pub(super) fn content(&self, path: &str) -> Option<Vec<u8>> {
        lock(&self.files).content(&self.roots, path)
    }

    pub(super) fn put(&self, path: &str, bytes: Vec<u8>) {
        let put = lock(&self.files).put(&self.roots, path, bytes);
        put.unwrap_or_else(|e| panic!("{path} can't be put into {}: {e}", self.id));
    }

    pub(super) fn put_link(&self, path: &str, target: &str) {
        let put = lock(&self.files).put_link(&self.roots, path, target);
        put.unwrap_or_else(|e| panic!("{path} can't be put into {}: {e}", self.id));
    }
}
