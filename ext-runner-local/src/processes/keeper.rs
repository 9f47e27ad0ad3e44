//! A session's keeper, as seen from the host; see [`crate::supervisor`].

use std::fs::DirBuilder;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use tokio::io::Interest;
use tokio::net::UnixStream;

use crate::sandbox::{Achieved, Profile};
use crate::supervisor::{Program, send_descriptors};

/// How long a keeper has to shut itself in.
const PATIENCE: Duration = Duration::from_secs(20);
/// An answer is a few lines of text.
const MOST_ANSWER_BYTES: usize = 1024 * 1024;

/// A hold on a keeper. When it is dropped, the keeper ends all and itself.
#[derive(Debug)]
pub(crate) struct Keeper {
    socket: UnixStream,
    gone: AtomicBool,
    ended: tokio::task::JoinHandle<()>,
}

impl Keeper {
    /// Starts a keeper; with it, what it achieved.
    ///
    /// # Errors
    /// If it can't be started or doesn't answer.
    pub(crate) async fn begin(program: &Program, profile: Profile) -> io::Result<(Self, Achieved)> {
        let (ours, theirs) = StdStream::pair()?;
        let folder = TempFolder::make(&profile.temp)?;
        let mut child = tokio::process::Command::from(program.command(theirs)?)
            .spawn()
            .map_err(|e| cant_start(program, &e))?;
        // It ends when the socket closes, and has to be reaped then.
        let ended = tokio::spawn(async move {
            let _ = child.wait().await;
        });
        let greet = move || greet(ours, &profile);
        let greeted = tokio::task::spawn_blocking(greet).await;
        let (ours, achieved) = greeted
            .unwrap_or_else(|e| Err(io::Error::other(e)))
            .map_err(|e| no_keeper(program, &e))?;
        folder.kept();
        ours.set_nonblocking(true)?;
        let keeper = Self {
            socket: UnixStream::from_std(ours)?,
            gone: AtomicBool::new(false),
            ended,
        };
        Ok((keeper, achieved))
    }

    /// Whether it was there when it was last asked.
    pub(crate) fn is_there(&self) -> bool {
        if self.gone.load(Ordering::Acquire) {
            return false;
        }
        // It never says anything: there is something to read only at the end.
        let open = matches!(
            self.socket.try_read(&mut [0]),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock
        );
        if !open {
            self.gone.store(true, Ordering::Release);
        }
        open
    }

    /// Lets it end, and waits for that.
    pub(crate) async fn finish(self) {
        drop(self.socket);
        // Fails only where the runtime is going down, and then it ends as well.
        let _ = self.ended.await;
    }

    /// Has it start a supervisor.
    ///
    /// # Errors
    /// If it is gone.
    pub(crate) async fn start(
        &self,
        control: BorrowedFd<'_>,
        stdout: BorrowedFd<'_>,
        stderr: BorrowedFd<'_>,
    ) -> io::Result<()> {
        loop {
            let send = || send_descriptors(self.socket.as_fd(), [control, stdout, stderr]);
            match self.socket.async_io(Interest::WRITABLE, send).await {
                // As many descriptors are under way as may be.
                Err(e) if e.raw_os_error() == Some(Errno::TOOMANYREFS.raw_os_error()) => {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                Err(e) => {
                    self.gone.store(true, Ordering::Release);
                    return Err(io::Error::new(
                        e.kind(),
                        format!("the session's keeper is gone ({e})"),
                    ));
                }
                Ok(()) => return Ok(()),
            }
        }
    }
}

/// Has a keeper try what this machine allows, and go again. Blocks for some
/// milliseconds.
///
/// # Errors
/// If it can't be started or doesn't answer.
pub(crate) fn probe(program: &Program, profile: &Profile) -> io::Result<Achieved> {
    let (ours, theirs) = StdStream::pair()?;
    let folder = TempFolder::make(&profile.temp)?;
    let mut child = program
        .command(theirs)?
        .spawn()
        .map_err(|e| cant_start(program, &e))?;
    let greeted = greet(ours, profile);
    if greeted.is_err() {
        // Whatever it is, it isn't a keeper.
        let _ = child.kill();
    }
    let achieved = greeted.map(|(_, achieved)| achieved);
    let _ = child.wait();
    drop(folder);
    achieved.map_err(|e| no_keeper(program, &e))
}

fn greet(mut socket: StdStream, profile: &Profile) -> io::Result<(StdStream, Achieved)> {
    socket.set_read_timeout(Some(PATIENCE))?;
    let text = serde_json::to_vec(profile)?;
    socket.write_all(&(text.len() as u32).to_le_bytes())?;
    socket.write_all(&text)?;
    let mut length = [0; 4];
    socket.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MOST_ANSWER_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "no answer"));
    }
    let mut answer = vec![0; length];
    socket.read_exact(&mut answer)?;
    let achieved: Result<Achieved, String> = serde_json::from_slice(&answer)?;
    Ok((socket, achieved.map_err(io::Error::other)?))
}

fn cant_start(program: &Program, error: &io::Error) -> io::Error {
    io::Error::other(format!(
        "the supervisor {program} can't be started: {error}"
    ))
}

fn no_keeper(program: &Program, error: &io::Error) -> io::Error {
    io::Error::other(format!(
        "{program} can't look after commands ({error}); {}",
        program.hint()
    ))
}

/// A temporary folder of this user alone, removed when this is dropped unless
/// somebody else took that over.
#[derive(Debug)]
pub(crate) struct TempFolder {
    path: Option<PathBuf>,
}

impl TempFolder {
    pub(crate) fn make(path: &Path) -> io::Result<Self> {
        DirBuilder::new().mode(0o700).create(path).map_err(|e| {
            let message = format!("no temporary folder {} can be made: {e}", path.display());
            io::Error::new(e.kind(), message)
        })?;
        Ok(Self {
            path: Some(path.to_owned()),
        })
    }

    /// It is another's to remove.
    fn kept(mut self) {
        self.path = None;
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            // May be gone already, with the keeper.
            let _ = std::fs::remove_dir_all(path);
        }
    }
}
