//! A session's keeper: the process that starts a supervisor for each of the
//! session's commands.
//!
//! It is this program, started again once a session. It shuts itself in first,
//! so that what it forks is shut in from the beginning, and needs neither to
//! start a program nor to build walls for each command. When the host closes its
//! end of the socket, or dies, the keeper ends what is left and itself.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, getpid, pidfd_open, wait};
use serde::Serialize;

use super::fork::{Fork, fork};
use super::watch;
use super::wire::receive_descriptors;
use crate::processes::table::{self, Entry};
use crate::sandbox::{Cgroups, Confinement, Isolated, Profile, isolate};

/// How long supervisors have to end what they watch, once the host is gone.
const LAST_PATIENCE: Duration = Duration::from_secs(2);
/// How long is tried to kill what a dead supervisor left.
const PURGE: Duration = Duration::from_secs(1);
/// A profile is a list of paths.
const MOST_PROFILE_BYTES: usize = 16 * 1024 * 1024;

/// Runs as a keeper. Returns the exit code.
pub(super) fn keep() -> i32 {
    match run() {
        Ok(()) => 0,
        Err(e) => {
            // Standard error is the host's null device, or somebody's terminal.
            let _ = writeln!(io::stderr(), "haft keeper: {e}");
            2
        }
    }
}

fn run() -> io::Result<()> {
    super::inherited::close_all()?;
    let stdin = io::stdin();
    let mut host = UnixStream::from(rustix::io::fcntl_dupfd_cloexec(&stdin, 3)?);
    rustix::stdio::dup2_stdin(File::open("/dev/null")?.as_fd())?;
    // It may be the file that this code was loaded from.
    rustix::stdio::dup2_stdout(File::options().write(true).open("/dev/null")?.as_fd())?;
    rustix::process::set_child_subreaper(Some(getpid()))?;
    // No terminal to ask questions on, and out of reach of its Ctrl-C. Fails
    // only where the process leads a group already, which does as well.
    let _ = rustix::process::setsid();
    rustix::thread::set_name(c"haft-keeper")?;
    let threads = std::fs::read_dir("/proc/self/task")?.count();
    if threads != 1 {
        return Err(io::Error::other(format!(
            "supervise_if_asked was called with {threads} threads; call it first in main"
        )));
    }
    let profile = receive_profile(&mut host)?;
    let name = profile
        .temp
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    let cgroups = Cgroups::enter(&profile.limits, &name);
    let outcome = guard(&profile, host, &cgroups);
    if !matches!(outcome, Ok(Side::Inside)) {
        // Best effort: nobody listens any more, and a folder of temporary files
        // harms nobody.
        let _ = std::fs::remove_dir_all(&profile.temp);
        cgroups.remove();
    }
    outcome.map(drop)
}

/// On which side of the wall a process came to its end.
enum Side {
    Inside,
    Outside,
}

fn guard(profile: &Profile, mut host: UnixStream, cgroups: &Cgroups) -> io::Result<Side> {
    let mut missing = Vec::new();
    let isolated = match profile.confine && profile.namespaces {
        true => isolate(profile)
            .map_err(|e| missing.push(format!("namespaces: {e}")))
            .ok(),
        false => {
            if profile.confine {
                missing.push("namespaces: not asked for".to_owned());
            }
            None
        }
    };
    if matches!(isolated, Some(Isolated::Outside)) {
        // The host is the other side's to talk to, and to miss.
        drop(host);
        while !matches!(wait(WaitOptions::empty()), Err(Errno::CHILD)) {}
        return Ok(Side::Outside);
    }
    let side = match isolated {
        Some(_) => Side::Inside,
        None => Side::Outside,
    };
    let prepared = Confinement::prepare(profile, isolated.as_ref(), cgroups);
    let prepared = prepared.map(|(confinement, mut achieved)| {
        achieved.missing.append(&mut missing);
        (confinement, achieved)
    });
    let answer = prepared.as_ref().map(|(_, achieved)| achieved);
    send_answer(&mut host, &answer.map_err(ToString::to_string))?;
    if let Ok((confinement, _)) = prepared {
        Keeper {
            supervisors: Vec::new(),
            confinement: Arc::new(confinement),
        }
        .serve(host, cgroups)?;
    }
    Ok(side)
}

