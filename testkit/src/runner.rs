//! A runner that a test controls.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use haft_api::{
    Binding, Destination, Error, ErrorKind, ExtensionId, Lease, LeaseRequest, ProcessSpec,
    Readiness, RemoteRunnerProvider, RemoteRunnerSession, Result, Resumed, RunnerCapabilities,
    SessionId, SessionState, async_trait, raw_json,
};

use crate::faults::Faults;
use crate::fixture::extension_id;

mod files;
mod lease;
mod path;
mod probe;
mod process;
mod program;
mod session;
mod world;

#[cfg(test)]
mod tests;

pub use lease::LeaseCounts;
pub use program::ProgramIo;

use program::Program;
use session::MemorySession;
use world::World;

/// What can be made to fail in a [`MemoryRunner`] and its sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RunnerOperation {
    /// [`RemoteRunnerProvider::create`].
    Create,
    /// [`RemoteRunnerProvider::resume`].
    Resume,
    /// [`RemoteRunnerProvider::acquire_lease`].
    AcquireLease,
    /// [`Lease::release`].
    ReleaseLease,
    /// [`RemoteRunnerSession::read_file`].
    ReadFile,
    /// [`RemoteRunnerSession::write_file`].
    WriteFile,
    /// [`RemoteRunnerSession::metadata`].
    Metadata,
    /// [`RemoteRunnerSession::list`].
    List,
    /// [`RemoteRunnerSession::remove`].
    Remove,
    /// [`RemoteRunnerSession::make_dir`].
    MakeDir,
    /// [`RemoteRunnerSession::start_process`].
    StartProcess,
    /// [`RemoteRunnerSession::read_process`].
    ReadProcess,
    /// [`RemoteRunnerSession::write_stdin`].
    WriteStdin,
    /// [`RemoteRunnerSession::signal`].
    Signal,
    /// [`RemoteRunnerSession::pause`].
    Pause,
    /// [`RemoteRunnerSession::detach`].
    Detach,
    /// [`RemoteRunnerSession::snapshot`].
    Snapshot,
    /// [`RemoteRunnerSession::port`].
    Port,
    /// [`RemoteRunnerSession::close`].
    Close,
}

type ConfigCheck = dyn Fn(&Destination) -> Result<()> + Send + Sync;

/// What a runner is like, settled before it is used.
#[derive(Clone)]
struct Setup {
    id: ExtensionId,
    capabilities: RunnerCapabilities,
    default_workspace: Option<String>,
    readiness: Readiness,
    check_config: Arc<ConfigCheck>,
    programs: BTreeMap<String, Arc<Program>>,
    files: BTreeMap<String, Vec<u8>>,
    one_session: Option<SessionId>,
    output_kept: usize,
}

/// A runner whose sandboxes are in memory, and whose every operation a test can
/// count, delay, hold, fail or lose.
///
/// Clones are the same runner. A test that restarts a runtime gives the new one
/// a clone: the sandboxes are where they were, and live on until they are
/// closed or [lost](Self::lose).
///
/// Processes are functions: [`program`](Self::program) names one. `echo`, `cat`,
/// `sleep`, `pwd`, `true` and `false` are there already, and `/bin/sh -c` runs a
/// line of plain words.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> haft_api::Result<()> {
/// use haft_api::*;
/// use haft_testkit::{MemoryRunner, RunnerOperation};
///
/// let runner = MemoryRunner::new().file("notes.txt", "hello");
/// let session = runner.create(runner.binding("thread-1")).await?;
/// let file = session.read_file("notes.txt", ReadOptions::default()).await?;
/// assert_eq!(file.bytes, b"hello");
///
/// let gone = Error::new(ErrorKind::Unavailable, "the network is down");
/// runner.faults().on(RunnerOperation::ReadFile).next().fail(gone);
/// assert!(session.read_file("notes.txt", ReadOptions::default()).await.is_err());
/// assert_eq!(runner.faults().on(RunnerOperation::Create).count(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct MemoryRunner {
    setup: Arc<Setup>,
    world: Arc<World>,
    faults: Faults<RunnerOperation>,
}

impl MemoryRunner {
    /// A runner `memory` that can do everything but pseudo terminals, and has
    /// the default workspace `/workspace`.
    pub fn new() -> Self {
        let mut capabilities = RunnerCapabilities::default();
        capabilities.processes = true;
        capabilities.stdin = true;
        capabilities.pause = true;
        capabilities.detach = true;
        capabilities.snapshot = true;
        capabilities.ports = true;
        capabilities.leases = true;
        capabilities.confines_writes = true;
        capabilities.confines_reads = true;
        capabilities.confines_network = true;
        capabilities.kills_process_trees = true;
        Self {
            setup: Arc::new(Setup {
                id: extension_id("memory"),
                capabilities,
                default_workspace: Some("/workspace".to_owned()),
                readiness: Readiness::Ready,
                check_config: Arc::new(|_| Ok(())),
                programs: program::builtin(),
                files: BTreeMap::new(),
                one_session: None,
                output_kept: 1024 * 1024,
            }),
            world: Arc::default(),
            faults: Faults::new(),
        }
    }

