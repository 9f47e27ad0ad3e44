//! Moves a process's output into its store, and notes its end.

use std::future::poll_fn;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use haft_api::OutputChannel;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::process::{Cause, Process};
use super::tree::TreeEvent;
use crate::config::Limits;

/// Most bytes of one read.
const READ_BYTES: usize = 64 * 1024;
/// The size asked of the system for each pipe. Larger ones mean fewer turns.
const PIPE_BYTES: usize = 256 * 1024;
/// After the end, output is waited for as long as it comes in such steps…
const QUIET: Duration = Duration::from_millis(50);
/// …and no longer than this.
const DRAIN: Duration = Duration::from_millis(200);
/// How long after it was told to end a tree may take before it is given up.
const GIVE_UP: Duration = Duration::from_secs(5);

/// Runs until the command has ended and its output is in, and then for as long
/// as something of it lives.
pub(crate) struct Pump {
    pub(crate) process: Arc<Process>,
    pub(crate) events: mpsc::UnboundedReceiver<TreeEvent>,
    pub(crate) pipes: Pipes,
    pub(crate) timeout: Option<Duration>,
    pub(crate) grace: Duration,
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) limits: Limits,
    /// What is to be said at the end of the output.
    pub(crate) notes: Vec<String>,
}

impl Pump {
    pub(crate) async fn run(mut self, started: oneshot::Sender<std::io::Result<()>>) {
        // If the runtime is torn down, the processes go with it.
        let _end = EndOnDrop(Arc::clone(&self.process));
        match self.events.recv().await {
            Some(TreeEvent::Started) => {
                // Nobody waits any more where the start was given up; then the
                // process was told to end.
                let _ = started.send(Ok(()));
            }
            Some(TreeEvent::Failed(e)) => {
                let _ = started.send(Err(e));
                return;
            }
            other => {
                let reason = format!("the command was lost before it ran ({other:?})");
                let _ = started.send(Err(std::io::Error::other(reason)));
                return;
            }
        }
        let ended = self.until_end().await;
        if ended {
            self.drain().await;
        }
        for note in std::mem::take(&mut self.notes) {
            self.process.push(OutputChannel::Stderr, note.into());
        }
        self.process.closed();
        self.discard().await;
    }

    /// Pumps until the command has ended. False if there is no point in waiting
    /// for more output.
    async fn until_end(&mut self) -> bool {
        let mut deadline = self.timeout.map(|timeout| Instant::now() + timeout);
        let mut give_up = None;
        loop {
            tokio::select! {
                event = self.events.recv() => match event {
                    Some(TreeEvent::Exited {
                        status,
                        #[cfg(target_os = "linux")]
                        met,
                        leftovers,
                    }) => {
                        #[cfg(target_os = "linux")]
                        self.notes.extend(super::notes::of_limits(met, &self.limits));
                        self.process.ended(status, leftovers);
                        return true;
                    }
                    Some(TreeEvent::Lost { reason }) => {
                        self.process.lost(reason);
                        return true;
                    }
                    Some(_) => {}
                    None => {
                        self.process.lost("whoever watched the command is gone".to_owned());
                        return true;
                    }
                },
                () = at(deadline) => {
                    deadline = None;
                    self.process.end(Cause::TimedOut);
                }
                () = self.process.told_to_end.notified() => {
                    give_up.get_or_insert(Instant::now() + self.grace + GIVE_UP);
                }
                () = at(give_up) => {
                    self.process.lost("the command can't be killed".to_owned());
                    return false;
                }
                () = self.pipes.step(&self.process) => {}
            }
        }
    }

    /// After the end: takes what the command had written, and what follows at
    /// once, but doesn't wait for a pipe that somebody else holds open.
    async fn drain(&mut self) {
        let end = Instant::now() + DRAIN;
        let before = self.pipes.received;
        while self.pipes.is_open() {
            self.process.wait_for_room(READ_BYTES).await;
            // Past the end this still takes what is there already.
            let quiet = (Instant::now() + QUIET).min(end);
            let receive = self.pipes.receive(&self.process);
            if tokio::time::timeout_at(quiet, receive).await.is_err() {
                return;
            }
            let own = self.pipes.received - before;
            if Instant::now() >= end && own >= 2 * PIPE_BYTES {
                return;
            }
        }
    }

