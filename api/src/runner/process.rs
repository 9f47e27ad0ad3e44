//! Processes of a session.

use serde::{Deserialize, Serialize};

use crate::context::OutputChannel;
use crate::id::ProcessId;

/// What to start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProcessSpec {
    /// The name under which the process is known from now on; unique in the
    /// session.
    pub id: ProcessId,
    /// Program and arguments; not a shell's line.
    pub argv: Vec<String>,
    /// Folder to start in; `None` is the workspace.
    pub cwd: Option<String>,
    /// Variables added to the session's own clean environment.
    pub env: Vec<(String, String)>,
    /// Whether standard input is kept open for
    /// [`write_stdin`](super::RemoteRunnerSession::write_stdin). Otherwise it is
    /// at its end at once.
    pub stdin: bool,
    /// Whether to run on a pseudo terminal. Its output is all on the channel of
    /// standard output then, and standard input is always open.
    pub pty: bool,
    /// The terminal's size at the start; `None` leaves it to the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pty_size: Option<PtySize>,
    /// When to kill it, in milliseconds from its start.
    pub timeout_ms: Option<u64>,
    /// Whether processes that it leaves behind may live on when it ends.
    pub detach: bool,
}

impl ProcessSpec {
    /// A process without input that takes everything with it when it ends.
    pub fn new(id: ProcessId, argv: Vec<String>) -> Self {
        Self {
            id,
            argv,
            cwd: None,
            env: Vec::new(),
            stdin: false,
            pty: false,
            pty_size: None,
            timeout_ms: None,
            detach: false,
        }
    }
}

/// The size of a pseudo terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PtySize {
    /// How many lines.
    pub rows: u16,
    /// How many characters in a line.
    pub columns: u16,
}

impl Default for PtySize {
    fn default() -> Self {
        Self {
            rows: 24,
            columns: 80,
        }
    }
}

/// A piece of a process's output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessChunk {
    /// Its number, contiguous over both channels of the process.
    pub seq: u64,
    /// Which stream it came from.
    pub channel: OutputChannel,
    /// Raw bytes, cut anywhere.
    pub bytes: Vec<u8>,
}

/// How a process ended. None of these is "failed in general".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Ending {
    /// By itself.
    Exited {
        /// Its exit code.
        code: i32,
    },
    /// By a signal that the session didn't send.
    Signalled {
        /// The signal's number.
        signal: i32,
    },
    /// By its time limit.
    TimedOut,
    /// By a memory limit.
    OutOfMemory,
    /// By the session, because it was told to.
    Cancelled,
    /// Nobody knows: the runner died or was lost while it ran.
    Unknown {
        /// What is known.
        reason: String,
    },
}

impl Ending {
    /// True for exit code 0 and nothing else.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Exited { code: 0 })
    }
}

/// What a read of a process's output brought.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProcessRead {
    /// The pieces after the number that was asked for.
    pub chunks: Vec<ProcessChunk>,
    /// Bytes between the number asked for and the first piece that are gone,
    /// because nobody read them in time.
    pub skipped_bytes: u64,
    /// How the process ended, once it has. Output may still follow.
    pub ending: Option<Ending>,
    /// True once no more output will come: everything up to here was read.
    pub closed: bool,
    /// Processes that outlived it, once it has ended: killed, or alive where
    /// `detach` was asked for.
    pub leftovers: Vec<u32>,
}

/// A signal that every system has in some form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// As Ctrl-C does.
    Interrupt,
    /// Please end.
    Terminate,
    /// End at once.
    Kill,
}

/// A command to be run to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandRequest {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Folder to start in; `None` is the workspace.
    pub cwd: Option<String>,
    /// Variables added to the session's environment.
    pub env: Vec<(String, String)>,
    /// When to kill it, in milliseconds from its start.
    pub timeout_ms: Option<u64>,
    /// What it reads on standard input.
    pub stdin: Option<Vec<u8>>,
    /// Whether processes that it leaves behind may live on.
    pub detach: bool,
}

impl CommandRequest {
    /// A command without input.
    pub fn new(argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            cwd: None,
            env: Vec::new(),
            timeout_ms: None,
            stdin: None,
            detach: false,
        }
    }

    /// A line for the POSIX shell.
    pub fn shell(line: impl Into<String>) -> Self {
        Self::new(["/bin/sh".to_owned(), "-c".to_owned(), line.into()])
    }
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandOutcome {
    /// How.
    pub ending: Ending,
    /// Processes that outlived it; see [`ProcessRead::leftovers`].
    pub leftovers: Vec<u32>,
    /// Output bytes that nobody saw.
    pub skipped_bytes: u64,
}

impl CommandOutcome {
    /// An outcome with nothing left over.
    pub fn new(ending: Ending) -> Self {
        Self {
            ending,
            leftovers: Vec::new(),
            skipped_bytes: 0,
        }
    }
}