    fn set(mut self, change: impl FnOnce(&mut Setup)) -> Self {
        change(Arc::make_mut(&mut self.setup));
        self
    }

    /// Gives it another id.
    ///
    /// # Panics
    /// If the text isn't an id.
    #[must_use]
    pub fn with_id(self, id: &str) -> Self {
        let id = extension_id(id);
        self.set(|setup| setup.id = id)
    }

    /// Changes what it can do; what it can't is refused as unsupported.
    #[must_use]
    pub fn with_capabilities(self, change: impl FnOnce(&mut RunnerCapabilities)) -> Self {
        self.set(|setup| change(&mut setup.capabilities))
    }

    /// Sets the default workspace, or leaves threads without one unbound.
    #[must_use]
    pub fn with_default_workspace(self, workspace: Option<&str>) -> Self {
        self.set(|setup| setup.default_workspace = workspace.map(str::to_owned))
    }

    /// Sets what it says of its readiness.
    #[must_use]
    pub fn with_readiness(self, readiness: Readiness) -> Self {
        self.set(|setup| setup.readiness = readiness)
    }

    /// Checks the settings of destinations that threads are bound to.
    #[must_use]
    pub fn check_config(
        self,
        check: impl Fn(&Destination) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.set(|setup| setup.check_config = Arc::new(check))
    }

    /// Refuses every destination with this message.
    #[must_use]
    pub fn refusing_configs(self, message: &str) -> Self {
        let message = message.to_owned();
        self.check_config(move |destination| {
            Err(Error::new(ErrorKind::InvalidInput, message.clone())
                .context("destination", &destination.id))
        })
    }

    /// Adds a program. `name` is what a process's `argv` begins with, or a whole
    /// line of the shell. The function's result is the exit code.
    #[must_use]
    pub fn program<F, R>(self, name: &str, run: F) -> Self
    where
        F: Fn(ProgramIo) -> R + Send + Sync + 'static,
        R: Future<Output = i32> + Send + 'static,
    {
        let program: Arc<Program> = Arc::new(move |io| Box::pin(run(io)));
        self.set(|setup| drop(setup.programs.insert(name.to_owned(), program)))
    }

    /// Puts a file into the workspace of every sandbox that is made.
    #[must_use]
    pub fn file(self, path: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.set(|setup| drop(setup.files.insert(path.to_owned(), bytes.into())))
    }

    /// Makes every creation lead to one sandbox of this id, as a provider does
    /// that has one machine for several threads.
    ///
    /// # Panics
    /// If the text isn't a session's id.
    #[must_use]
    pub fn one_session(self, id: &str) -> Self {
        let id = world::session_id(id);
        self.set(|setup| setup.one_session = Some(id))
    }

    /// Keeps this many bytes of a process's unread output.
    #[must_use]
    pub fn output_kept(self, bytes: usize) -> Self {
        self.set(|setup| setup.output_kept = bytes)
    }

    /// How its sandboxes do what the conformance suite needs done; see
    /// [`RunnerFixture::commands`](crate::RunnerFixture::commands).
    pub fn probe_command(probe: &crate::Probe) -> Option<Vec<String>> {
        probe::command(probe)
    }

    /// The runner as a trait object.
    pub fn shared(&self) -> Arc<dyn RemoteRunnerProvider> {
        Arc::new(self.clone())
    }

    /// Where faults are put in, and operations are counted.
    pub fn faults(&self) -> &Faults<RunnerOperation> {
        &self.faults
    }

    /// A binding to this runner's default workspace, or `/workspace`.
    ///
    /// # Panics
    /// If the text isn't a destination's id.
    pub fn binding(&self, destination: &str) -> Binding {
        let id = haft_api::DestinationId::new(destination)
            .unwrap_or_else(|e| panic!("{destination:?} stands in a test as an id: {e}"));
        let config = raw_json("{}").expect("an empty object is valid JSON");
        Binding {
            destination: Destination {
                id,
                provider_id: self.setup.id.clone(),
                config,
                manifest: None,
            },
            workspace: self
                .setup
                .default_workspace
                .clone()
                .unwrap_or_else(|| "/workspace".to_owned()),
            read_roots: Vec::new(),
        }
    }