fn receive_profile(host: &mut UnixStream) -> io::Result<Profile> {
    let mut length = [0; 4];
    host.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MOST_PROFILE_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "no profile came",
        ));
    }
    let mut bytes = vec![0; length];
    host.read_exact(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

fn send_answer(host: &mut UnixStream, answer: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_vec(answer)?;
    host.write_all(&(text.len() as u32).to_le_bytes())?;
    host.write_all(&text)
}

struct Keeper {
    /// Those that live, each with a descriptor that tells of its end.
    supervisors: Vec<(Pid, OwnedFd)>,
    confinement: Arc<Confinement>,
}

impl Keeper {
    /// Starts supervisors for as long as the host asks for them, and ends with
    /// the last.
    fn serve(mut self, host: UnixStream, cgroups: &Cgroups) -> io::Result<()> {
        loop {
            let asked = self.await_news(Some(&host), None)?;
            self.reap();
            if !asked {
                continue;
            }
            let Ok(Some(descriptors)) = receive_descriptors(&host) else {
                break;
            };
            match fork() {
                Ok(Fork::Child) => {
                    drop(host);
                    self.supervisors.clear();
                    let code = watch::supervise(descriptors, &self.confinement, cgroups);
                    std::process::exit(code);
                }
                Ok(Fork::Parent(pid)) => {
                    // Without a descriptor its end is noticed with the next news.
                    if let Ok(end) = pidfd_open(pid, PidfdFlags::empty()) {
                        self.supervisors.push((pid, end));
                    }
                }
                // The host sees the command's socket close.
                Err(_) => {}
            }
        }
        let end = Instant::now() + LAST_PATIENCE;
        while !self.supervisors.is_empty() && Instant::now() < end {
            self.await_news(None, Some(Duration::from_millis(100)))?;
            self.reap();
        }
        self.supervisors.clear();
        self.purge();
        Ok(())
    }

    /// Waits until the host asks for something, which is what is returned, or a
    /// supervisor has ended.
    fn await_news(&self, host: Option<&UnixStream>, limit: Option<Duration>) -> io::Result<bool> {
        let mut watched: Vec<_> = self
            .supervisors
            .iter()
            .map(|(_, end)| PollFd::new(end, PollFlags::IN))
            .collect();
        watched.extend(host.map(|host| PollFd::new(host, PollFlags::IN)));
        let limit = limit.map(|limit| Timespec {
            tv_sec: 0,
            tv_nsec: limit.subsec_nanos().into(),
        });
        match poll(&mut watched, limit.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(false),
            Err(e) => return Err(e.into()),
        }
        let asked = watched
            .last()
            .is_some_and(|last| !last.revents().is_empty());
        Ok(asked && host.is_some())
    }

    /// Takes note of who has ended. What a supervisor didn't live to end is
    /// ended here.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let before = self.supervisors.len();
            self.supervisors.retain(|(known, _)| *known != pid);
            if self.supervisors.len() < before && status.signaled() {
                self.purge();
            }
        }
    }

    /// Kills everything beneath this process that no supervisor watches.
    fn purge(&self) {
        let start = Instant::now();
        while start.elapsed() < PURGE {
            let strays = self.strays();
            if strays.is_empty() {
                return;
            }
            for stray in strays {
                stray.signal(Signal::KILL);
            }
            while matches!(wait(WaitOptions::NOHANG), Ok(Some((pid, _))) if !self.knows(pid)) {}
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn knows(&self, pid: Pid) -> bool {
        self.supervisors.iter().any(|(known, _)| *known == pid)
    }

    fn strays(&self) -> Vec<Entry> {
        let all = table::snapshot();
        let mut strays = table::beneath(std::process::id(), &all);
        for (pid, _) in &self.supervisors {
            let pid = pid.as_raw_nonzero().get().cast_unsigned();
            let watched = table::beneath(pid, &all);
            strays.retain(|entry| entry.pid != pid && !watched.contains(entry));
        }
        strays
    }
}
