//! A tree without a supervisor: a process group, and what can be found of those
//! that left it.
//!
//! On Linux they are found in `/proc`, as descendants of the command or by a
//! variable that the command was given. A process that loses its parent, leaves
//! the group *and* has another environment escapes; and when the host is killed,
//! nothing ends the command. Elsewhere there is the process group alone.

use std::ffi::OsString;
use std::io;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;
use tokio::sync::mpsc::{self, UnboundedSender};

use super::pump::Streams;
use super::tree::{Command, Started, Tree, TreeEvent, TreeStatus};

/// How long what a command leaves behind has to end by itself.
const SETTLE: Duration = Duration::from_millis(100);
/// How long leftovers have between the polite signal and the final one.
const LEFTOVER_GRACE: Duration = Duration::from_millis(100);

/// Between two looks at who is left after a final signal.
const KILL_PAUSE: Duration = Duration::from_millis(5);
/// How long is tried to kill what doesn't die at once.
const KILL_PATIENCE: Duration = Duration::from_secs(1);

/// The variable that marks a command's offspring.
const MARK: &str = "HAFT_PROCESS";

/// A hold on the group and its strays.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    leader: u32,
    #[cfg(target_os = "linux")]
    mark: String,
    /// When the leader started: nothing older is of its offspring.
    #[cfg(target_os = "linux")]
    started: u64,
    grace: Duration,
}

impl Group {
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(group) = Pid::from_raw(self.inner.leader.cast_signed()) {
            // Nobody may be left in it.
            let _ = kill_process_group(group, signal);
        }
        #[cfg(target_os = "linux")]
        for stray in self.members() {
            if stray.group != self.inner.leader {
                stray.signal(signal);
            }
        }
    }

    /// Ends all, on a thread of its own: this may be called where no runtime is.
    pub(crate) fn end(&self) {
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
        let group = self.clone();
        let finish = move || {
            std::thread::sleep(group.inner.grace);
            group.kill_all();
        };
        if std::thread::Builder::new().spawn(finish).is_err() {
            self.signal(Signal::KILL);
        }
    }

    /// Kills until nobody is left: whoever was in the middle of starting another
    /// when the signal came may have left it behind.
    fn kill_all(&self) {
        let start = std::time::Instant::now();
        loop {
            self.signal(Signal::KILL);
            std::thread::sleep(KILL_PAUSE);
            if self.leftovers().is_empty() || start.elapsed() > KILL_PATIENCE {
                return;
            }
        }
    }

    #[cfg(target_os = "linux")]
    fn members(&self) -> Vec<super::table::Entry> {
        let all = super::table::snapshot();
        let mut members = super::table::beneath(self.inner.leader, &all);
        for entry in &all {
            let ours = entry.group == self.inner.leader
                || entry.started >= self.inner.started && entry.has_variable(&self.inner.mark);
            if ours && !members.contains(entry) {
                members.push(*entry);
            }
        }
        members
    }

    fn leftovers(&self) -> Vec<u32> {
        #[cfg(target_os = "linux")]
        {
            let mut pids: Vec<u32> = self.members().iter().map(|entry| entry.pid).collect();
            pids.sort_unstable();
            pids
        }
        #[cfg(not(target_os = "linux"))]
        {
            let group = Pid::from_raw(self.inner.leader.cast_signed());
            let alive = group.is_some_and(|g| rustix::process::test_kill_process_group(g).is_ok());
            if alive {
                vec![self.inner.leader]
            } else {
                Vec::new()
            }
        }
    }

    /// Waits until nothing is left, for so long at most. True if nothing is.
    async fn wait_empty(&self, time: Duration) -> bool {
        let end = tokio::time::Instant::now() + time;
        let mut pause = Duration::from_millis(1);
        loop {
            if self.leftovers().is_empty() {
                return true;
            }
            if tokio::time::Instant::now() >= end {
                return false;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }
}

/// Starts a command as the leader of a process group.
///
/// # Errors
/// If it can't be started.
pub(crate) fn start(command: Command) -> io::Result<Started> {
    let (program, arguments) = command
        .argv
        .split_first()
        .ok_or(io::ErrorKind::InvalidInput)?;
    let value = uuid::Uuid::now_v7().simple().to_string();
    let mut group = tokio::process::Command::new(program);
    group
        .args(arguments)
        .env_clear()
        .envs(command.env.iter().map(|(name, value)| (name, value)))
        .env(MARK, OsString::from(&value))
        .current_dir(command.cwd.held_path())
        .process_group(0)
        .stdin(command.stdin.map_or_else(Stdio::null, Stdio::from))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = group.spawn()?;
    drop(group);
    let missing = || io::Error::other("a pipe of the command is missing");
    let stdout = child.stdout.take().ok_or_else(missing)?;
    let stderr = child.stderr.take().ok_or_else(missing)?;
    let leader = child.id().ok_or_else(missing)?;
    let group = Group {
        inner: Arc::new(Inner {
            leader,
            #[cfg(target_os = "linux")]
            mark: format!("{MARK}={value}"),
            // It may have ended already; then everything is looked at.
            #[cfg(target_os = "linux")]
            started: super::table::Entry::read(leader).map_or(0, |entry| entry.started),
            grace: Duration::from_millis(command.grace_ms.into()),
        }),
    };
    let (sender, events) = mpsc::unbounded_channel();
    let _ = sender.send(TreeEvent::Started);
    tokio::spawn(watch(group.clone(), child, command.detach, sender));
    Ok(Started {
        tree: Tree::Grouped(group),
        events,
        streams: Streams::two(stdout, stderr),
    })
}

async fn watch(group: Group, mut child: Child, detach: bool, events: UnboundedSender<TreeEvent>) {
    let status = match child.wait().await {
        Ok(status) => status,
        Err(e) => {
            let reason = format!("the command can't be waited for: {e}");
            let _ = events.send(TreeEvent::Lost { reason });
            return;
        }
    };
    let mut leftovers = Vec::new();
    if !group.wait_empty(SETTLE).await {
        leftovers = group.leftovers();
        if !detach {
            group.signal(Signal::TERM);
            if !group.wait_empty(LEFTOVER_GRACE).await {
                let killing = group.clone();
                // Fails only where the runtime is going down; whoever holds the
                // group ends it then.
                let _ = tokio::task::spawn_blocking(move || killing.kill_all()).await;
            }
        }
    }
    use std::os::unix::process::ExitStatusExt as _;
    let status = match (status.code(), status.signal()) {
        (_, Some(signal)) => TreeStatus::Signal(signal),
        (code, None) => TreeStatus::Code(code.unwrap_or(-1)),
    };
    let _ = events.send(TreeEvent::Exited {
        status,
        #[cfg(target_os = "linux")]
        met: Default::default(),
        leftovers,
    });
    let mut pause = Duration::from_millis(100);
    while !events.is_closed() && !group.leftovers().is_empty() {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(5));
    }
}
