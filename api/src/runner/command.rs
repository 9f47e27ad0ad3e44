//! One-shot commands, as a convenience on top of processes.

use async_trait::async_trait;

use super::{CommandOutcome, CommandRequest, Ending, ProcessSpec, RemoteRunnerSession};
use crate::context::OutputSink;
use crate::error::Result;
use crate::id::ProcessId;

/// Most bytes taken in one read.
const READ_BYTES: usize = 64 * 1024;
/// Longest wait of one read, in milliseconds. Not a delay: a read returns as
/// soon as there is something.
const READ_WAIT_MS: u64 = 30_000;

/// Conveniences over every session.
///
/// ```
/// use haft_api::*;
///
/// async fn test(session: &dyn RemoteRunnerSession, id: ProcessId) -> Result<bool> {
///     let command = CommandRequest::shell("make test");
///     let outcome = session.run_command(id, command, &NoOutput).await?;
///     Ok(outcome.ending.is_success())
/// }
/// ```
#[async_trait]
pub trait RemoteRunnerSessionExt: RemoteRunnerSession {
    /// Runs a command to its end and hands its output over as it arises.
    /// Dropping the future kills the command and all it started.
    ///
    /// # Errors
    /// If it can't be started or the session fails. How the command itself
    /// ended is in the outcome.
    async fn run_command(
        &self,
        id: ProcessId,
        request: CommandRequest,
        output: &dyn OutputSink,
    ) -> Result<CommandOutcome> {
        let mut spec = ProcessSpec::new(id.clone(), request.argv);
        spec.cwd = request.cwd;
        spec.env = request.env;
        spec.timeout_ms = request.timeout_ms;
        spec.detach = request.detach;
        spec.stdin = request.stdin.is_some();
        // Made before the start: a future dropped while the start is under way
        // must not leave a process either.
        let _release = Release {
            session: self,
            id: &id,
        };
        self.start_process(spec).await?;
        if let Some(bytes) = request.stdin {
            // A command that doesn't read its input isn't a failed one.
            let sent = self.write_stdin(&id, Some(bytes)).await;
            if sent.is_ok() {
                self.write_stdin(&id, None).await.ok();
            }
        }
        let mut after = None;
        let mut skipped_bytes = 0;
        loop {
            let read = self
                .read_process(&id, after, READ_BYTES, READ_WAIT_MS)
                .await?;
            skipped_bytes += read.skipped_bytes;
            for chunk in &read.chunks {
                after = Some(chunk.seq);
                output.write(chunk.channel, &chunk.bytes);
            }
            if read.closed {
                let ending = read.ending.unwrap_or_else(|| Ending::Unknown {
                    reason: "the output ended without an exit status".to_owned(),
                });
                return Ok(CommandOutcome {
                    ending,
                    leftovers: read.leftovers,
                    skipped_bytes,
                });
            }
        }
    }
}

impl<S: RemoteRunnerSession + ?Sized> RemoteRunnerSessionExt for S {}

struct Release<'a, S: RemoteRunnerSession + ?Sized> {
    session: &'a S,
    id: &'a ProcessId,
}

impl<S: RemoteRunnerSession + ?Sized> Drop for Release<'_, S> {
    fn drop(&mut self) {
        self.session.release_process(self.id);
    }
}
