//! The provider of sessions over SSH.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use haft_api::{
    Binding, Destination, Error, ErrorKind, ExtensionId, Readiness, RemoteRunnerProvider,
    RemoteRunnerSession, Result, Resumed, RunnerCapabilities, SessionId, SessionState, async_trait,
};
use serde::{Deserialize, Serialize};

use crate::config::SshConfig;
use crate::link::{Call, Link};
use crate::processes::Processes;
use crate::quote::quote;
use crate::session::{Place, SshSession};
use crate::watch::Watch;
use crate::wire::{self, Answer};

/// Makes sessions on one machine over SSH.
///
/// A session's workspace is the binding's, a folder on the far side that has to
/// be there. What runs there goes on when the connection is cut or this program
/// ends, and is found again by the session's state. Closing a session ends its
/// processes; the folder stays.
#[derive(Debug)]
pub struct SshRunner {
    id: ExtensionId,
    link: Arc<Link>,
    watch: Arc<Watch>,
}

impl SshRunner {
    /// The provider's id.
    pub const ID: &'static str = "ssh";

    /// A provider with these settings. No I/O.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`], naming the key that isn't right.
    pub fn new(config: SshConfig) -> Result<Self> {
        config.check()?;
        let link = Arc::new(Link::new(config));
        Ok(Self {
            id: ExtensionId::new(Self::ID)?,
            watch: Arc::new(Watch::new(Arc::clone(&link))),
            link,
        })
    }

    /// A hold on a session, by the far side's answer about its place.
    fn session(&self, binding: &Binding, id: SessionId, real: &RealPlace) -> Result<SshSession> {
        let place = Arc::new(Place {
            session: id.to_string(),
            workspace: binding.workspace.clone(),
            real: real.path.clone(),
            read_roots: binding.read_roots.clone(),
        });
        let stored = Stored {
            host: self.link.config.place(),
            folder: real.folder.clone(),
        };
        let metadata = serde_json::value::to_raw_value(&stored).map_err(|e| {
            Error::new(ErrorKind::Unexpected, "the state can't be written").source(e)
        })?;
        let (link, watch) = (Arc::clone(&self.link), Arc::clone(&self.watch));
        Ok(SshSession {
            state: SessionState {
                provider_id: self.id.clone(),
                session_id: id,
                destination_id: binding.destination.id.clone(),
                snapshot: None,
                metadata: Some(metadata),
            },
            capabilities: self.capabilities(),
            processes: Processes::new(Arc::clone(&link), watch, Arc::clone(&place)),
            link,
            place,
            over: AtomicBool::new(false),
        })
    }

    /// Checks what needs no far side.
    fn check(&self, binding: &Binding) -> Result<()> {
        binding.validate()?;
        self.validate(&binding.destination)?;
        let paths = binding.read_roots.iter().chain([&binding.workspace]);
        for path in paths {
            if !path.starts_with('/') || path.contains(['\0', '\n']) {
                return Err(Error::new(
                    ErrorKind::InvalidInput,
                    "a folder on the far side must be an absolute POSIX path of one line",
                )
                .context("path", path.escape_debug()));
            }
        }
        Ok(())
    }

    fn prelude(binding: &Binding, session: &SessionId) -> String {
        format!("S=$HOMEDIR/{session} W={}", quote(&binding.workspace))
    }
}

/// What a stored session says of its place.
#[derive(Serialize, Deserialize)]
struct Stored {
    /// The machine.
    host: String,
    /// The workspace's number there.
    folder: String,
}

/// The workspace as the far side knows it.
struct RealPlace {
    folder: String,
    path: String,
}

impl RealPlace {
    fn of(answer: &Answer) -> Result<Self> {
        let text = answer.text();
        let (folder, path) = text.split_once(' ').ok_or_else(|| {
            Error::new(
                ErrorKind::Corrupt,
                "the far side's answer can't be understood",
            )
            .context("answer", &text)
        })?;
        Ok(Self {
            folder: folder.to_owned(),
            path: path.to_owned(),
        })
    }
}

