//! A session over a local directory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haft_api::{
    Error, ErrorKind, FileData, FileMetadata, ListOptions, Listing, ReadOptions,
    RemoteRunnerSession, Result, RunnerCapabilities, SessionState, WriteOptions, async_trait,
    panic_message,
};
#[cfg(unix)]
use haft_api::{ProcessId, ProcessRead, ProcessSpec, Signal};

use crate::files::Files;
#[cfg(unix)]
use crate::processes::{Processes, StartFolder};

/// A live hold on a local directory.
#[derive(Debug)]
pub(crate) struct LocalSession {
    pub(crate) state: SessionState,
    pub(crate) capabilities: RunnerCapabilities,
    pub(crate) workspace: String,
    pub(crate) files: Arc<Files>,
    #[cfg(unix)]
    pub(crate) processes: Processes,
    pub(crate) closed: AtomicBool,
}

impl LocalSession {
    /// Does something with files on a thread that may block. If this is dropped,
    /// what hasn't happened yet doesn't happen.
    async fn with_files<T: Send + 'static>(
        &self,
        operation: &'static str,
        act: impl FnOnce(&Files, &AtomicBool) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if self.closed.load(Ordering::Acquire) {
            return Err(closed().operation(operation));
        }
        let files = Arc::clone(&self.files);
        let cancel = CancelOnDrop(Arc::default());
        let cancelled = Arc::clone(&cancel.0);
        let task = tokio::task::spawn_blocking(move || {
            if cancelled.load(Ordering::Acquire) {
                return Err(Error::new(
                    ErrorKind::Cancelled,
                    "cancelled before it began",
                ));
            }
            act(&files, &cancelled)
        });
        let outcome = task.await.unwrap_or_else(|e| {
            let message = match e.try_into_panic() {
                Ok(panic) => panic_message(&*panic),
                Err(e) => e.to_string(),
            };
            Err(Error::new(ErrorKind::Unexpected, message))
        });
        outcome.map_err(|e| e.operation(operation))
    }

    #[cfg(unix)]
    async fn start_folder(&self, cwd: String) -> Result<(cap_std::fs::Dir, std::path::PathBuf)> {
        self.with_files("start_process", move |files, _| files.open_folder(&cwd))
            .await
    }
}

pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Unavailable, "the session is closed").permanent()
}

struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[async_trait]
impl RemoteRunnerSession for LocalSession {
    fn state(&self) -> SessionState {
        self.state.clone()
    }

    fn capabilities(&self) -> RunnerCapabilities {
        self.capabilities
    }

    fn workspace(&self) -> &str {
        &self.workspace
    }

    async fn read_file(&self, path: &str, options: ReadOptions) -> Result<FileData> {
        let path = path.to_owned();
        self.with_files("read_file", move |files, _| files.read(&path, options))
            .await
    }

    async fn write_file(
        &self,
        path: &str,
        bytes: Vec<u8>,
        options: WriteOptions,
    ) -> Result<FileMetadata> {
        let path = path.to_owned();
        self.with_files("write_file", move |files, cancelled| {
            files.write(&path, &bytes, &options, cancelled)
        })
        .await
    }

    async fn metadata(&self, path: &str) -> Result<FileMetadata> {
        let path = path.to_owned();
        self.with_files("metadata", move |files, _| files.metadata(&path))
            .await
    }

    async fn list(&self, path: &str, options: ListOptions) -> Result<Listing> {
        let path = path.to_owned();
        self.with_files("list", move |files, _| files.list(&path, &options))
            .await
    }

    async fn remove(&self, path: &str) -> Result<()> {
        let path = path.to_owned();
        self.with_files("remove", move |files, _| files.remove(&path))
            .await
    }

    async fn make_dir(&self, path: &str) -> Result<()> {
        let path = path.to_owned();
        self.with_files("make_dir", move |files, _| files.make_dir(&path))
            .await
    }

    #[cfg(unix)]
    async fn start_process(&self, spec: ProcessSpec) -> Result<()> {
        let cwd = spec.cwd.clone();
        let in_workspace = cwd.is_none();
        let (dir, path) = match cwd {
            Some(cwd) => self.start_folder(cwd).await?,
            // Most commands start here, and it is open already: for them a thread
            // that may block would be a detour.
            None => self.files.workspace_folder().map_err(|e| {
                Error::io(e, "the workspace can't be held open").operation("start_process")
            })?,
        };
        let started = self.processes.start(spec, StartFolder { dir, path }).await;
        match started {
            // Of the program or of the folder: that the system doesn't say.
            Err(e) if in_workspace && e.kind() == ErrorKind::NotFound => {
                self.start_folder(".".to_owned()).await?;
                Err(e.operation("start_process"))
            }
            outcome => outcome.map_err(|e| e.operation("start_process")),
        }
    }

    #[cfg(unix)]
    async fn read_process(
        &self,
        process: &ProcessId,
        after: Option<u64>,
        max_bytes: usize,
        wait_ms: u64,
    ) -> Result<ProcessRead> {
        let process = self
            .processes
            .get(process)
            .map_err(|e| e.operation("read_process"))?;
        let wait = std::time::Duration::from_millis(wait_ms);
        Ok(process.read(after, max_bytes, wait).await)
    }

    #[cfg(unix)]
    async fn write_stdin(&self, process: &ProcessId, bytes: Option<Vec<u8>>) -> Result<()> {
        let written = match self.processes.get(process) {
            Ok(process) => process.write_stdin(bytes).await,
            Err(e) => Err(e),
        };
        written.map_err(|e| e.operation("write_stdin"))
    }

    #[cfg(unix)]
    async fn signal(&self, process: &ProcessId, signal: Signal) -> Result<()> {
        let process = self
            .processes
            .get(process)
            .map_err(|e| e.operation("signal"))?;
        process.signal(signal);
        Ok(())
    }

    #[cfg(target_os = "linux")]
    async fn resize_pty(&self, process: &ProcessId, size: haft_api::PtySize) -> Result<()> {
        let resized = self
            .processes
            .get(process)
            .and_then(|process| process.resize(size));
        resized.map_err(|e| e.operation("resize_pty"))
    }

    #[cfg(unix)]
    fn release_process(&self, process: &ProcessId) {
        self.processes.release(process);
    }

    async fn port(&self, port: u16) -> Result<String> {
        Ok(format!("127.0.0.1:{port}"))
    }

    async fn close(&self) -> Result<()> {
        self.closed.store(true, Ordering::Release);
        #[cfg(unix)]
        self.processes
            .close()
            .await
            .map_err(|e| e.operation("close"))?;
        Ok(())
    }
}
