//! A session over a sandbox in memory.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use haft_api::{
    DestinationId, Error, ErrorKind, FileData, FileMetadata, ListOptions, Listing, ProcessId,
    ProcessRead, ProcessSpec, ReadOptions, RemoteRunnerSession, Result, RunnerCapabilities,
    SessionState, Signal, WriteOptions, async_trait, raw_json,
};
use tokio::sync::mpsc;

use super::process::Process;
use super::program::{self, ProgramIo};
use super::world::Sandbox;
use super::{MemoryRunner, RunnerOperation as Op};
use crate::lock::lock;

/// One handle to a sandbox. It is of no use any more once it was paused,
/// detached or closed, whatever becomes of the sandbox.
pub(super) struct MemorySession {
    runner: MemoryRunner,
    sandbox: Arc<Sandbox>,
    destination: DestinationId,
    attachment: u64,
    let_go: AtomicBool,
}

impl MemorySession {
    pub(super) fn attach(
        runner: &MemoryRunner,
        sandbox: Arc<Sandbox>,
        destination: DestinationId,
    ) -> Self {
        Self {
            runner: runner.clone(),
            attachment: sandbox.attach(),
            sandbox,
            destination,
            let_go: AtomicBool::new(false),
        }
    }

    fn check(&self) -> Result<()> {
        if self.let_go.load(Ordering::Acquire) {
            return Err(Error::new(
                ErrorKind::Unavailable,
                "this handle was let go of: resume the session for a new one",
            )
            .context("session", &self.sandbox.id)
            .context("attachment", self.attachment));
        }
        self.sandbox.check()
    }

    fn needs(&self, capability: bool, what: &str) -> Result<()> {
        if capability {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Unsupported,
            format!("this runner does not support {what}"),
        )
        .context("runner", &self.runner.setup.id)
        .context("session", &self.sandbox.id))
    }

    /// Runs an operation on the live sandbox, with the test's faults.
    async fn run<T: Send>(
        &self,
        operation: Op,
        run: impl FnOnce(&Sandbox) -> Result<T> + Send,
    ) -> Result<T> {
        let run = async {
            self.check()?;
            run(&self.sandbox)
        };
        self.runner.faults.run(operation, run).await
    }

    fn process(&self, id: &ProcessId) -> Result<Arc<Process>> {
        let processes = lock(&self.sandbox.processes);
        processes.get(id).cloned().ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "there is no such process").context("process", id)
        })
    }

    fn start(&self, spec: &ProcessSpec) -> Result<()> {
        let sandbox = &self.sandbox;
        let cwd = match &spec.cwd {
            Some(path) => lock(&sandbox.files).dir(&sandbox.roots, path)?,
            None => sandbox.roots.workspace.clone(),
        };
        let Some((program, argv)) = program::find(&self.runner.setup.programs, &spec.argv) else {
            let name = spec.argv.first().cloned().unwrap_or_default();
            return Err(Error::new(ErrorKind::NotFound, "there is no such program")
                .context("program", name));
        };
        let mut processes = lock(&sandbox.processes);
        if processes.contains_key(&spec.id) {
            return Err(
                Error::new(ErrorKind::AlreadyExists, "there is a process of this id")
                    .context("process", &spec.id),
            );
        }
        let (to_stdin, stdin) = mpsc::unbounded_channel();
        let to_stdin = spec.stdin.then_some(to_stdin);
        let process = Arc::new(Process::new(to_stdin, self.runner.setup.output_kept));
        let io = ProgramIo {
            argv,
            cwd,
            env: spec.env.iter().cloned().collect(),
            stdin,
            process: Arc::clone(&process),
            sandbox: Arc::clone(sandbox),
        };
        let printer = Arc::clone(&process);
        let run = async move {
            let run = AssertUnwindSafe(async { program(io).await }).catch_unwind();
            run.await.unwrap_or_else(|panic| {
                let message = haft_api::panic_message(&*panic);
                printer.write(haft_api::OutputChannel::Stderr, message.as_bytes());
                101
            })
        };
        let limit = spec.timeout_ms.map(Duration::from_millis);
        tokio::spawn(Arc::clone(&process).run(run, limit));
        processes.insert(spec.id.clone(), process);
        Ok(())
    }

    /// The handle as it is, or as it will be once the sandbox sleeps.
    fn describe(&self, condition: &str) -> SessionState {
        let metadata = format!(r#"{{"attachment":{},"is":"{condition}"}}"#, self.attachment);
        SessionState {
            provider_id: self.runner.setup.id.clone(),
            session_id: self.sandbox.id.clone(),
            destination_id: self.destination.clone(),
            snapshot: self.sandbox.snapshot(),
            metadata: raw_json(metadata).ok(),
        }
    }
}

