//! Runners: where a thread's side effects happen.
//!
//! A *provider* makes *sessions* (live sandboxes) for *destinations*. The local
//! directory is a session as well, so tools have one code path.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind, Result};
use crate::id::{DestinationId, ExtensionId, ProcessId, SessionId};

mod command;
mod file;
mod process;

pub use command::RemoteRunnerSessionExt;
pub use file::{
    DirEntry, FileData, FileKind, FileMetadata, ListOptions, Listing, ReadOptions, WriteMode,
    WriteOptions,
};
pub use process::{
    CommandOutcome, CommandRequest, Ending, ProcessChunk, ProcessRead, ProcessSpec, PtySize, Signal,
};

/// Where a thread's side effects should happen: a provider and its settings.
/// No secrets: those come from the provider's own environment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Destination {
    /// Names it; the same id always means the same place.
    pub id: DestinationId,
    /// Whose it is.
    pub provider_id: ExtensionId,
    /// The provider's settings for it.
    pub config: Box<RawValue>,
    /// What has to be there (an image, packages), in the provider's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<Box<RawValue>>,
}

/// A thread's tie to a destination.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Binding {
    /// Where.
    pub destination: Destination,
    /// The folder that relative paths start from; absolute.
    pub workspace: String,
    /// Further folders that may be read; absolute.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_roots: Vec<String>,
}

impl Binding {
    /// Checks what needs no provider to be checked.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if a path isn't absolute.
    pub fn validate(&self) -> Result<()> {
        let check = |what: &str, path: &str| {
            if is_absolute(path) {
                Ok(())
            } else {
                Err(
                    Error::new(ErrorKind::InvalidInput, format!("{what} must be absolute"))
                        .context("path", path)
                        .context("destination", &self.destination.id),
                )
            }
        };
        check("workspace", &self.workspace)?;
        self.read_roots
            .iter()
            .try_for_each(|root| check("read root", root))
    }
}

/// Absolute on a POSIX system or on Windows: the far side need not be of the
/// near side's kind.
fn is_absolute(path: &str) -> bool {
    let bytes = path.as_bytes();
    path.starts_with('/')
        || path.starts_with("\\\\")
        || (bytes.len() >= 3
            && bytes[0].is_ascii_alphabetic()
            && bytes[1] == b':'
            && matches!(bytes[2], b'\\' | b'/'))
}

/// The durable handle of a session, kept in the thread's metadata. No secrets.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SessionState {
    /// Whose it is.
    pub provider_id: ExtensionId,
    /// The sandbox.
    pub session_id: SessionId,
    /// What it was made for.
    pub destination_id: DestinationId,
    /// The last snapshot, if one was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Whatever else the provider needs to find it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Box<RawValue>>,
}

/// What a provider's sessions can do. A call that isn't declared here answers
/// [`ErrorKind::Unsupported`]; what is declared is held to by the conformance
/// suite.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RunnerCapabilities {
    /// Processes and commands.
    pub processes: bool,
    /// Standard input of processes.
    pub stdin: bool,
    /// Pseudo terminals.
    pub pty: bool,
    /// Pausing and waking.
    pub pause: bool,
    /// Letting go without ending, and coming back.
    pub detach: bool,
    /// Snapshots.
    pub snapshot: bool,
    /// Previews of ports.
    pub ports: bool,
    /// Leases across processes.
    pub leases: bool,
    /// Writes are confined to the workspace and temporary folders.
    pub confines_writes: bool,
    /// Reads are confined to what was configured.
    pub confines_reads: bool,
    /// The network is off unless granted.
    pub confines_network: bool,
    /// No process outlives its command.
    pub kills_process_trees: bool,
    /// By what commands are kept apart from the machine they run on.
    pub isolation: Isolation,
}

/// By what commands are kept apart from the machine they run on, from the least
/// to the most. It tells how, not what: that is in the other fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Isolation {
    /// By nothing.
    #[default]
    None,
    /// The system refuses them files and calls.
    Filters,
    /// They also have a view of their own of files, processes and the network.
    Namespaces,
    /// What they use up is also counted and limited as a whole.
    ControlGroups,
}

/// What came of an attempt to wake a stored session.
pub enum Resumed {
    /// It is back.
    Session(Arc<dyn RemoteRunnerSession>),
    /// It is gone for good; a fresh one may replace it.
    Gone {
        /// How that is known.
        reason: String,
    },
}

impl fmt::Debug for Resumed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(session) => f.debug_tuple("Session").field(&session.state()).finish(),
            Self::Gone { reason } => f.debug_struct("Gone").field("reason", reason).finish(),
        }
    }
}

/// How long to wait for a lease and how long to hold it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRequest {
    /// Longest wait for it, in milliseconds; more than zero.
    pub acquire_timeout_ms: u64,
    /// When it lapses by itself, in milliseconds from its start, if the turn
    /// has a deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_timeout_ms: Option<u64>,
}

