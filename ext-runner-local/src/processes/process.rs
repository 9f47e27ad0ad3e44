//! One process of a session: its output, its ending, its input.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use haft_api::{Ending, Error, ErrorKind, ProcessId, ProcessRead, Result, Signal};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::input::Input;
use super::output::Output;
use super::tree::{Tree, TreeStatus, number};

/// How long a process may be held up by a reader that doesn't come.
const READER_PATIENCE: Duration = Duration::from_secs(2);
/// Longer waits are cut to this; the caller asks again.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// A process and what is known of it.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) id: ProcessId,
    pub(crate) detach: bool,
    state: Mutex<State>,
    /// For readers: there is output, or an end.
    changed: Notify,
    /// For the pump: there is room again.
    room: Notify,
    /// For the pump: it won't be long.
    pub(crate) told_to_end: Notify,
    tree: OnceLock<Tree>,
    cause: AtomicU8,
    stdin: tokio::sync::Mutex<Option<Input>>,
    #[cfg(target_os = "linux")]
    terminal: Option<std::os::fd::OwnedFd>,
    over: Notify,
}

#[derive(Debug)]
struct State {
    output: Output,
    ending: Option<Ending>,
    leftovers: Vec<u32>,
    closed: bool,
    /// Nothing of it is alive any more.
    gone: bool,
    last_read: Instant,
    sent: Vec<i32>,
}

/// Why the session ended a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Cause {
    TimedOut = 1,
    Cancelled = 2,
}

