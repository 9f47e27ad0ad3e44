//! Processes of a session.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haft_api::{Error, ErrorKind, ProcessId, ProcessSpec, Result};
use tokio::net::unix::pipe;
use tokio::sync::{oneshot, watch};

mod grouped;
mod output;
mod process;
mod pump;
#[cfg(target_os = "linux")]
mod supervised;
#[cfg(target_os = "linux")]
pub(crate) mod table;
mod tree;

use crate::environment::{self, Variable};
use crate::session::closed;
use process::{Cause, Process};
use pump::{Pipes, Pump};
pub(crate) use tree::StartFolder;
use tree::{Command, Started};

/// How long closing a session waits for its processes to die.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// What a session's processes are started with.
#[derive(Debug, Clone)]
pub(crate) struct Launcher {
    pub(crate) env: Vec<Variable>,
    /// The supervisor's program, if there is one.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) supervisor: Option<PathBuf>,
    pub(crate) output_bytes: usize,
    pub(crate) max_processes: usize,
    pub(crate) grace: Duration,
}

/// All processes of one session. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct Processes {
    launcher: Launcher,
    known: Mutex<Known>,
    /// How many pumps run.
    live: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Known {
    by_id: HashMap<ProcessId, Arc<Process>>,
    /// Released, but something that was allowed to live on does.
    background: Vec<Arc<Process>>,
    closed: bool,
}

impl Processes {
    pub(crate) fn new(launcher: Launcher) -> Self {
        Self {
            launcher,
            known: Mutex::default(),
            live: watch::Sender::new(0),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Every change under this lock is a whole one.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, id: &ProcessId) -> Result<Arc<Process>> {
        self.known().by_id.get(id).cloned().ok_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                "no such process: it was never started, or was released",
            )
            .context("process", id)
        })
    }

    /// Starts a process. If this is dropped before it is done, the process is
    /// released.
    pub(crate) async fn start(&self, spec: ProcessSpec, cwd: StartFolder) -> Result<()> {
        check(&spec)?;
        let id = spec.id.clone();
        let fail = |e: std::io::Error| start_error(e, &spec.argv).context("process", &id);
        let (input, stdin) = match spec.stdin {
            true => input_pipe().map(|(ours, theirs)| (Some(ours), Some(theirs))),
            false => Ok((None, None)),
        }
        .map_err(fail)?;
        let process = Arc::new(Process::new(
            spec.id.clone(),
            spec.detach,
            input,
            self.launcher.output_bytes,
        ));
        self.enter(Arc::clone(&process))?;
        let mut unfinished = Unfinished {
            processes: self,
            process: &process,
            done: false,
        };
        let command = Command {
            argv: spec.argv.iter().map(OsString::from).collect(),
            env: self.variables(&spec.env),
            cwd,
            stdin,
            detach: spec.detach,
            grace_ms: u32::try_from(self.launcher.grace.as_millis()).unwrap_or(u32::MAX),
        };
        let Started {
            tree,
            events,
            stdout,
            stderr,
        } = self.start_tree(command).map_err(fail)?;
        process.started(tree);
        let pump = Pump {
            process: Arc::clone(&process),
            events,
            pipes: Pipes::new(stdout, stderr),
            timeout: spec.timeout_ms.map(Duration::from_millis),
            grace: self.launcher.grace,
        };
        let (sender, started) = oneshot::channel();
        self.live.send_modify(|live| *live += 1);
        let live = self.live.clone();
        tokio::spawn(async move {
            let _count = Counted(live);
            pump.run(sender).await;
        });
        match started.await {
            Ok(outcome) => outcome.map_err(fail)?,
            Err(_) => return Err(fail(std::io::Error::other("the start was given up"))),
        }
        unfinished.done = true;
        Ok(())
    }

    fn start_tree(&self, command: Command) -> std::io::Result<Started> {
        #[cfg(target_os = "linux")]
        if let Some(program) = &self.launcher.supervisor {
            return supervised::start(program, command).map_err(|e| {
                let message = format!("the supervisor {} can't be started: {e}", program.display());
                std::io::Error::other(message)
            });
        }
        grouped::start(command)
    }

    fn enter(&self, process: Arc<Process>) -> Result<()> {
        let mut known = self.known();
        if known.closed {
            return Err(closed());
        }
        if known.by_id.len() >= self.launcher.max_processes {
            return Err(Error::new(
                ErrorKind::Busy,
                "the session has as many processes as it may have; release some",
            )
            .context("limit", self.launcher.max_processes));
        }
        if known.by_id.contains_key(&process.id) {
            return Err(Error::new(
                ErrorKind::AlreadyExists,
                "there is a process of that id; release it first",
            )
            .context("process", &process.id));
        }
        known.by_id.insert(process.id.clone(), process);
        Ok(())
    }

    fn variables(&self, added: &[(String, String)]) -> Vec<Variable> {
        let mut env = self.launcher.env.clone();
        for (name, value) in added {
            environment::set(&mut env, OsStr::new(name), OsStr::new(value));
        }
        env
    }

    /// Forgets a process. What is left of it ends, except for what outlived a
    /// command that was started with leave to detach: that lives on until the
    /// session ends.
    pub(crate) fn release(&self, id: &ProcessId) {
        let mut known = self.known();
        let Some(process) = known.by_id.remove(id) else {
            return;
        };
        known.background.retain(|process| !process.is_gone());
        if process.detach && process.has_ended() {
            known.background.push(process);
        } else {
            drop(known);
            process.end(Cause::Cancelled);
        }
    }

    /// Ends all, and lets no more start.
    pub(crate) fn end_all(&self) {
        let mut known = self.known();
        known.closed = true;
        let all: Vec<_> = known.background.drain(..).collect();
        let all: Vec<_> = all
            .into_iter()
            .chain(known.by_id.values().cloned())
            .collect();
        drop(known);
        for process in all.iter().filter(|process| !process.is_gone()) {
            process.end(Cause::Cancelled);
        }
    }

    /// Ends all and waits for it.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] if something is still there after five seconds.
    pub(crate) async fn close(&self) -> Result<()> {
        let mut live = self.live.subscribe();
        self.end_all();
        let over = live.wait_for(|&live| live == 0);
        match tokio::time::timeout(CLOSE_PATIENCE, over).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::new(
                ErrorKind::Timeout,
                "some of the session's processes can't be killed",
            )
            .context("processes", *self.live.borrow())),
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.end_all();
    }
}