/// A fence around one workspace tool's execution that holds across processes.
///
/// Dropping it without [`release`](Self::release) fails closed: the sandbox
/// stays fenced until the lease lapses.
#[async_trait]
pub trait Lease: Send + Sync + 'static {
    /// Resolves when the lease is lost while it is held, with the reason; never
    /// resolves otherwise.
    async fn lost(&self) -> String;

    /// Gives it back. Called once.
    ///
    /// # Errors
    /// If the fence may still stand.
    async fn release(&self) -> Result<()>;
}

/// Makes and finds sandboxes.
///
/// # For implementers
/// - [`create`](Self::create) and [`resume`](Self::resume) run detached from
///   the turn that asked: they may not be cancelled by an interrupt, and at
///   most one runs per thread.
/// - Unreachable is an error; gone is [`Resumed::Gone`]. Never return a fresh
///   sandbox from `resume`.
///
/// ```
/// use std::sync::Arc;
/// use haft_api::*;
///
/// /// A provider whose place is always full.
/// struct Full(ExtensionId);
///
/// #[async_trait]
/// impl RemoteRunnerProvider for Full {
///     fn id(&self) -> &ExtensionId {
///         &self.0
///     }
///     fn capabilities(&self) -> RunnerCapabilities {
///         RunnerCapabilities::default()
///     }
///     async fn create(&self, binding: Binding) -> Result<Arc<dyn RemoteRunnerSession>> {
///         Err(Error::new(ErrorKind::Unavailable, "no sandbox is free")
///             .context("destination", &binding.destination.id))
///     }
///     async fn resume(&self, _: Binding, state: SessionState) -> Result<Resumed> {
///         Ok(Resumed::Gone { reason: format!("{} was never here", state.session_id) })
///     }
/// }
/// ```
#[async_trait]
#[diagnostic::on_unimplemented(
    message = "`{Self}` isn't a runner provider",
    note = "implement `haft_api::RemoteRunnerProvider` (with `#[haft_api::async_trait]`) and hand it to `ExtensionRegistryBuilder::runner`"
)]
pub trait RemoteRunnerProvider: Send + Sync + 'static {
    /// The provider's id, as users write it (`--runner ID`). Constant.
    fn id(&self) -> &ExtensionId;

    /// What its sessions can do. Constant.
    fn capabilities(&self) -> RunnerCapabilities;

    /// The workspace of threads that name none; absolute. Without one, such
    /// threads stay unbound. Constant.
    fn default_workspace(&self) -> Option<String> {
        None
    }

    /// Whether it could be used now, and if not, why and what to do.
    async fn readiness(&self) -> crate::Readiness {
        crate::Readiness::Ready
    }

    /// How commands are confined here, and what could not be had and why, in a
    /// sentence for people. `None` where there is nothing to say.
    async fn explain(&self) -> Option<String> {
        None
    }

    /// Checks a destination's settings when a thread is bound to it. No I/O.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`], naming the setting.
    fn validate(&self, destination: &Destination) -> Result<()> {
        let _ = destination;
        Ok(())
    }

    /// Makes a fresh sandbox.
    ///
    /// # Errors
    /// If it can't be had; nothing is left behind.
    async fn create(&self, binding: Binding) -> Result<Arc<dyn RemoteRunnerSession>>;

    /// Finds a sandbox again, and wakes it where it was only stopped.
    ///
    /// # Errors
    /// If it can't be reached: it may still be there, so it isn't replaced.
    async fn resume(&self, binding: Binding, state: SessionState) -> Result<Resumed>;

    /// Fences a session for one tool's execution. `None` where the provider has
    /// no leases.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] when the wait is over; whatever else stands in the way.
    async fn acquire_lease(
        &self,
        state: SessionState,
        request: LeaseRequest,
    ) -> Result<Option<Arc<dyn Lease>>> {
        let _ = (state, request);
        Ok(None)
    }
}

fn unsupported<T>(session: &(impl RemoteRunnerSession + ?Sized), what: &str) -> Result<T> {
    let state = session.state();
    Err(Error::new(
        ErrorKind::Unsupported,
        format!("this runner does not support {what}"),
    )
    .context("runner", &state.provider_id)
    .context("session", &state.session_id))
}

