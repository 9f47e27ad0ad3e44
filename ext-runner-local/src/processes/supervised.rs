//! A tree under a supervisor of its own; see [`crate::supervisor`].

use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use haft_api::Signal;
use rustix::net::{SendFlags, Shutdown};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::mpsc::{self, UnboundedSender};

use super::keeper::Keeper;
use super::pump::Streams;
use super::terminal::Terminal;
use super::tree::{Command, Started, Tree, TreeEvent, TreeStatus, number};
use crate::supervisor::{Launch, Report, Status, send_launch};

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

/// Has a session's keeper start a supervisor, and that one the command.
///
/// # Errors
/// If the keeper can't be reached.
pub(crate) async fn start(keeper: &Keeper, command: Command) -> io::Result<Started> {
    let launch = Launch {
        argv: command.argv,
        env: command.env,
        detach: command.detach,
        grace_ms: command.grace_ms,
        cwd: command.cwd.path,
        terminal: command.terminal.is_some(),
    };
    let encoded = launch.encode();
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    let (streams, theirs_out, theirs_err, stdin) = match command.terminal {
        Some(Terminal { ours, theirs }) => {
            // Reading and writing share one waiting mode.
            rustix::io::ioctl_fionbio(&ours, true)?;
            let streams = Streams::one(pipe::Receiver::from_owned_fd_unchecked(ours)?);
            (
                streams,
                theirs.try_clone()?,
                theirs.try_clone()?,
                Some(theirs),
            )
        }
        None => {
            let (out_reader, out_writer) = io::pipe()?;
            let (err_reader, err_writer) = io::pipe()?;
            let streams = Streams::two(
                pipe::Receiver::from_owned_fd(out_reader.into())?,
                pipe::Receiver::from_owned_fd(err_reader.into())?,
            );
            (streams, out_writer.into(), err_writer.into(), command.stdin)
        }
    };
    keeper
        .start(theirs.as_fd(), theirs_out.as_fd(), theirs_err.as_fd())
        .await?;
    drop((theirs, theirs_out, theirs_err));
    match send_launch(&ours, &encoded, stdin.as_ref().map(|stdin| stdin.as_fd())) {
        // It is gone already: whoever watches it finds out.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {}
        outcome => outcome?,
    }
    drop(stdin);
    ours.set_nonblocking(true)?;
    let control = Arc::new(UnixStream::from_std(ours)?);
    let (sender, events) = mpsc::unbounded_channel();
    tokio::spawn(watch(Arc::clone(&control), encoded, sender));
    Ok(Started {
        tree: Tree::Supervised(Supervision { control }),
        events,
        streams,
    })
}

/// Follows a supervisor to its end. Nobody may listen any more.
async fn watch(control: Arc<UnixStream>, launch: Vec<u8>, events: UnboundedSender<TreeEvent>) {
    let mut progress = Progress::default();
    let heard = async {
        send(&control, &launch).await?;
        progress.follow(&control, &events).await
    };
    let ended = match heard.await {
        Ok(()) => "it died".to_owned(),
        Err(e) => e.to_string(),
    };
    if progress.over {
        return;
    }
    let _ = events.send(match progress.started {
        false => TreeEvent::Failed(io::Error::other(format!(
            "the command's supervisor gave no answer ({ended})"
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
            met,
            leftovers,
        } => TreeEvent::Exited {
            met,
            status: match status {
                _ if out_of_memory => TreeStatus::OutOfMemory,
                Status::Code(code) => TreeStatus::Code(code),
                Status::Signal(signal) => TreeStatus::Signal(signal),
            },
            leftovers,
        },
    }
}
