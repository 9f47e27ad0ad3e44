//! A tree under a supervisor of its own; see [`crate::supervisor`].

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use haft_api::Signal;
use rustix::net::{SendFlags, Shutdown};
use tokio::net::UnixStream;
use tokio::process::Child;
use tokio::sync::mpsc::{self, UnboundedSender};

use super::table;
use super::tree::{Command, Started, Tree, TreeEvent, TreeStatus, number};
use crate::supervisor::{ARGUMENT, Launch, Report, Status, send_launch};

/// How long a supervisor has to say that the command runs.
const START_PATIENCE: Duration = Duration::from_secs(20);

/// The host's end of the socket to a supervisor, shared with whoever follows it.
#[derive(Debug)]
pub(crate) struct Supervision {
    control: Arc<UnixStream>,
}

impl Supervision {
    pub(crate) fn signal(&self, signal: Signal) {
        let byte = number(signal).as_raw().to_le_bytes()[0];
        // Past the runtime, which may be shut down. A supervisor that is gone has
        // nothing left to signal.
        let _ = rustix::net::send(&self.control, &[byte], SendFlags::NOSIGNAL);
    }

    pub(crate) fn end(&self) {
        // Fails only where the other end is closed, and with it all is over.
        let _ = rustix::net::shutdown(&self.control, Shutdown::Write);
    }
}

/// Starts a supervisor and has it start the command.
///
/// # Errors
/// If the supervisor itself can't be started.
pub(crate) fn start(program: &Path, command: Command) -> io::Result<Started> {
    let launch = Launch {
        argv: command.argv,
        env: command.env,
        detach: command.detach,
        grace_ms: command.grace_ms,
    };
    let encoded = launch.encode();
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    let mut supervisor = tokio::process::Command::new(program);
    supervisor
        .arg0("haft-supervisor")
        .arg(ARGUMENT)
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| name == "LD_LIBRARY_PATH"))
        .current_dir(command.cwd.path())
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = supervisor.spawn()?;
    drop(supervisor);
    let closed = || io::Error::other("a pipe of the supervisor is missing");
    let stdout = child.stdout.take().ok_or_else(closed)?;
    let stderr = child.stderr.take().ok_or_else(closed)?;
    let stdin = command.stdin.as_ref().map(|stdin| stdin.as_fd());
    match send_launch(&ours, &encoded, stdin) {
        // It is gone already: whoever watches it finds out why.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {}
        outcome => outcome?,
    }
    ours.set_nonblocking(true)?;
    let control = Arc::new(UnixStream::from_std(ours)?);
    let (sender, events) = mpsc::unbounded_channel();
    tokio::spawn(watch(Arc::clone(&control), encoded, child, sender));
    Ok(Started {
        tree: Tree::Supervised(Supervision { control }),
        events,
        stdout,
        stderr,
    })
}

/// Follows a supervisor to its end. Nobody may listen any more: it is reaped
/// all the same.
async fn watch(
    control: Arc<UnixStream>,
    launch: Vec<u8>,
    mut child: Child,
    events: UnboundedSender<TreeEvent>,
) {
    let session = child.id();
    let mut progress = Progress::default();
    let heard = async {
        send(&control, &launch).await?;
        progress.follow(&control, &events).await
    };
    let outcome = heard.await;
    if !progress.started && !progress.over {
        // Whatever it is, it isn't a supervisor.
        let _ = child.start_kill();
    }
    let status = child.wait().await;
    if progress.over {
        return;
    }
    if let Some(session) = session {
        kill_session(session);
    }
    let ended = match (outcome, status) {
        (Err(e), _) | (_, Err(e)) => e.to_string(),
        (_, Ok(status)) => status.to_string(),
    };
    let _ = events.send(match progress.started {
        false => TreeEvent::Failed(io::Error::other(format!(
            "the supervisor gave no answer ({ended}); is it a program that calls supervise_if_asked?"
        ))),
        true => TreeEvent::Lost {
            reason: format!("the command's supervisor was lost ({ended})"),
        },
    });
}

#[derive(Default)]
struct Progress {
    started: bool,
    /// The command has ended or never ran, and that was told.
    over: bool,
}

impl Progress {
    async fn follow(
        &mut self,
        control: &UnixStream,
        events: &UnboundedSender<TreeEvent>,
    ) -> io::Result<()> {
        let mut received = Vec::new();
        loop {
            while let Some(report) = Report::take(&mut received)? {
                self.over |= !matches!(report, Report::Started { .. });
                self.started |= matches!(report, Report::Started { .. });
                let _ = events.send(event(report));
            }
            let read = receive(control, &mut received);
            let read = match self.started {
                true => read.await?,
                false => tokio::time::timeout(START_PATIENCE, read).await??,
            };
            if read == 0 {
                return Ok(());
            }
        }
    }
}

async fn send(control: &UnixStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        control.writable().await?;
        match control.try_write(bytes) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Waits for some more bytes; none at the end.
async fn receive(control: &UnixStream, received: &mut Vec<u8>) -> io::Result<usize> {
    loop {
        control.readable().await?;
        match control.try_read_buf(received) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            outcome => return outcome,
        }
    }
}

fn event(report: Report) -> TreeEvent {
    match report {
        Report::Started { .. } => TreeEvent::Started,
        Report::Failed { errno } => TreeEvent::Failed(io::Error::from_raw_os_error(errno)),
        Report::Exited {
            status,
            out_of_memory,
            leftovers,
        } => TreeEvent::Exited {
            status: match status {
                _ if out_of_memory => TreeStatus::OutOfMemory,
                Status::Code(code) => TreeStatus::Code(code),
                Status::Signal(signal) => TreeStatus::Signal(signal),
            },
            leftovers,
        },
    }
}

/// When a supervisor was killed from within: what is left of its session is
/// known by the session's number. What made a session of its own escapes.
fn kill_session(session: u32) {
    for entry in table::snapshot() {
        if entry.session == session {
            entry.signal(rustix::process::Signal::KILL);
        }
    }
}
