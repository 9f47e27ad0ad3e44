//! The provider of local sessions.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use haft_api::{
    Binding, Destination, Error, ErrorKind, ExtensionId, RemoteRunnerProvider, RemoteRunnerSession,
    Result, Resumed, RunnerCapabilities, SessionId, SessionState, async_trait,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::config::LocalConfig;
use crate::files::{Files, PathLocks};
use crate::session::LocalSession;

/// Makes sessions over local directories.
///
/// A session's workspace is the binding's, which has to be there. The directory
/// outlives its sessions: closing one ends its processes and nothing else.
///
/// Files are confined to the workspace and the read roots. Commands are not
/// confined: they run with the rights of this process, in a clean environment,
/// without a terminal, and (see [`supervise_if_asked`](crate::supervise_if_asked))
/// leave nothing behind.
#[derive(Debug)]
pub struct LocalRunner {
    id: ExtensionId,
    config: LocalConfig,
    /// The program that looks after commands, if there is one.
    supervisor: Option<PathBuf>,
    locks: Arc<PathLocks>,
}

impl LocalRunner {
    /// The provider's id.
    pub const ID: &'static str = "local";

    /// A provider with these settings. No I/O.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`], naming the key that isn't right.
    pub fn new(config: LocalConfig) -> Result<Self> {
        config.check()?;
        let own = || crate::supervisor::answers().then(|| PathBuf::from("/proc/self/exe"));
        let supervisor = config.supervisor.clone().or_else(own);
        Ok(Self {
            id: ExtensionId::new(Self::ID)?,
            supervisor: supervisor.filter(|_| cfg!(target_os = "linux")),
            config,
            locks: Arc::default(),
        })
    }

    fn open(&self, binding: &Binding, session_id: SessionId) -> Result<LocalSession> {
        binding.validate()?;
        self.validate(&binding.destination)?;
        let files = Files::open(
            &binding.workspace,
            &binding.read_roots,
            Arc::clone(&self.locks),
            self.config.max_read_bytes,
        )?;
        let place = StoredPlace {
            inode: files.workspace_inode(),
        };
        Ok(LocalSession {
            state: SessionState {
                provider_id: self.id.clone(),
                session_id,
                destination_id: binding.destination.id.clone(),
                snapshot: None,
                metadata: place.to_json(),
            },
            capabilities: self.capabilities(),
            workspace: binding.workspace.clone(),
            files: Arc::new(files),
            #[cfg(unix)]
            processes: crate::processes::Processes::new(crate::processes::Launcher {
                env: crate::environment::clean(&self.config, std::env::vars_os()),
                supervisor: self.supervisor.clone(),
                output_bytes: self.config.output_buffer_bytes,
                max_processes: self.config.max_processes,
                grace: std::time::Duration::from_millis(self.config.kill_grace_ms),
            }),
            closed: AtomicBool::new(false),
        })
    }
}

/// What a stored session says of its folder, so that another folder in its place
/// isn't taken for it.
#[derive(Serialize, Deserialize, PartialEq)]
struct StoredPlace {
    /// The folder's number in its file system, where it has one.
    inode: Option<u64>,
}

impl StoredPlace {
    fn to_json(&self) -> Option<Box<RawValue>> {
        self.inode?;
        serde_json::value::to_raw_value(self).ok()
    }

    /// What is stored, if it is there and readable.
    fn stored(state: &SessionState) -> Option<Self> {
        serde_json::from_str(state.metadata.as_ref()?.get()).ok()
    }
}

/// A destination's settings: there are none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DestinationConfig {}

#[async_trait]
impl RemoteRunnerProvider for LocalRunner {
    fn id(&self) -> &ExtensionId {
        &self.id
    }

    fn capabilities(&self) -> RunnerCapabilities {
        let mut can = RunnerCapabilities::default();
        can.processes = cfg!(unix);
        can.stdin = cfg!(unix);
        can.ports = true;
        can.kills_process_trees = self.supervisor.is_some();
        can
    }

    fn default_workspace(&self) -> Option<String> {
        self.config.workspace.clone()
    }

    fn validate(&self, destination: &Destination) -> Result<()> {
        let settings = destination.config.get();
        if settings == "null" {
            return Ok(());
        }
        serde_json::from_str::<DestinationConfig>(settings)
            .map(drop)
            .map_err(|e| {
                Error::new(
                    ErrorKind::InvalidInput,
                    format!("the local runner has no settings per destination: {e}"),
                )
                .context("destination", &destination.id)
            })
    }

    async fn create(&self, binding: Binding) -> Result<Arc<dyn RemoteRunnerSession>> {
        let id = SessionId::new(format!("local-{}", uuid::Uuid::now_v7()))?;
        let session = self
            .open(&binding, id)
            .map_err(|e| e.operation("create a session"))?;
        Ok(Arc::new(session))
    }

    async fn resume(&self, binding: Binding, state: SessionState) -> Result<Resumed> {
        if state.provider_id != self.id {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "the stored session is another provider's",
            )
            .operation("resume a session")
            .context("provider", &state.provider_id)
            .context("session", &state.session_id));
        }
        let stored = StoredPlace::stored(&state);
        match self.open(&binding, state.session_id) {
            Ok(session) if stored.is_some() && StoredPlace::stored(&session.state) != stored => {
                Ok(Resumed::Gone {
                    reason: format!(
                        "the folder {} was removed, and there is another one now",
                        binding.workspace
                    ),
                })
            }
            Ok(session) => Ok(Resumed::Session(Arc::new(session))),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(Resumed::Gone {
                reason: e.to_string(),
            }),
            Err(e) => Err(e.operation("resume a session")),
        }
    }
}