/// A live sandbox.
///
/// # For implementers
/// - Paths are UTF-8. Relative ones start from the workspace. A path that would
///   leave what the session may touch, by `..` or by a link, is
///   [`ErrorKind::Denied`], naming where it led; nothing is touched.
/// - Writes are atomic: a reader sees the old file or the new one.
/// - A process is known by the id its starter chose. Its output is numbered and
///   kept until it is read or [`release_process`](Self::release_process)d; a
///   slow reader never stops the process for good, and never costs unbounded
///   memory.
/// - All methods may be called at the same time.
///
/// A whole session is too long for an example here: `haft-testkit` has an
/// in-memory one, and `haft-ext-runner-local` the real local one.
///
/// ```
/// use haft_api::*;
///
/// async fn line_count(session: &dyn RemoteRunnerSession, path: &str) -> Result<usize> {
///     let file = session.read_file(path, ReadOptions::default()).await?;
///     Ok(file.bytes.iter().filter(|&&byte| byte == b'\n').count())
/// }
/// ```
#[async_trait]
#[diagnostic::on_unimplemented(
    message = "`{Self}` isn't a runner session",
    note = "implement `haft_api::RemoteRunnerSession` (with `#[haft_api::async_trait]`)"
)]
pub trait RemoteRunnerSession: Send + Sync + 'static {
    /// The durable handle, as it is now. Cheap.
    fn state(&self) -> SessionState;

    /// What this session can do. Constant.
    fn capabilities(&self) -> RunnerCapabilities;

    /// The folder that relative paths start from; absolute. Constant.
    fn workspace(&self) -> &str;

    /// Reads a file or a part of it.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::Denied`], or
    /// [`ErrorKind::InvalidInput`] for a folder.
    async fn read_file(&self, path: &str, options: ReadOptions) -> Result<FileData>;

    /// Writes a whole file atomically. An existing file keeps its mode and
    /// owner.
    ///
    /// # Errors
    /// By [`WriteMode`]: [`ErrorKind::AlreadyExists`], [`ErrorKind::NotFound`],
    /// [`ErrorKind::Busy`] if the version differs; [`ErrorKind::Denied`].
    async fn write_file(
        &self,
        path: &str,
        bytes: Vec<u8>,
        options: WriteOptions,
    ) -> Result<FileMetadata>;

    /// What is known of a file or folder. Doesn't follow a link at the end of
    /// the path.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::Denied`].
    async fn metadata(&self, path: &str) -> Result<FileMetadata>;

    /// Lists a folder, by name.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::Denied`].
    async fn list(&self, path: &str, options: ListOptions) -> Result<Listing>;

    /// Removes a file, a link, or an empty folder.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::Denied`].
    async fn remove(&self, path: &str) -> Result<()>;

    /// Makes a folder and those above it. One that is there already is fine.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`]; [`ErrorKind::AlreadyExists`] if a file is there.
    async fn make_dir(&self, path: &str) -> Result<()>;

    /// Starts a process. It goes on until it ends or is told to, whether or not
    /// anybody reads from it.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`] if the id is taken; [`ErrorKind::NotFound`]
    /// if the program or its folder isn't there.
    async fn start_process(&self, spec: ProcessSpec) -> Result<()> {
        let _ = spec;
        unsupported(self, "processes")
    }

    /// Waits up to `wait_ms` for output after the sequence number `after`
    /// (`None`: from the beginning), or for the end, and returns at most about
    /// `max_bytes` of it.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is no such process.
    async fn read_process(
        &self,
        process: &ProcessId,
        after: Option<u64>,
        max_bytes: usize,
        wait_ms: u64,
    ) -> Result<ProcessRead> {
        let _ = (process, after, max_bytes, wait_ms);
        unsupported(self, "processes")
    }

    /// Writes to a process's standard input; `None` closes it.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if the process doesn't read any more.
    async fn write_stdin(&self, process: &ProcessId, bytes: Option<Vec<u8>>) -> Result<()> {
        let _ = (process, bytes);
        unsupported(self, "standard input")
    }

    /// Sends a signal to a process and all it started.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is no such process.
    async fn signal(&self, process: &ProcessId, signal: Signal) -> Result<()> {
        let _ = (process, signal);
        unsupported(self, "signals")
    }

    /// Gives a process's pseudo terminal another size.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is no such process,
    /// [`ErrorKind::InvalidInput`] if it has no terminal.
    async fn resize_pty(&self, process: &ProcessId, size: PtySize) -> Result<()> {
        let _ = (process, size);
        unsupported(self, "pseudo terminals")
    }

    /// Kills what is left of a process and forgets it. Returns at once, and may
    /// be called from a destructor: it is how dropping a future cancels a
    /// command. Unknown ids are ignored.
    fn release_process(&self, process: &ProcessId) {
        let _ = process;
    }

    /// Puts the sandbox to sleep and returns its durable handle.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] where it can't.
    async fn pause(&self) -> Result<SessionState> {
        unsupported(self, "pausing")
    }

    /// Lets go of the sandbox without ending it, and returns the handle by
    /// which it can be rejoined.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] where it can't.
    async fn detach(&self) -> Result<SessionState> {
        unsupported(self, "detaching")
    }

    /// Takes a snapshot and returns its name.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] where it can't.
    async fn snapshot(&self) -> Result<String> {
        unsupported(self, "snapshots")
    }

    /// The address under which a port of the sandbox can be reached.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] where it can't.
    async fn port(&self, port: u16) -> Result<String> {
        let _ = port;
        unsupported(self, "port previews")
    }

    /// Ends the sandbox and all that runs in it.
    ///
    /// # Errors
    /// If it may still be there.
    async fn close(&self) -> Result<()>;
}