struct Counted(watch::Sender<usize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|live| *live -= 1);
    }
}

/// A start that was given up, or failed: the process is not to be.
struct Unfinished<'a> {
    processes: &'a Processes,
    process: &'a Arc<Process>,
    done: bool,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let mut known = self.processes.known();
        // Somebody may have released it and started another of that id.
        let entered = known.by_id.get(&self.process.id);
        if entered.is_some_and(|entered| Arc::ptr_eq(entered, self.process)) {
            known.by_id.remove(&self.process.id);
        }
        drop(known);
        self.process.end(Cause::Cancelled);
    }
}

fn input_pipe() -> std::io::Result<(pipe::Sender, std::os::fd::OwnedFd)> {
    let (reader, writer) = std::io::pipe()?;
    let sender = pipe::Sender::from_owned_fd(writer.into())?;
    Ok((sender, reader.into()))
}

fn check(spec: &ProcessSpec) -> Result<()> {
    let refuse = |message: &str| {
        Err(Error::new(ErrorKind::InvalidInput, message).context("process", &spec.id))
    };
    if spec.pty {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "this runner does not support pseudo terminals",
        )
        .context("process", &spec.id));
    }
    match spec.argv.first() {
        None => return refuse("there is no program to start: argv is empty"),
        Some(program) if program.is_empty() => return refuse("the program's name is empty"),
        Some(_) => {}
    }
    if spec.argv.iter().any(|argument| argument.contains('\0')) {
        return refuse("an argument contains a NUL byte");
    }
    let bad = |(name, value): &(String, String)| {
        name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
    };
    if spec.env.iter().any(bad) {
        return refuse("a variable's name or value isn't allowed");
    }
    Ok(())
}

fn start_error(error: std::io::Error, argv: &[String]) -> Error {
    use std::io::ErrorKind as Io;
    let program = argv.first().map_or("", String::as_str);
    let message = match error.kind() {
        Io::NotFound => "no such program",
        Io::PermissionDenied => "the program may not be run",
        Io::ArgumentListTooLong => {
            return Error::new(
                ErrorKind::InvalidInput,
                "the arguments and the environment are too long for the system",
            )
            .context("program", program)
            .source(error);
        }
        _ => "the program can't be started",
    };
    Error::io(error, message).context("program", program)
}
