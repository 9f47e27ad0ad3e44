//! `haft.process`: programs in the call's workspace, or on this machine by
//! grant.

mod handle;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::process::Stdio;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use haft_api::{Ending, OutputChannel, ProcessId, ProcessSpec, RemoteRunnerSession, Signal};
use mlua::{Lua, Table, Value};
use rustix::process::{Pid, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{Notify, mpsc};

use super::option;
use crate::script::{OpenHandle, Script};
use crate::state::Host;

use handle::{ending_table, handle};

/// Most bytes taken in one read.
const READ_BYTES: usize = 64 * 1024;
/// Longest wait of one read, in milliseconds; it returns as soon as there is
/// something.
const READ_WAIT_MS: u64 = 30_000;

/// What to run.
#[derive(Debug, Clone, Default)]
struct Command {
    pub(crate) argv: Vec<String>,
    pub(crate) cwd: Option<String>,
    pub(crate) env: Vec<(String, String)>,
    /// Whether `env` is all there is, on this machine.
    pub(crate) env_whole: bool,
    pub(crate) stdin: bool,
    pub(crate) timeout: Option<Duration>,
}

/// A program that runs. Dropping it kills it and all it started.
struct Process {
    how: How,
    ended: RefCell<Option<Ending>>,
    _open: OpenHandle,
}

enum How {
    Session {
        session: Arc<dyn RemoteRunnerSession>,
        id: ProcessId,
        after: Cell<Option<u64>>,
        waiting: RefCell<VecDeque<(OutputChannel, Vec<u8>)>>,
        closed: Cell<bool>,
    },
    Local {
        group: Pid,
        stdin: tokio::sync::Mutex<Option<tokio::process::ChildStdin>>,
        output: tokio::sync::Mutex<mpsc::Receiver<(OutputChannel, Vec<u8>)>>,
        exit: Rc<Exit>,
    },
}

#[derive(Default)]
struct Exit {
    ending: RefCell<Option<Ending>>,
    told: Notify,
}

impl Drop for Process {
    fn drop(&mut self) {
        match &self.how {
            How::Session { session, id, .. } => session.release_process(id),
            How::Local { group, .. } => kill_group(*group),
        }
    }
}

fn kill_group(group: Pid) {
    // Nobody of the group may be left, which is what was wanted.
    kill_process_group(group, rustix::process::Signal::KILL).ok();
}

impl Process {
    /// Starts a program in a session.
    pub(crate) async fn in_session(
        script: &Rc<Script>,
        session: Arc<dyn RemoteRunnerSession>,
        id: ProcessId,
        command: Command,
    ) -> Result<Rc<Self>, String> {
        let mut spec = ProcessSpec::new(id.clone(), command.argv);
        spec.cwd = command.cwd;
        spec.env = command.env;
        spec.stdin = command.stdin;
        spec.timeout_ms = command
            .timeout
            .map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        // Made before the start: a start that is dropped leaves nothing either.
        let process = Rc::new(Self {
            how: How::Session {
                session: Arc::clone(&session),
                id,
                after: Cell::new(None),
                waiting: RefCell::default(),
                closed: Cell::new(false),
            },
            ended: RefCell::default(),
            _open: OpenHandle::new(script),
        });
        session
            .start_process(spec)
            .await
            .map_err(|e| e.to_string())?;
        Ok(process)
    }

    /// Starts a program on this machine, as the leader of a group of its own.
    pub(crate) fn local(script: &Rc<Script>, command: &Command) -> Result<Rc<Self>, String> {
        let program = command.argv.first().ok_or("there is no program to run")?;
        script.grants.check_process(script.name(), program)?;
        let mut start = tokio::process::Command::new(program);
        start
            .args(&command.argv[1..])
            .stdin(match command.stdin {
                true => Stdio::piped(),
                false => Stdio::null(),
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        if command.env_whole {
            start.env_clear();
        }
        start.envs(command.env.iter().map(|(name, value)| (name, value)));
        if let Some(cwd) = &command.cwd {
            start.current_dir(cwd);
        }
        let mut child = start.spawn().map_err(|e| format!("{program}: {e}"))?;
        let group = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw)
            .ok_or("the program ended before it could be watched")?;
        let (send, output) = mpsc::channel(16);
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        if let Some(stdout) = stdout {
            tokio::task::spawn_local(pump(stdout, OutputChannel::Stdout, send.clone()));
        }
        if let Some(stderr) = stderr {
            tokio::task::spawn_local(pump(stderr, OutputChannel::Stderr, send));
        }
        let stdin = tokio::sync::Mutex::new(child.stdin.take());
        let exit = Rc::new(Exit::default());
        tokio::task::spawn_local(watch(child, group, command.timeout, Rc::clone(&exit)));
        Ok(Rc::new(Self {
            how: How::Local {
                group,
                stdin,
                output: tokio::sync::Mutex::new(output),
                exit,
            },
            ended: RefCell::default(),
            _open: OpenHandle::new(script),
        }))
    }

    /// The next piece of output, or nothing once there will be no more.
    pub(crate) async fn read(&self) -> Result<Option<(OutputChannel, Vec<u8>)>, String> {
        match &self.how {
            How::Local { output, .. } => Ok(output.lock().await.recv().await),
            How::Session {
                session,
                id,
                after,
                waiting,
                closed,
            } => loop {
                if let Some(piece) = waiting.borrow_mut().pop_front() {
                    return Ok(Some(piece));
                }
                if closed.get() {
                    return Ok(None);
                }
                let read = session
                    .read_process(id, after.get(), READ_BYTES, READ_WAIT_MS)
                    .await
                    .map_err(|e| e.to_string())?;
                for piece in read.chunks {
                    after.set(Some(piece.seq));
                    waiting.borrow_mut().push_back((piece.channel, piece.bytes));
                }
                closed.set(read.closed);
                if read.ending.is_some() {
                    *self.ended.borrow_mut() = read.ending;
                }
            },
        }
    }

    /// How it ended. Output that nobody read is dropped.
    pub(crate) async fn wait(&self) -> Result<Ending, String> {
        if let How::Local { exit, .. } = &self.how {
            loop {
                if let Some(ending) = exit.ending.borrow().clone() {
                    return Ok(ending);
                }
                let told = exit.told.notified();
                tokio::select! {
                    () = told => {}
                    piece = self.read() => if piece?.is_none() {
                        exit.told.notified().await;
                    }
                }
            }
        }
        while self.read().await?.is_some() {}
        Ok(self.ended.borrow().clone().unwrap_or(Ending::Unknown {
            reason: "the output ended without an exit status".to_owned(),
        }))
    }

    /// Writes to its standard input; `None` closes it.
    pub(crate) async fn write(&self, bytes: Option<Vec<u8>>) -> Result<(), String> {
        match &self.how {
            How::Session { session, id, .. } => session
                .write_stdin(id, bytes)
                .await
                .map_err(|e| e.to_string()),
            How::Local { stdin, .. } => {
                let mut stdin = stdin.lock().await;
                match (bytes, stdin.as_mut()) {
                    (Some(bytes), Some(open)) => {
                        open.write_all(&bytes).await.map_err(|e| e.to_string())
                    }
                    (Some(_), None) => Err("its standard input is closed".to_owned()),
                    (None, _) => {
                        stdin.take();
                        Ok(())
                    }
                }
            }
        }
    }

    /// Sends a signal to it and all it started.
    pub(crate) async fn signal(&self, signal: Signal) -> Result<(), String> {
        match &self.how {
            How::Session { session, id, .. } => {
                session.signal(id, signal).await.map_err(|e| e.to_string())
            }
            How::Local { group, .. } => {
                let signal = match signal {
                    Signal::Interrupt => rustix::process::Signal::INT,
                    Signal::Terminate => rustix::process::Signal::TERM,
                    Signal::Kill => rustix::process::Signal::KILL,
                };
                kill_process_group(*group, signal).map_err(|e| e.to_string())
            }
        }
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    channel: OutputChannel,
    to: mpsc::Sender<(OutputChannel, Vec<u8>)>,
) {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match from.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(read) => {
                if to.send((channel, buffer[..read].to_vec())).await.is_err() {
                    return;
                }
            }
        }
    }
}

async fn watch(
    mut child: tokio::process::Child,
    group: Pid,
    timeout: Option<Duration>,
    exit: Rc<Exit>,
) {
    let over = async {
        match timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    let ending = tokio::select! {
        status = child.wait() => match status {
            Ok(status) => {
                use std::os::unix::process::ExitStatusExt as _;
                match (status.code(), status.signal()) {
                    (Some(code), _) => Ending::Exited { code },
                    (None, Some(signal)) => Ending::Signalled { signal },
                    (None, None) => Ending::Unknown { reason: status.to_string() },
                }
            }
            Err(error) => Ending::Unknown { reason: error.to_string() },
        },
        () = over => {
            kill_group(group);
            child.wait().await.ok();
            Ending::TimedOut
        }
    };
    *exit.ending.borrow_mut() = Some(ending);
    exit.told.notify_waiters();
    exit.told.notify_one();
}

/// A command from a script's table or line.
fn command(value: &Value) -> Result<(Command, Option<Vec<u8>>), String> {
    let shell = |line: String| vec!["/bin/sh".to_owned(), "-c".to_owned(), line];
    let table = match value {
        Value::String(line) => {
            let argv = shell(line.to_string_lossy());
            return Ok((
                Command {
                    argv,
                    ..Command::default()
                },
                None,
            ));
        }
        Value::Table(table) => table,
        other => {
            return Err(format!(
                "a command is a line or a table with `argv` or `shell`, got {}",
                other.type_name()
            ));
        }
    };
    let argv: Option<Vec<String>> = option(table, "argv")?;
    let argv = match (argv, option::<String>(table, "shell")?) {
        (Some(argv), None) if !argv.is_empty() => argv,
        (None, Some(line)) => shell(line),
        (None, None) if table.raw_len() > 0 => table
            .sequence_values::<String>()
            .collect::<Result<_, _>>()
            .map_err(|e| format!("the command: {e}"))?,
        _ => return Err("a command has either `argv` or `shell`".to_owned()),
    };
    let mut env = Vec::new();
    if let Some(given) = option::<Table>(table, "env")? {
        for pair in given.pairs::<String, String>() {
            env.push(pair.map_err(|e| format!("field `env`: {e}"))?);
        }
        env.sort();
    }
    let stdin: Option<mlua::LuaString> = option(table, "stdin")?;
    let timeout = option::<f64>(table, "timeout_ms")?
        .map(super::values::milliseconds)
        .transpose()?;
    Ok((
        Command {
            argv,
            cwd: option(table, "cwd")?,
            env,
            env_whole: false,
            stdin: stdin.is_some(),
            timeout,
        },
        stdin.map(|text| text.as_bytes().to_vec()),
    ))
}

/// Where a command of the call that runs goes.
struct Site {
    script: Rc<Script>,
    session: Option<(Arc<dyn RemoteRunnerSession>, ProcessId)>,
    limit: Option<Duration>,
}

impl Site {
    fn now(host: &Host, script: &Rc<Script>) -> Result<Self, String> {
        let call = host.scheduler.current().and_then(|task| task.call.clone());
        let mut site = Self {
            script: Rc::clone(script),
            session: None,
            limit: None,
        };
        if let Some(call) = call {
            let number = host.next_process.get();
            host.next_process.set(number + 1);
            if let Some(session) = call.workspace() {
                let of = call.call().map_or("command", |call| call.id.as_str());
                let id = ProcessId::new(format!("lua-{of}-{number}")).map_err(|e| e.to_string())?;
                site.session = Some((Arc::clone(session), id));
            }
            let ends = call.context().and_then(|context| context.turn_deadline);
            let left = ends.map(haft_api::Deadline::remaining);
            site.limit = haft_api::command_timeout(left, None);
        }
        Ok(site)
    }

    async fn start(self, mut command: Command) -> Result<Rc<Process>, String> {
        command.timeout = match (command.timeout, self.limit) {
            (Some(asked), Some(limit)) => Some(asked.min(limit)),
            (asked, limit) => asked.or(limit),
        };
        match self.session {
            Some((session, id)) => Process::in_session(&self.script, session, id, command).await,
            None => Process::local(&self.script, &command),
        }
    }
}

pub(super) fn add(
    lua: &Lua,
    host: &Rc<Host>,
    script: &Rc<Script>,
    haft: &Table,
) -> mlua::Result<()> {
    let table = lua.create_table()?;
    let most = host.settings.limits.result_bytes;

    let (shared, of) = (Rc::clone(host), Rc::clone(script));
    let output = host.awaiting(lua, "haft.process.output", move |_, given: Value| {
        let (command, stdin) = command(&given)?;
        let site = Site::now(&shared, &of)?;
        Ok(async move {
            let process = site.start(command).await?;
            let feeding = async {
                if let Some(bytes) = stdin {
                    // A program that doesn't read its input isn't a failed one.
                    if process.write(Some(bytes)).await.is_ok() {
                        process.write(None).await.ok();
                    }
                }
            };
            let following = async {
                let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
                let mut truncated = false;
                while let Some((channel, bytes)) = process.read().await? {
                    let to = match channel {
                        OutputChannel::Stdout => &mut stdout,
                        OutputChannel::Stderr => &mut stderr,
                    };
                    let room = most.saturating_sub(to.len()).min(bytes.len());
                    truncated |= room < bytes.len();
                    to.extend_from_slice(&bytes[..room]);
                }
                let ending = process.wait().await?;
                Ok::<_, String>((ending, stdout, stderr, truncated))
            };
            let ((), followed) = tokio::join!(feeding, following);
            let (ending, stdout, stderr, truncated) = followed?;
            Ok(Box::new(move |lua: &Lua| {
                let result = ending_table(lua, &ending)?;
                result.raw_set("stdout", lua.create_string(stdout)?)?;
                result.raw_set("stderr", lua.create_string(stderr)?)?;
                result.raw_set("truncated", truncated)?;
                Ok([Value::Table(result)].into_iter().collect())
            }) as crate::scheduler::Reply)
        })
    })?;
    table.raw_set("output", &output)?;
    table.raw_set("run", output)?;

    let (shared, of) = (Rc::clone(host), Rc::clone(script));
    let spawn = host.awaiting(lua, "haft.process.spawn", move |_, given: Value| {
        let (mut command, stdin) = command(&given)?;
        if let Value::Table(table) = &given {
            command.stdin |= option(table, "open_stdin")?.unwrap_or(false);
        }
        let site = Site::now(&shared, &of)?;
        let shared = Rc::clone(&shared);
        Ok(async move {
            let process = site.start(command).await?;
            if let Some(bytes) = stdin {
                process.write(Some(bytes)).await?;
                process.write(None).await?;
            }
            Ok(Box::new(move |lua: &Lua| {
                let handle = handle(lua, &shared, &process)?;
                Ok([Value::Table(handle)].into_iter().collect())
            }) as crate::scheduler::Reply)
        })
    })?;
    table.raw_set("spawn", spawn)?;
    haft.raw_set("process", table)
}