    /// For as long as something of the process lives, takes its output so that
    /// it doesn't stall or die of a closed pipe; nobody is interested in it.
    async fn discard(&mut self) {
        loop {
            tokio::select! {
                event = self.events.recv() => if event.is_none() {
                    self.process.gone();
                    return;
                },
                _ = self.pipes.read(), if self.pipes.is_open() => {}
            }
        }
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

struct EndOnDrop(Arc<Process>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        if !self.0.is_gone() {
            self.0.end(Cause::Cancelled);
            self.0
                .lost("the session's runtime was shut down".to_owned());
            self.0.closed();
            self.0.gone();
        }
    }
}

/// Where a command's output comes from.
pub(crate) struct Streams([Option<(OutputChannel, Box<dyn AsyncRead + Send + Unpin>)>; 2]);

impl Streams {
    /// Two pipes.
    pub(crate) fn two(
        stdout: impl AsyncRead + AsFd + Send + Unpin + 'static,
        stderr: impl AsyncRead + AsFd + Send + Unpin + 'static,
    ) -> Self {
        #[cfg(target_os = "linux")]
        {
            // Whoever has many pipes already may be refused: then it is slower.
            let _ = rustix::pipe::fcntl_setpipe_size(&stdout, PIPE_BYTES);
            let _ = rustix::pipe::fcntl_setpipe_size(&stderr, PIPE_BYTES);
        }
        Self([
            Some((OutputChannel::Stdout, Box::new(stdout))),
            Some((OutputChannel::Stderr, Box::new(stderr))),
        ])
    }

    /// A terminal, which has but one.
    #[cfg(target_os = "linux")]
    pub(crate) fn one(terminal: impl AsyncRead + Send + Unpin + 'static) -> Self {
        Self([Some((OutputChannel::Stdout, Box::new(terminal))), None])
    }
}

/// Both output pipes.
pub(crate) struct Pipes {
    open: [Option<(OutputChannel, Box<dyn AsyncRead + Send + Unpin>)>; 2],
    buffer: Box<[u8]>,
    /// Which one is asked first, in turns.
    first: usize,
    received: usize,
}

impl Pipes {
    pub(crate) fn new(streams: Streams) -> Self {
        Self {
            open: streams.0,
            buffer: vec![0; READ_BYTES].into(),
            first: 0,
            received: 0,
        }
    }

    fn is_open(&self) -> bool {
        self.open.iter().any(Option::is_some)
    }

    /// Waits for output, and stores it. Never ends once both pipes are closed.
    /// May be dropped at any point.
    async fn receive(&mut self, process: &Process) {
        let (channel, bytes) = self.read().await;
        if !bytes.is_empty() {
            self.received += bytes.len();
            process.push(channel, bytes);
        }
    }

    async fn step(&mut self, process: &Process) {
        process.wait_for_room(READ_BYTES).await;
        self.receive(process).await;
    }

    /// The next piece of either; an empty one when a pipe has closed.
    async fn read(&mut self) -> (OutputChannel, Bytes) {
        poll_fn(|cx| self.poll_read(cx)).await
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<(OutputChannel, Bytes)> {
        for turn in 0..2 {
            let index = (self.first + turn) % 2;
            let Some((channel, pipe)) = &mut self.open[index] else {
                continue;
            };
            let channel = *channel;
            let mut buffer = ReadBuf::new(&mut self.buffer);
            match Pin::new(pipe).poll_read(cx, &mut buffer) {
                Poll::Pending => {}
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    self.first = (index + 1) % 2;
                    return Poll::Ready((channel, Bytes::copy_from_slice(buffer.filled())));
                }
                // The end, or an error, which means the same here.
                Poll::Ready(_) => {
                    self.open[index] = None;
                    return Poll::Ready((channel, Bytes::new()));
                }
            }
        }
        Poll::Pending
    }
}
