//! The provider of local sessions.

#[cfg(target_os = "linux")]
use std::path::PathBuf;
use std::sync::Arc;
#[cfg(target_os = "linux")]
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use haft_api::{
    Binding, Destination, Error, ErrorKind, ExtensionId, RemoteRunnerProvider, RemoteRunnerSession,
    Result, Resumed, RunnerCapabilities, SessionId, SessionState, async_trait,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::config::{LocalConfig, Sandbox};
#[cfg(unix)]
use crate::environment::Variable;
use crate::files::{Files, PathLocks};
#[cfg(unix)]
use crate::processes::Care;
#[cfg(target_os = "linux")]
use crate::sandbox::{Achieved, Profile};
use crate::session::LocalSession;
#[cfg(target_os = "linux")]
use crate::supervisor::Program;

/// Makes sessions over local directories.
///
/// A session's workspace is the binding's, which has to be there. The directory
/// outlives its sessions: closing one ends its processes and nothing else.
///
/// Files are confined to the workspace and the read roots. Commands run in a
/// clean environment, without a terminal unless asked for; on Linux they are
/// confined as [`LocalConfig::sandbox`] says, and (see
/// [`supervise_if_asked`](crate::supervise_if_asked)) leave nothing behind.
#[derive(Debug)]
pub struct LocalRunner {
    id: ExtensionId,
    config: LocalConfig,
    /// The program that looks after commands, or why there is none.
    #[cfg(target_os = "linux")]
    supervisor: Result<Program, String>,
    /// What this machine allows, once that was tried.
    #[cfg(target_os = "linux")]
    tried: OnceLock<Result<Achieved, String>>,
    locks: Arc<PathLocks>,
}

impl LocalRunner {
    /// The provider's id.
    pub const ID: &'static str = "local";

    /// A provider with these settings. No I/O, but a look at which file this code
    /// was loaded from where neither the program nor the settings say who looks
    /// after commands.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`], naming the key that isn't right.
    pub fn new(config: LocalConfig) -> Result<Self> {
        config.check()?;
        Ok(Self {
            id: ExtensionId::new(Self::ID)?,
            #[cfg(target_os = "linux")]
            supervisor: Program::find(config.supervisor.as_ref()),
            #[cfg(target_os = "linux")]
            tried: OnceLock::new(),
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
        #[cfg(unix)]
        let env = self.environment();
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
            #[cfg(unix)]
            processes: crate::processes::Processes::new(crate::processes::Launcher {
                care: self.care(&files, binding, &env),
                env,
                limits: self.config.limits,
                output_bytes: self.config.output_buffer_bytes,
                max_processes: self.config.max_processes,
                grace: std::time::Duration::from_millis(self.config.kill_grace_ms),
            }),
            files: Arc::new(files),
            closed: AtomicBool::new(false),
        })
    }
}

#[cfg(target_os = "linux")]
impl LocalRunner {
    /// What this machine allows: tried once, for which a keeper is started; that
    /// takes some milliseconds.
    fn achieved(&self) -> &Result<Achieved, String> {
        self.tried.get_or_init(|| {
            let program = self.supervisor.as_ref().map_err(Clone::clone)?;
            let mut profile = self.profile(temp_base(), None, Vec::new());
            profile.workspace = profile.temp.clone();
            crate::processes::keeper::probe(program, &profile).map_err(|e| e.to_string())
        })
    }

    /// The program that looks after commands. One that was named, or has said that it
    /// can, is held to that; a shared object is tried, and commands do without where
    /// it can't.
    fn program(&self) -> Option<&Program> {
        match &self.supervisor {
            Ok(Program::Loaded(_)) if self.achieved().is_err() => None,
            found => found.as_ref().ok(),
        }
    }

    /// What commands over a workspace may do.
    fn profile(&self, workspace: PathBuf, named: Option<PathBuf>, read: Vec<PathBuf>) -> Profile {
        let profile = Profile {
            confine: self.config.sandbox != Sandbox::Off,
            namespaces: self.config.namespaces,
            workspace,
            named,
            temp: temp_base().join("haft"),
            home: crate::sandbox::home(),
            hide: crate::sandbox::hidden(&self.config),
            read,
            network: self.config.network,
            limits: self.config.limits,
        };
        profile.fresh()
    }

    fn care(&self, files: &Files, binding: &Binding, env: &[Variable]) -> Care {
        let refused = self.refusal();
        let (Some(program), None) = (self.program(), &refused) else {
            return refused.map_or(Care::Grouped, Care::Refused);
        };
        let workspace = files.workspace_path();
        let named = Some(PathBuf::from(&binding.workspace)).filter(|named| *named != workspace);
        let roots: Vec<_> = binding.read_roots.iter().map(PathBuf::from).collect();
        let read = crate::sandbox::readable(&self.config, env, &roots);
        let mut profile = self.profile(workspace, named, read);
        if profile.confine && profile.workspace.parent().is_none() {
            if self.config.sandbox == Sandbox::Require {
                return Care::Refused("commands can't be confined to a workspace that is the whole machine; choose a folder".to_owned());
            }
            profile.confine = false;
        }
        let promised = match (profile.confine, self.achieved()) {
            (true, Ok(achieved)) => achieved.clone(),
            _ => Achieved::default(),
        };
        profile.namespaces = promised.namespaces;
        Care::Kept {
            program: program.clone(),
            profile: Box::new(profile),
            promised: Box::new(promised),
        }
    }

    /// Why commands don't run here, if they don't.
    fn refusal(&self) -> Option<String> {
        if self.config.sandbox != Sandbox::Require {
            return None;
        }
        let why = match self.achieved() {
            Ok(achieved) if achieved.confines() => return None,
            Ok(achieved) => achieved.missing.join("; "),
            Err(reason) => reason.clone(),
        };
        Some(refusal(&why))
    }

    fn describe(&self) -> String {
        let setting = match self.config.sandbox {
            Sandbox::Require => "require",
            Sandbox::Prefer => "prefer",
            Sandbox::Off => return "commands aren't confined: sandbox = \"off\"".to_owned(),
        };
        match self.achieved() {
            Ok(achieved) => format!("sandbox ({setting}): {achieved}"),
            Err(reason) => format!("sandbox ({setting}): {reason}"),
        }
    }

    /// A session has a temporary folder of its own, where somebody keeps it.
    fn environment(&self) -> Vec<Variable> {
        let own = self.program().is_some();
        let host = std::env::vars_os().filter(|(name, _)| !(own && name == "TMPDIR"));
        crate::environment::clean(&self.config, host)
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
impl LocalRunner {
    fn care(&self, _: &Files, _: &Binding, _: &[Variable]) -> Care {
        self.refusal().map_or(Care::Grouped, Care::Refused)
    }

    fn environment(&self) -> Vec<Variable> {
        crate::environment::clean(&self.config, std::env::vars_os())
    }
}

#[cfg(not(target_os = "linux"))]
impl LocalRunner {
    fn refusal(&self) -> Option<String> {
        let required = self.config.sandbox == Sandbox::Require;
        required.then(|| refusal(NOT_HERE))
    }

    fn describe(&self) -> String {
        format!("commands aren't confined: {NOT_HERE}")
    }
}

#[cfg(not(target_os = "linux"))]
const NOT_HERE: &str = "there is no sandbox for this system yet";

fn refusal(why: &str) -> String {
    format!(
        "commands can't be confined here ({why}), and the setting `sandbox` requires it; say `sandbox = \"prefer\"` under `[runner]` to run them all the same"
    )
}

/// Where temporary folders are made.
#[cfg(target_os = "linux")]
fn temp_base() -> PathBuf {
    let base = std::env::temp_dir();
    base.canonicalize().unwrap_or(base)
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
        can.processes = cfg!(unix) && self.refusal().is_none();
        can.stdin = can.processes;
        can.ports = true;
        #[cfg(target_os = "linux")]
        {
            can.kills_process_trees = self.program().is_some();
            can.pty = can.processes && can.kills_process_trees;
        }
        #[cfg(target_os = "linux")]
        if let Ok(achieved) = self.achieved() {
            can.confines_writes = achieved.confines();
            can.confines_reads = achieved.confines();
            can.confines_network = achieved.confines() && !self.config.network;
            can.isolation = achieved.isolation();
        }
        can
    }

    async fn explain(&self) -> Option<String> {
        Some(self.describe())
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
