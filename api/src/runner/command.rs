//! One-shot commands, as a convenience on top of processes.

use std::future::{Future as _, poll_fn};
use std::pin::pin;

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
        // Both at once: a command that answers while it reads would else wait
        // for a reader, or lose its output.
        let mut feeding = pin!(feed(self, &id, request.stdin));
        let mut following = pin!(follow(self, &id, output));
        let mut fed = false;
        poll_fn(|cx| {
            fed = fed || feeding.as_mut().poll(cx).is_ready();
            following.as_mut().poll(cx)
        })
        .await
    }
}

impl<S: RemoteRunnerSession + ?Sized> RemoteRunnerSessionExt for S {}

/// Hands a command its input. One that doesn't read it isn't a failed one.
async fn feed<S: RemoteRunnerSession + ?Sized>(
    session: &S,
    id: &ProcessId,
    stdin: Option<Vec<u8>>,
) {
    let Some(bytes) = stdin else { return };
    if session.write_stdin(id, Some(bytes)).await.is_ok() {
        session.write_stdin(id, None).await.ok();
    }
}

/// Hands a command's output over until it has ended.
async fn follow<S: RemoteRunnerSession + ?Sized>(
    session: &S,
    id: &ProcessId,
    output: &dyn OutputSink,
) -> Result<CommandOutcome> {
    let mut after = None;
    let mut skipped_bytes = 0;
    loop {
        let read = session
            .read_process(id, after, READ_BYTES, READ_WAIT_MS)
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

struct Release<'a, S: RemoteRunnerSession + ?Sized> {
    session: &'a S,
    id: &'a ProcessId,
}

impl<S: RemoteRunnerSession + ?Sized> Drop for Release<'_, S> {
    fn drop(&mut self) {
        self.session.release_process(self.id);
    }
}
