//! Processes of a session.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haft_api::{Error, ErrorKind, ProcessId, ProcessSpec, Result};
use tokio::sync::{oneshot, watch};

mod grouped;
mod input;
#[cfg(target_os = "linux")]
pub(crate) mod keeper;
#[cfg(target_os = "linux")]
mod notes;
mod output;
mod process;
mod pump;
#[cfg(target_os = "linux")]
mod supervised;
#[cfg(target_os = "linux")]
pub(crate) mod table;
#[cfg(target_os = "linux")]
mod terminal;
mod tree;

use crate::config::Limits;
use crate::environment::{self, Variable};
#[cfg(target_os = "linux")]
use crate::sandbox::{Achieved, Profile};
use crate::session::closed;
#[cfg(target_os = "linux")]
use crate::supervisor::Program;
use input::Input;
#[cfg(target_os = "linux")]
use keeper::Keeper;
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
    pub(crate) care: Care,
    pub(crate) limits: Limits,
    pub(crate) output_bytes: usize,
    pub(crate) max_processes: usize,
    pub(crate) grace: Duration,
}

/// Who looks after a session's processes.
#[derive(Debug, Clone)]
pub(crate) enum Care {
    /// A keeper, with what its first trial achieved: less won't do.
    #[cfg(target_os = "linux")]
    Kept {
        program: Program,
        profile: Box<Profile>,
        promised: Box<Achieved>,
    },
    /// This process, by their group.
    Grouped,
    /// Nobody: they aren't to run, for this reason.
    Refused(String),
}

/// All processes of one session. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct Processes {
    launcher: Launcher,
    #[cfg(target_os = "linux")]
    keeper: tokio::sync::Mutex<Option<Arc<Keeper>>>,
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
            #[cfg(target_os = "linux")]
            keeper: tokio::sync::Mutex::default(),
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
        if let Care::Refused(reason) = &self.launcher.care {
            return Err(Error::new(ErrorKind::Unavailable, reason.clone())
                .permanent()
                .context("process", &spec.id));
        }
        let id = spec.id.clone();
        let fail = |e: std::io::Error| start_error(e, &spec.argv).context("process", &id);
        let ends = self.ends(&spec)?;
        let process = Arc::new(Process::new(
            spec.id.clone(),
            spec.detach,
            ends.input,
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
            stdin: ends.stdin,
            #[cfg(target_os = "linux")]
            terminal: ends.terminal,
            detach: spec.detach,
            grace_ms: u32::try_from(self.launcher.grace.as_millis()).unwrap_or(u32::MAX),
        };
        let Started {
            tree,
            events,
            streams,
        } = self.start_tree(command).await.map_err(fail)?;
        process.started(tree);
        let pump = Pump {
            process: Arc::clone(&process),
            events,
            pipes: Pipes::new(streams),
            limits: self.launcher.limits,
            notes: Vec::new(),
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

    /// What input and output of a process begin and end with.
    fn ends(&self, spec: &ProcessSpec) -> Result<Ends> {
        let fail = |e| start_error(e, &spec.argv).context("process", &spec.id);
        if spec.pty {
            #[cfg(target_os = "linux")]
            if matches!(self.launcher.care, Care::Kept { .. }) {
                let size = spec.pty_size.unwrap_or_default();
                return Ends::terminal(size).map_err(fail);
            }
            let message = "this runner does not support pseudo terminals";
            return Err(Error::new(ErrorKind::Unsupported, message).context("process", &spec.id));
        }
        match spec.stdin {
            true => Ends::pipe().map_err(fail),
            false => Ok(Ends::default()),
        }
    }

    async fn start_tree(&self, command: Command) -> std::io::Result<Started> {
        match &self.launcher.care {
            #[cfg(target_os = "linux")]
            Care::Kept {
                program,
                profile,
                promised,
            } => {
                let keeper = self.keeper(program, profile, promised).await?;
                supervised::start(&keeper, command).await
            }
            Care::Grouped => grouped::start(command),
            Care::Refused(reason) => Err(std::io::Error::other(reason.clone())),
        }
    }

    /// The session's keeper: the one that is there, or a new one.
    #[cfg(target_os = "linux")]
    async fn keeper(
        &self,
        program: &Program,
        profile: &Profile,
        promised: &Achieved,
    ) -> std::io::Result<Arc<Keeper>> {
        let mut known = self.keeper.lock().await;
        if let Some(keeper) = known.as_ref().filter(|keeper| keeper.is_there()) {
            return Ok(Arc::clone(keeper));
        }
        let (keeper, achieved) = Keeper::begin(program, profile.fresh()).await?;
        if !achieved.holds(promised) {
            return Err(std::io::Error::other(format!(
                "commands can't be confined as they were before: {achieved}"
            )));
        }
        let keeper = Arc::new(keeper);
        *known = Some(Arc::clone(&keeper));
        Ok(keeper)
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
        let over = tokio::time::timeout(CLOSE_PATIENCE, over).await.is_ok();
        #[cfg(target_os = "linux")]
        if let Some(keeper) = self.keeper.lock().await.take().and_then(Arc::into_inner) {
            // It takes the temporary folder with it.
            let _ = tokio::time::timeout(CLOSE_PATIENCE, keeper.finish()).await;
        }
        if over {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Timeout,
            "some of the session's processes can't be killed",
        )
        .context("processes", *self.live.borrow()))
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

/// Both ends of a process's input, and its terminal.
#[derive(Debug, Default)]
struct Ends {
    input: Option<Input>,
    stdin: Option<std::os::fd::OwnedFd>,
    #[cfg(target_os = "linux")]
    terminal: Option<terminal::Terminal>,
}

impl Ends {
    fn pipe() -> std::io::Result<Self> {
        let (reader, writer) = std::io::pipe()?;
        Ok(Self {
            input: Some(Input::pipe(writer.into())?),
            stdin: Some(reader.into()),
            ..Self::default()
        })
    }

    #[cfg(target_os = "linux")]
    fn terminal(size: haft_api::PtySize) -> std::io::Result<Self> {
        let terminal = terminal::Terminal::open(size)?;
        Ok(Self {
            input: Some(Input::terminal(terminal.ours.try_clone()?)?),
            terminal: Some(terminal),
            ..Self::default()
        })
    }
}

fn check(spec: &ProcessSpec) -> Result<()> {
    let refuse = |message: &str| {
        Err(Error::new(ErrorKind::InvalidInput, message).context("process", &spec.id))
    };
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
