//! A session on the far side.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haft_api::{
    Error, ErrorKind, FileData, FileMetadata, ListOptions, Listing, ProcessId, ProcessRead,
    ProcessSpec, ReadOptions, RemoteRunnerSession, Result, RunnerCapabilities, SessionState,
    Signal, WriteOptions, async_trait,
};

use crate::link::{Call, Link};
use crate::processes::Processes;
use crate::quote::quote;

/// Where a session is on the far side.
#[derive(Debug)]
pub(crate) struct Place {
    /// Its folder's name.
    pub(crate) session: String,
    pub(crate) workspace: String,
    /// The workspace without links.
    pub(crate) real: String,
    pub(crate) read_roots: Vec<String>,
}

impl Place {
    /// What a request begins with.
    pub(crate) fn prelude(&self) -> String {
        format!(
            "S=$HOMEDIR/{} W={} WP={} R={}",
            self.session,
            quote(&self.workspace),
            quote(&self.real),
            quote(&self.read_roots.join("\n"))
        )
    }

    /// What the environment of all its processes begins with.
    pub(crate) fn mark(&self) -> String {
        format!("{}/", self.session)
    }
}

/// A hold on a session.
#[derive(Debug)]
pub(crate) struct SshSession {
    pub(crate) state: SessionState,
    pub(crate) capabilities: RunnerCapabilities,
    pub(crate) link: Arc<Link>,
    pub(crate) place: Arc<Place>,
    pub(crate) processes: Processes,
    pub(crate) over: AtomicBool,
}

impl SshSession {
    fn live(&self, operation: &str) -> Result<()> {
        match self.over.load(Ordering::Acquire) {
            true => Err(
                Error::new(ErrorKind::Unavailable, "the session was closed or detached")
                    .permanent()
                    .operation(operation),
            ),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl RemoteRunnerSession for SshSession {
    fn state(&self) -> SessionState {
        self.state.clone()
    }

    fn capabilities(&self) -> RunnerCapabilities {
        self.capabilities
    }

    fn workspace(&self) -> &str {
        &self.place.workspace
    }

    async fn read_file(&self, path: &str, options: ReadOptions) -> Result<FileData> {
        self.live("read_file")?;
        let read = self.read(path, options).await;
        read.map_err(|e| e.operation("read_file"))
    }

    async fn write_file(
        &self,
        path: &str,
        bytes: Vec<u8>,
        options: WriteOptions,
    ) -> Result<FileMetadata> {
        self.live("write_file")?;
        let written = self.write(path, bytes, options).await;
        written.map_err(|e| e.operation("write_file"))
    }

    async fn metadata(&self, path: &str) -> Result<FileMetadata> {
        self.live("metadata")?;
        let described = self.describe(path).await;
        described.map_err(|e| e.operation("metadata"))
    }

    async fn list(&self, path: &str, options: ListOptions) -> Result<Listing> {
        self.live("list")?;
        let page = self.page(path, options).await;
        page.map_err(|e| e.operation("list"))
    }

    async fn remove(&self, path: &str) -> Result<()> {
        self.live("remove")?;
        let removed = self.remove_one(path).await;
        removed.map_err(|e| e.operation("remove"))
    }

    async fn make_dir(&self, path: &str) -> Result<()> {
        self.live("make_dir")?;
        let made = self.make_folder(path).await;
        made.map_err(|e| e.operation("make_dir"))
    }

    async fn start_process(&self, spec: ProcessSpec) -> Result<()> {
        self.live("start_process")?;
        let started = self.processes.start(spec).await;
        started.map_err(|e| e.operation("start_process"))
    }

    async fn read_process(
        &self,
        process: &ProcessId,
        after: Option<u64>,
        max_bytes: usize,
        wait_ms: u64,
    ) -> Result<ProcessRead> {
        self.live("read_process")?;
        let read = async {
            let process = self.processes.get(process).await?;
            let wait = Duration::from_millis(wait_ms);
            let prelude = self.place.prelude();
            process
                .read(&self.link, &prelude, after, max_bytes, wait)
                .await
        };
        read.await.map_err(|e| e.operation("read_process"))
    }

    async fn write_stdin(&self, process: &ProcessId, bytes: Option<Vec<u8>>) -> Result<()> {
        self.live("write_stdin")?;
        let written = self.processes.write_stdin(process, bytes).await;
        written.map_err(|e| e.operation("write_stdin"))
    }

    async fn signal(&self, process: &ProcessId, signal: Signal) -> Result<()> {
        self.live("signal")?;
        let sent = self.processes.signal(process, signal).await;
        sent.map_err(|e| e.operation("signal"))
    }

    fn release_process(&self, process: &ProcessId) {
        self.processes.release(process);
    }

    async fn port(&self, port: u16) -> Result<String> {
        self.live("port")?;
        let here = self.link.port(port).await;
        let here = here.map_err(|e| e.operation("port"))?;
        Ok(format!("127.0.0.1:{here}"))
    }

    async fn detach(&self) -> Result<SessionState> {
        self.live("detach")?;
        self.over.store(true, Ordering::Release);
        self.processes.forget_all();
        Ok(self.state())
    }

    async fn close(&self) -> Result<()> {
        self.over.store(true, Ordering::Release);
        self.processes.forget_all();
        let line = format!(
            "{}; session_end {} {}",
            self.place.prelude(),
            quote(&self.place.mark()),
            self.link.config.grace_steps()
        );
        let answer = self.link.ask(Call::new(line)).await;
        let answer = answer.map_err(|e| e.operation("close"))?;
        match answer.code {
            0 => Ok(()),
            _ => Err(Error::new(
                ErrorKind::Timeout,
                "some of the session's processes can't be killed",
            )
            .operation("close")
            .context("processes", answer.text())),
        }
    }
}
