//! What a case has to do with: a fixture, and short ways through a session.

use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft_api::{
    Binding, CommandRequest, Ending, FileMetadata, OutputChannel, OutputSink, ProcessId,
    ProcessRead, ProcessSpec, ReadOptions, RemoteRunnerProvider, RemoteRunnerSession,
    RemoteRunnerSessionExt, Result, Resumed, RunnerCapabilities, SessionState, WriteMode,
    WriteOptions,
};

use super::{Probe, RunnerFixture};
use crate::fixture::fresh_process;
use crate::lock::lock;
use crate::suite::expect::{claimed, ensure, ok, soon};
use crate::suite::{Checked, Unmet};

/// How long anything may take that has no reason to take long.
pub(super) const SOON: Duration = Duration::from_secs(20);

/// The fixture of one case.
pub(super) struct Subject {
    fixture: RunnerFixture,
}

impl Subject {
    pub(super) fn new(fixture: RunnerFixture) -> Self {
        Self { fixture }
    }

    pub(super) fn provider(&self) -> &Arc<dyn RemoteRunnerProvider> {
        &self.fixture.provider
    }

    pub(super) fn binding(&self) -> Binding {
        self.fixture.binding.clone()
    }

    pub(super) fn can(&self) -> RunnerCapabilities {
        self.fixture.provider.capabilities()
    }

    /// A fresh session.
    pub(super) async fn session(&self) -> Result<Session, Unmet> {
        let created = self.provider().create(self.binding()).await;
        Ok(Session(ok("creating a session", created)?))
    }

    /// A fresh session that can run processes, or the end of the case.
    pub(super) async fn session_with_processes(&self) -> Result<Session, Unmet> {
        claimed(
            self.can().processes,
            "the provider doesn't claim `processes`",
        )?;
        self.session().await
    }

    /// Resumes a state, which must lead to a session.
    pub(super) async fn resume(&self, state: SessionState) -> Result<Session, Unmet> {
        let resumed = self.provider().resume(self.binding(), state).await;
        match ok("resuming a session", resumed)? {
            Resumed::Session(session) => Ok(Session(session)),
            Resumed::Gone { reason } => {
                Err(format!("expected the session to be there, got: gone: {reason}").into())
            }
        }
    }

    /// The command for a probe, or the end of the case.
    pub(super) fn command(&self, probe: &Probe) -> Result<Vec<String>, Unmet> {
        let command = (self.fixture.command)(probe);
        command
            .ok_or_else(|| Unmet::NotClaimed(format!("the fixture has no command for {probe:?}")))
    }

    /// A process for a probe.
    pub(super) fn spec(&self, probe: &Probe) -> Result<ProcessSpec, Unmet> {
        Ok(ProcessSpec::new(fresh_process(), self.command(probe)?))
    }

    /// A command for a probe.
    pub(super) fn request(&self, probe: &Probe) -> Result<CommandRequest, Unmet> {
        Ok(CommandRequest::new(self.command(probe)?))
    }
}

/// A live session.
#[derive(Clone)]
pub(super) struct Session(pub(super) Arc<dyn RemoteRunnerSession>);

impl Deref for Session {
    type Target = dyn RemoteRunnerSession;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

/// What a command printed, and how it ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ran {
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) ending: Ending,
    pub(super) leftovers: Vec<u32>,
}

#[derive(Default)]
struct Kept {
    stdout: Mutex<Vec<u8>>,
    stderr: Mutex<Vec<u8>>,
}

impl OutputSink for Kept {
    fn write(&self, channel: OutputChannel, bytes: &[u8]) {
        let kept = match channel {
            OutputChannel::Stdout => &self.stdout,
            OutputChannel::Stderr => &self.stderr,
        };
        lock(kept).extend_from_slice(bytes);
    }
}

impl Session {
    pub(super) async fn put(&self, path: &str, text: &str) -> Result<FileMetadata, Unmet> {
        let options = WriteOptions::default().create_parents();
        let written = self.write_file(path, text.into(), options).await;
        ok(&format!("writing {path:?}"), written)
    }

    /// Writes under a condition.
    pub(super) async fn put_if(
        &self,
        path: &str,
        text: &str,
        mode: WriteMode,
    ) -> Result<FileMetadata> {
        let options = WriteOptions::mode(mode);
        self.write_file(path, text.into(), options).await
    }

    pub(super) async fn bytes(&self, path: &str) -> Result<Vec<u8>, Unmet> {
        let read = self.read_file(path, ReadOptions::default()).await;
        Ok(ok(&format!("reading {path:?}"), read)?.bytes)
    }