#[async_trait]
impl RemoteRunnerSession for MemorySession {
    fn state(&self) -> SessionState {
        self.describe("awake")
    }

    fn capabilities(&self) -> RunnerCapabilities {
        self.runner.setup.capabilities
    }

    fn workspace(&self) -> &str {
        &self.sandbox.roots.workspace
    }

    async fn read_file(&self, path: &str, options: ReadOptions) -> Result<FileData> {
        self.run(Op::ReadFile, |sandbox| {
            lock(&sandbox.files).read(&sandbox.roots, path, options)
        })
        .await
    }

    async fn write_file(
        &self,
        path: &str,
        bytes: Vec<u8>,
        options: WriteOptions,
    ) -> Result<FileMetadata> {
        self.run(Op::WriteFile, |sandbox| {
            lock(&sandbox.files).write(&sandbox.roots, path, bytes, &options)
        })
        .await
    }

    async fn metadata(&self, path: &str) -> Result<FileMetadata> {
        self.run(Op::Metadata, |sandbox| {
            lock(&sandbox.files).metadata(&sandbox.roots, path)
        })
        .await
    }

    async fn list(&self, path: &str, options: ListOptions) -> Result<Listing> {
        self.run(Op::List, |sandbox| {
            lock(&sandbox.files).list(&sandbox.roots, path, &options)
        })
        .await
    }

    async fn remove(&self, path: &str) -> Result<()> {
        self.run(Op::Remove, |sandbox| {
            lock(&sandbox.files).remove(&sandbox.roots, path)
        })
        .await
    }

    async fn make_dir(&self, path: &str) -> Result<()> {
        self.run(Op::MakeDir, |sandbox| {
            lock(&sandbox.files).make_dir(&sandbox.roots, path)
        })
        .await
    }

    async fn start_process(&self, spec: ProcessSpec) -> Result<()> {
        let capabilities = self.capabilities();
        self.needs(capabilities.processes, "processes")?;
        self.needs(capabilities.stdin || !spec.stdin, "standard input")?;
        self.needs(capabilities.pty || !spec.pty, "pseudo terminals")?;
        self.runner.world.note_process(&spec);
        self.run(Op::StartProcess, |_| self.start(&spec)).await
    }

    async fn read_process(
        &self,
        process: &ProcessId,
        after: Option<u64>,
        max_bytes: usize,
        wait_ms: u64,
    ) -> Result<ProcessRead> {
        self.needs(self.capabilities().processes, "processes")?;
        let found = self.run(Op::ReadProcess, |_| self.process(process)).await?;
        let wait = Duration::from_millis(wait_ms);
        Ok(found.read(after, max_bytes, wait).await)
    }

    async fn write_stdin(&self, process: &ProcessId, bytes: Option<Vec<u8>>) -> Result<()> {
        self.needs(self.capabilities().stdin, "standard input")?;
        self.run(Op::WriteStdin, |_| {
            let written = self.process(process)?.write_stdin(bytes);
            written.map_err(|e| e.context("process", process))
        })
        .await
    }

    async fn signal(&self, process: &ProcessId, _: Signal) -> Result<()> {
        self.needs(self.capabilities().processes, "signals")?;
        self.run(Op::Signal, |_| {
            self.process(process)?.kill();
            Ok(())
        })
        .await
    }

    fn release_process(&self, process: &ProcessId) {
        let found = lock(&self.sandbox.processes).remove(process);
        if let Some(found) = found {
            found.kill();
        }
    }

    async fn pause(&self) -> Result<SessionState> {
        self.needs(self.capabilities().pause, "pausing")?;
        self.run(Op::Pause, |sandbox| {
            sandbox.sleep();
            self.let_go.store(true, Ordering::Release);
            Ok(self.describe("paused"))
        })
        .await
    }

    async fn detach(&self) -> Result<SessionState> {
        self.needs(self.capabilities().detach, "detaching")?;
        self.run(Op::Detach, |_| {
            self.let_go.store(true, Ordering::Release);
            Ok(self.describe("detached"))
        })
        .await
    }

    async fn snapshot(&self) -> Result<String> {
        self.needs(self.capabilities().snapshot, "snapshots")?;
        self.run(Op::Snapshot, |sandbox| Ok(sandbox.take_snapshot()))
            .await
    }

    async fn port(&self, port: u16) -> Result<String> {
        self.needs(self.capabilities().ports, "port previews")?;
        self.run(Op::Port, |sandbox| {
            Ok(format!("https://{port}-{}.example", sandbox.id))
        })
        .await
    }

    async fn close(&self) -> Result<()> {
        self.run(Op::Close, |_| {
            self.let_go.store(true, Ordering::Release);
            self.runner.world.lose(&self.sandbox.id);
            Ok(())
        })
        .await
    }
}