    /// Every binding that a sandbox was asked for, in order.
    pub fn created(&self) -> Vec<Binding> {
        self.world.created()
    }

    /// Every state that was asked to be resumed, in order.
    pub fn resumed(&self) -> Vec<SessionState> {
        self.world.resumed()
    }

    /// The sandboxes that are there, asleep or awake.
    pub fn sandboxes(&self) -> Vec<SessionId> {
        self.world.sandboxes()
    }

    /// Every process that was asked for, in order, in all sandboxes.
    pub fn processes(&self) -> Vec<ProcessSpec> {
        self.world.processes()
    }

    /// The content of a file, if there is such a file.
    pub fn content(&self, sandbox: &SessionId, path: &str) -> Option<Vec<u8>> {
        self.world.find(sandbox)?.content(path)
    }

    /// Puts a file into a sandbox behind everybody's back.
    ///
    /// # Panics
    /// If there is no such sandbox, or the file can't be there.
    pub fn put(&self, sandbox: &SessionId, path: &str, bytes: impl Into<Vec<u8>>) {
        self.sandbox(sandbox).put(path, bytes.into());
    }

    /// Puts a symbolic link into a sandbox behind everybody's back.
    ///
    /// # Panics
    /// If there is no such sandbox, or the link can't be there.
    pub fn put_link(&self, sandbox: &SessionId, path: &str, target: &str) {
        self.sandbox(sandbox).put_link(path, target);
    }

    fn sandbox(&self, id: &SessionId) -> Arc<world::Sandbox> {
        let found = self.world.find(id);
        found.unwrap_or_else(|| panic!("there is no sandbox {id} in this runner"))
    }

    /// Makes a sandbox vanish: calls to it fail, and resuming it says gone.
    pub fn lose(&self, sandbox: &SessionId) {
        self.world.lose(sandbox);
    }

    /// Takes every lease away from its holder, for this reason.
    pub fn lose_leases(&self, reason: &str) {
        self.world.leases.lose_all(reason);
    }

    /// What became of the leases.
    pub fn lease_counts(&self) -> LeaseCounts {
        self.world.leases.counts()
    }

    /// Waits until the leases are as the test wants them.
    pub async fn wait_for_leases(&self, until: impl Fn(LeaseCounts) -> bool) {
        self.world.leases.wait_until(until).await;
    }

    /// Every request for a lease, in order.
    pub fn lease_requests(&self) -> Vec<LeaseRequest> {
        self.world.leases.requests()
    }
}

impl Default for MemoryRunner {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryRunner")
            .field("id", &self.setup.id)
            .field("sandboxes", &self.sandboxes())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl RemoteRunnerProvider for MemoryRunner {
    fn id(&self) -> &ExtensionId {
        &self.setup.id
    }

    fn capabilities(&self) -> RunnerCapabilities {
        self.setup.capabilities
    }

    fn default_workspace(&self) -> Option<String> {
        self.setup.default_workspace.clone()
    }

    async fn readiness(&self) -> Readiness {
        self.setup.readiness.clone()
    }

    fn validate(&self, destination: &Destination) -> Result<()> {
        (self.setup.check_config)(destination)
    }

    async fn create(&self, binding: Binding) -> Result<Arc<dyn RemoteRunnerSession>> {
        binding.validate().map_err(|e| e.operation("create"))?;
        self.world.note_creation(&binding);
        let made = async {
            let sandbox = self.world.sandbox_for(&self.setup, &binding)?;
            Ok(MemorySession::attach(self, sandbox, binding.destination.id))
        };
        let session = self.faults.run(RunnerOperation::Create, made).await?;
        Ok(Arc::new(session))
    }

    async fn resume(&self, binding: Binding, state: SessionState) -> Result<Resumed> {
        self.world.note_resumption(&state);
        let found = async {
            let id = &state.session_id;
            let Some(sandbox) = self.world.find(id) else {
                let reason = format!("there is no sandbox {id} any more");
                return Ok(Resumed::Gone { reason });
            };
            sandbox.wake();
            let session = MemorySession::attach(self, sandbox, binding.destination.id);
            Ok(Resumed::Session(Arc::new(session)))
        };
        self.faults.run(RunnerOperation::Resume, found).await
    }

    async fn acquire_lease(
        &self,
        state: SessionState,
        request: LeaseRequest,
    ) -> Result<Option<Arc<dyn Lease>>> {
        if !self.setup.capabilities.leases {
            return Ok(None);
        }
        self.world.leases.note_request(request);
        let acquired = self.world.leases.acquire(&state.session_id, request);
        let held = self
            .faults
            .run(RunnerOperation::AcquireLease, acquired)
            .await?;
        Ok(Some(Arc::new(held.with_faults(&self.faults))))
    }
}