    pub(super) async fn text(&self, path: &str) -> Result<String, Unmet> {
        let bytes = self.bytes(path).await?;
        String::from_utf8(bytes)
            .map_err(|e| format!("expected {path:?} to be the text that was written: {e}").into())
    }

    pub(super) async fn exists(&self, path: &str) -> bool {
        self.0.metadata(path).await.is_ok()
    }

    /// The names of a folder, page by page.
    pub(super) async fn names(&self, path: &str) -> Result<Vec<String>, Unmet> {
        let entries = super::listing::entries(self, path, None).await?;
        Ok(entries.into_iter().map(|entry| entry.name).collect())
    }

    /// Runs a command to its end.
    pub(super) async fn run(&self, request: CommandRequest) -> Result<Ran, Unmet> {
        let kept = Kept::default();
        let what = format!("the end of {:?}", request.argv);
        let run = self.0.run_command(fresh_process(), request, &kept);
        let outcome = ok("running a command", soon(&what, SOON, run).await?)?;
        let text = |bytes: Mutex<Vec<u8>>| {
            let bytes = bytes.into_inner().unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        Ok(Ran {
            stdout: text(kept.stdout),
            stderr: text(kept.stderr),
            ending: outcome.ending,
            leftovers: outcome.leftovers,
        })
    }

    /// Starts a process and returns its id.
    pub(super) async fn start(&self, spec: ProcessSpec) -> Result<ProcessId, Unmet> {
        let id = spec.id.clone();
        let what = format!("starting {:?}", spec.argv);
        ok(&what, self.start_process(spec).await)?;
        Ok(id)
    }

    pub(super) async fn read(
        &self,
        id: &ProcessId,
        after: Option<u64>,
        max_bytes: usize,
        wait_ms: u64,
    ) -> Result<ProcessRead, Unmet> {
        let read = self.read_process(id, after, max_bytes, wait_ms).await;
        ok("reading a process", read)
    }

    /// Reads a process from a place to its end, in pieces.
    pub(super) async fn drain(
        &self,
        id: &ProcessId,
        mut after: Option<u64>,
        max_bytes: usize,
    ) -> Result<Drained, Unmet> {
        let reading = async {
            let mut drained = Drained::default();
            loop {
                let read = self.read(id, after, max_bytes, 1000).await?;
                drained.skipped += read.skipped_bytes;
                for chunk in &read.chunks {
                    if let (Some(after), 0) = (after, read.skipped_bytes) {
                        ensure!(
                            chunk.seq == after + 1,
                            "expected contiguous numbers, got {} after {after}",
                            chunk.seq
                        );
                    }
                    after = Some(chunk.seq);
                    drained.bytes.extend_from_slice(&chunk.bytes);
                }
                if read.closed {
                    let Some(ending) = read.ending else {
                        return Err("expected an ending with the end of output, got none"
                            .to_owned()
                            .into());
                    };
                    drained.ending = Some(ending);
                    return Ok(drained);
                }
            }
        };
        soon("the end of a process's output", SOON, reading).await?
    }

    /// Waits until a process has printed this, and returns its last number.
    pub(super) async fn printed(&self, id: &ProcessId, text: &str) -> Result<Option<u64>, Unmet> {
        let reading = async {
            let (mut after, mut printed) = (None, Vec::new());
            loop {
                let read = self.read(id, after, 4096, 1000).await?;
                for chunk in read.chunks {
                    after = Some(chunk.seq);
                    printed.extend(chunk.bytes);
                }
                let printed = String::from_utf8_lossy(&printed);
                if printed.contains(text) {
                    return Ok(after);
                }
                ensure!(
                    !read.closed,
                    "expected a process to print {text:?}, got {printed:?}"
                );
            }
        };
        soon(&format!("a process to print {text:?}"), SOON, reading).await?
    }
}

/// A process's output and ending.
#[derive(Debug, Default)]
pub(super) struct Drained {
    pub(super) bytes: Vec<u8>,
    pub(super) skipped: u64,
    pub(super) ending: Option<Ending>,
}

/// Checks that a file doesn't appear, long after it would have been written.
pub(super) async fn never_appears(session: &Session, file: &str, within: Duration) -> Checked {
    tokio::time::sleep(within).await;
    ensure!(
        !session.exists(file).await,
        "expected every process to be dead, but one of them wrote {file}"
    );
    Ok(())
}