impl Process {
    pub(crate) fn new(
        id: ProcessId,
        detach: bool,
        stdin: Option<Input>,
        output_bytes: usize,
    ) -> Self {
        Self {
            id,
            detach,
            state: Mutex::new(State {
                output: Output::new(output_bytes),
                ending: None,
                leftovers: Vec::new(),
                closed: false,
                gone: false,
                last_read: Instant::now(),
                sent: Vec::new(),
            }),
            changed: Notify::new(),
            room: Notify::new(),
            told_to_end: Notify::new(),
            tree: OnceLock::new(),
            cause: AtomicU8::new(0),
            #[cfg(target_os = "linux")]
            terminal: stdin
                .as_ref()
                .and_then(Input::as_terminal)
                .and_then(|terminal| terminal.try_clone().ok()),
            stdin: tokio::sync::Mutex::new(stdin),
            over: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change under this lock is a whole one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands over the hold on the running tree.
    pub(crate) fn started(&self, tree: Tree) {
        let tree = self.tree.get_or_init(|| tree);
        // Told to end before there was anything to end.
        if self.cause.load(Ordering::SeqCst) != 0 {
            tree.end();
        }
    }

    /// Has all of it end. The first cause is the one that is reported.
    pub(crate) fn end(&self, cause: Cause) {
        let _ = self
            .cause
            .compare_exchange(0, cause as u8, Ordering::SeqCst, Ordering::SeqCst);
        self.told_to_end.notify_one();
        if let Some(tree) = self.tree.get() {
            tree.end();
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.state().sent.push(number(signal).as_raw());
        if let Some(tree) = self.tree.get() {
            tree.signal(signal);
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.state().ending.is_some()
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.state().gone
    }

    /// Waits until there is room for so many bytes, or the reader has lost its
    /// claim to be waited for: then the oldest will have to go.
    pub(crate) async fn wait_for_room(&self, bytes: usize) {
        while let Some(patience) = self.patience_for_room(bytes) {
            tokio::select! {
                () = self.room.notified() => {}
                () = tokio::time::sleep_until(patience) => {}
            }
        }
    }

    fn patience_for_room(&self, bytes: usize) -> Option<Instant> {
        let mut state = self.state();
        if state.output.make_room(bytes) {
            return None;
        }
        let patience = state.last_read + READER_PATIENCE;
        (patience > Instant::now()).then_some(patience)
    }

    pub(crate) fn push(&self, channel: haft_api::OutputChannel, bytes: bytes::Bytes) {
        self.state().output.push(channel, bytes);
        self.changed.notify_waiters();
    }

    /// The command has ended.
    pub(crate) fn ended(&self, status: TreeStatus, leftovers: Vec<u32>) {
        let mut state = self.state();
        let ending = match status {
            TreeStatus::Code(code) => Ending::Exited { code },
            TreeStatus::Signal(signal) if state.sent.contains(&signal) => Ending::Cancelled,
            TreeStatus::Signal(signal) => Ending::Signalled { signal },
            TreeStatus::OutOfMemory => Ending::OutOfMemory,
        };
        let ending = self.caused().unwrap_or(ending);
        state.ending = Some(ending);
        state.leftovers = leftovers;
        drop(state);
        self.over.notify_waiters();
        self.changed.notify_waiters();
    }

    /// Nobody will ever know how it ended.
    pub(crate) fn lost(&self, reason: String) {
        let mut state = self.state();
        if state.ending.is_none() {
            let unknown = Ending::Unknown { reason };
            state.ending = Some(self.caused().unwrap_or(unknown));
        }
        drop(state);
        self.over.notify_waiters();
        self.changed.notify_waiters();
    }

    fn caused(&self) -> Option<Ending> {
        match self.cause.load(Ordering::SeqCst) {
            cause if cause == Cause::TimedOut as u8 => Some(Ending::TimedOut),
            cause if cause == Cause::Cancelled as u8 => Some(Ending::Cancelled),
            _ => None,
        }
    }

    /// No more output will be kept.
    pub(crate) fn closed(&self) {
        self.state().closed = true;
        self.changed.notify_waiters();
    }

    pub(crate) fn gone(&self) {
        self.state().gone = true;
    }

    pub(crate) async fn read(
        &self,
        after: Option<u64>,
        max_bytes: usize,
        wait: Duration,
    ) -> ProcessRead {
        // A caller that asks for the same again and again never waits here, and
        // must not keep the pump from its work.
        tokio::task::consume_budget().await;
        let end = Instant::now() + wait.min(LONGEST_WAIT);
        let known_to_have_ended = self.has_ended();
        loop {
            // Before looking, so that no change falls between.
            let changed = self.changed.notified();
            let (read, worth_it) = self.read_now(after, max_bytes);
            self.room.notify_one();
            let news = read.ending.is_some() && !known_to_have_ended;
            if worth_it || news || tokio::time::timeout_at(end, changed).await.is_err() {
                return read;
            }
        }
    }

    fn read_now(&self, after: Option<u64>, max_bytes: usize) -> (ProcessRead, bool) {
        let mut state = self.state();
        state.last_read = Instant::now();
        let taken = state.output.take(after, max_bytes);
        let mut read = ProcessRead::default();
        read.closed = state.closed && taken.complete;
        read.ending = state.ending.clone();
        read.skipped_bytes = taken.skipped_bytes;
        read.chunks = taken.chunks;
        if read.ending.is_some() {
            read.leftovers = state.leftovers.clone();
        }
        let worth_it = read.closed || !read.chunks.is_empty();
        (read, worth_it)
    }

    pub(crate) async fn write_stdin(&self, bytes: Option<Vec<u8>>) -> Result<()> {
        let over = self.over.notified();
        let mut stdin = self.stdin.lock().await;
        let Some(bytes) = bytes else {
            if let Some(input) = stdin.take() {
                tokio::select! {
                    // Nobody may be there to take notice.
                    _ = input.finish() => {}
                    () = over => {}
                }
            }
            return Ok(());
        };
        let not_read = || {
            Error::new(
                ErrorKind::Unavailable,
                "the process doesn't read its standard input any more",
            )
            .permanent()
            .context("process", &self.id)
        };
        if self.has_ended() {
            return Err(not_read());
        }
        let Some(input) = stdin.as_mut() else {
            return Err(Error::new(
                ErrorKind::Unavailable,
                "the process's standard input is closed; ask for it when starting the process",
            )
            .permanent()
            .context("process", &self.id));
        };
        let written = tokio::select! {
            written = input.write(&bytes) => written,
            // Somebody it started may hold the other end open for ever.
            () = over => return Err(not_read()),
        };
        written.map_err(|e| {
            *stdin = None;
            not_read().source(e)
        })
    }

    /// Gives its terminal another size.
    #[cfg(target_os = "linux")]
    pub(crate) fn resize(&self, size: haft_api::PtySize) -> Result<()> {
        let refuse = |kind, message: &str| Error::new(kind, message).context("process", &self.id);
        let Some(terminal) = &self.terminal else {
            return Err(refuse(
                ErrorKind::InvalidInput,
                "the process has no terminal; ask for one when starting it",
            ));
        };
        super::terminal::resize(terminal, size)
            .map_err(|e| refuse(ErrorKind::Unavailable, "the terminal is gone").source(e))
    }
}