/// A destination's settings: there are none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DestinationConfig {}

#[async_trait]
impl RemoteRunnerProvider for SshRunner {
    fn id(&self) -> &ExtensionId {
        &self.id
    }

    fn capabilities(&self) -> RunnerCapabilities {
        let mut can = RunnerCapabilities::default();
        can.processes = true;
        can.stdin = true;
        can.detach = true;
        can.ports = true;
        can
    }

    fn default_workspace(&self) -> Option<String> {
        self.link.config.root.clone()
    }

    async fn readiness(&self) -> Readiness {
        if self.link.config.host.is_none() {
            return Readiness::Unavailable {
                reason: "no host is set: set `host` and `root` in `[ext.runner-ssh]`".to_owned(),
            };
        }
        match self.link.connection().await {
            Ok(_) => Readiness::Ready,
            Err(e) => Readiness::Unavailable {
                reason: e.to_string(),
            },
        }
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
                    format!("the SSH runner has no settings per destination: {e}"),
                )
                .context("destination", &destination.id)
            })
    }

    async fn create(&self, binding: Binding) -> Result<Arc<dyn RemoteRunnerSession>> {
        self.check(&binding)?;
        let id = SessionId::new(format!("ssh-{}", uuid::Uuid::now_v7()))?;
        let supervisor = wire::supervisor();
        let prelude = Self::prelude(&binding, &id);
        let line = format!("{prelude}; session_make {}", supervisor.len());
        let answer = self.link.ask(Call::new(line).body(supervisor)).await;
        let answer = answer.map_err(|e| e.operation("create a session"))?;
        if answer.code != 0 {
            return Err(Error::new(
                answer.kind(),
                "the session can't be made: its workspace has to be there",
            )
            .operation("create a session")
            .context("host", self.link.config.place())
            .context("workspace", &binding.workspace)
            .context("found", answer.text()));
        }
        Ok(Arc::new(self.session(
            &binding,
            id,
            &RealPlace::of(&answer)?,
        )?))
    }

    async fn resume(&self, binding: Binding, state: SessionState) -> Result<Resumed> {
        let refuse = |message: String| {
            Err(Error::new(ErrorKind::InvalidInput, message)
                .operation("resume a session")
                .context("provider", &state.provider_id)
                .context("session", &state.session_id))
        };
        if state.provider_id != self.id {
            return refuse("the stored session is another provider's".to_owned());
        }
        let id = state.session_id.as_str();
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if !id.starts_with("ssh-") || !id.chars().all(plain) {
            return Ok(Resumed::Gone {
                reason: format!("{id} is no session of this runner"),
            });
        }
        let stored = state.metadata.as_ref();
        let stored = stored.and_then(|json| serde_json::from_str::<Stored>(json.get()).ok());
        let here = self.link.config.place();
        if let Some(stored) = stored.as_ref().filter(|stored| stored.host != here) {
            return refuse(format!(
                "the session is on {}, and the runner is set up for {here}",
                stored.host
            ));
        }
        self.check(&binding)?;
        let prelude = Self::prelude(&binding, &state.session_id);
        let answer = self.link.ask(Call::new(format!("{prelude}; session_find")));
        let answer = answer.await.map_err(|e| e.operation("resume a session"))?;
        let gone = |reason: String| Ok(Resumed::Gone { reason });
        match answer.code {
            0 => {}
            3 => return gone(format!("the folder {} is gone", binding.workspace)),
            8 => return gone(format!("the session isn't on {here} any more")),
            _ => {
                return Err(Error::new(answer.kind(), answer.text()).operation("resume a session"));
            }
        }
        let real = RealPlace::of(&answer)?;
        if stored.is_some_and(|stored| stored.folder != real.folder) {
            return gone(format!(
                "the folder {} was removed, and there is another one now",
                binding.workspace
            ));
        }
        let session = self.session(&binding, state.session_id, &real)?;
        Ok(Resumed::Session(Arc::new(session)))
    }
}
