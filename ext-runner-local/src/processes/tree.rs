//! A command and all it started, as seen from the host.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use haft_api::Signal;
use tokio::sync::mpsc;

use super::grouped::Group;
use super::pump::Streams;
#[cfg(target_os = "linux")]
use super::supervised::Supervision;
#[cfg(target_os = "linux")]
use super::terminal::Terminal;
#[cfg(target_os = "linux")]
use crate::supervisor::Met;

/// What to start.
pub(crate) struct Command {
    pub(crate) argv: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) cwd: StartFolder,
    pub(crate) stdin: Option<OwnedFd>,
    /// Instead of pipes.
    #[cfg(target_os = "linux")]
    pub(crate) terminal: Option<Terminal>,
    pub(crate) detach: bool,
    pub(crate) grace_ms: u32,
}

/// The folder to start in: open, so that it can't be swapped for another.
pub(crate) struct StartFolder {
    pub(crate) dir: cap_std::fs::Dir,
    pub(crate) path: PathBuf,
}

impl StartFolder {
    /// A path that leads there, for as long as `self` lives.
    pub(crate) fn held_path(&self) -> PathBuf {
        if cfg!(target_os = "linux") {
            use std::os::fd::AsRawFd as _;
            PathBuf::from(format!("/proc/self/fd/{}", self.dir.as_raw_fd()))
        } else {
            self.path.clone()
        }
    }
}

/// What becomes of a tree, in this order.
#[derive(Debug)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(crate) enum TreeEvent {
    /// The command runs.
    Started,
    /// It couldn't be started. The last event.
    Failed(io::Error),
    /// The command has ended, and its leftovers were seen to.
    Exited {
        status: TreeStatus,
        /// Limits that were met meanwhile.
        #[cfg(target_os = "linux")]
        met: Met,
        leftovers: Vec<u32>,
    },
    /// It can't be known how the command ended. The last event.
    Lost { reason: String },
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(crate) enum TreeStatus {
    Code(i32),
    Signal(i32),
    OutOfMemory,
}

/// A tree that was started. The events end when nothing of it is left.
pub(crate) struct Started {
    pub(crate) tree: Tree,
    pub(crate) events: mpsc::UnboundedReceiver<TreeEvent>,
    pub(crate) streams: Streams,
}

/// A hold on a tree. All methods return at once, and may be called anywhere.
#[derive(Debug)]
pub(crate) enum Tree {
    #[cfg(target_os = "linux")]
    Supervised(Supervision),
    Grouped(Group),
}

impl Tree {
    /// Signals the command and all it started.
    pub(crate) fn signal(&self, signal: Signal) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Supervised(supervision) => supervision.signal(signal),
            Self::Grouped(group) => group.signal(number(signal)),
        }
    }

    /// Has everything end: politely first, then not.
    pub(crate) fn end(&self) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Supervised(supervision) => supervision.end(),
            Self::Grouped(group) => group.end(),
        }
    }
}

pub(crate) fn number(signal: Signal) -> rustix::process::Signal {
    match signal {
        Signal::Interrupt => rustix::process::Signal::INT,
        Signal::Terminate => rustix::process::Signal::TERM,
        Signal::Kill => rustix::process::Signal::KILL,
    }
}
