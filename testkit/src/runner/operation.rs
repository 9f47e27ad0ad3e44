//! The operations of a runner in memory.

/// What can be made to fail in a [`MemoryRunner`](crate::MemoryRunner) and its sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RunnerOperation {
    /// [`RemoteRunnerProvider::create`](haft_api::RemoteRunnerProvider::create).
    Create,
    /// [`RemoteRunnerProvider::resume`](haft_api::RemoteRunnerProvider::resume).
    Resume,
    /// [`RemoteRunnerProvider::acquire_lease`](haft_api::RemoteRunnerProvider::acquire_lease).
    AcquireLease,
    /// [`Lease::release`](haft_api::Lease::release).
    ReleaseLease,
    /// [`RemoteRunnerSession::read_file`](haft_api::RemoteRunnerSession::read_file).
    ReadFile,
    /// [`RemoteRunnerSession::write_file`](haft_api::RemoteRunnerSession::write_file).
    WriteFile,
    /// [`RemoteRunnerSession::metadata`](haft_api::RemoteRunnerSession::metadata).
    Metadata,
    /// [`RemoteRunnerSession::list`](haft_api::RemoteRunnerSession::list).
    List,
    /// [`RemoteRunnerSession::remove`](haft_api::RemoteRunnerSession::remove).
    Remove,
    /// [`RemoteRunnerSession::make_dir`](haft_api::RemoteRunnerSession::make_dir).
    MakeDir,
    /// [`RemoteRunnerSession::start_process`](haft_api::RemoteRunnerSession::start_process).
    StartProcess,
    /// [`RemoteRunnerSession::read_process`](haft_api::RemoteRunnerSession::read_process).
    ReadProcess,
    /// [`RemoteRunnerSession::write_stdin`](haft_api::RemoteRunnerSession::write_stdin).
    WriteStdin,
    /// [`RemoteRunnerSession::signal`](haft_api::RemoteRunnerSession::signal).
    Signal,
    /// [`RemoteRunnerSession::pause`](haft_api::RemoteRunnerSession::pause).
    Pause,
    /// [`RemoteRunnerSession::detach`](haft_api::RemoteRunnerSession::detach).
    Detach,
    /// [`RemoteRunnerSession::snapshot`](haft_api::RemoteRunnerSession::snapshot).
    Snapshot,
    /// [`RemoteRunnerSession::port`](haft_api::RemoteRunnerSession::port).
    Port,
    /// [`RemoteRunnerSession::close`](haft_api::RemoteRunnerSession::close).
    Close,
}
