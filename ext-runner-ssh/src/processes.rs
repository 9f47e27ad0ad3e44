//! Processes of a session.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haft_api::{Error, ErrorKind, ProcessId, ProcessSpec, Result, Signal};
use tokio::sync::watch;

use crate::connection::Use;
use crate::link::{Call, Link};
use crate::output::Output;
use crate::process::{Process, name};
use crate::quote::{is_variable, quote, quote_lines};
use crate::session::Place;
use crate::watch::Watch;
use crate::wire::Answer;

/// All processes of one session that are known here.
#[derive(Debug)]
pub(crate) struct Processes {
    link: Arc<Link>,
    watch: Arc<Watch>,
    place: Arc<Place>,
    known: Mutex<HashMap<ProcessId, Arc<Process>>>,
    /// Ids that are being released: they are free again soon.
    leaving: watch::Sender<Vec<ProcessId>>,
}

impl Processes {
    pub(crate) fn new(link: Arc<Link>, watch: Arc<Watch>, place: Arc<Place>) -> Self {
        Self {
            link,
            watch,
            place,
            known: Mutex::default(),
            leaving: watch::Sender::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<ProcessId, Arc<Process>>> {
        // Every change under this lock is a whole one.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, id: &ProcessId) -> String {
        format!("{}/p/{}", self.place.session, name(id))
    }

    /// What all that a process starts carries in its environment.
    fn mark(&self, id: &ProcessId) -> String {
        format!("{}{};", self.place.mark(), name(id))
    }

    /// A process, also one that was started before this program was.
    pub(crate) async fn get(&self, id: &ProcessId) -> Result<Arc<Process>> {
        let missing = || {
            Error::new(
                ErrorKind::NotFound,
                "no such process: it was never started, or was released",
            )
            .context("process", id)
        };
        if let Some(process) = self.known().get(id) {
            return Ok(Arc::clone(process));
        }
        if self.leaving.borrow().contains(id) {
            return Err(missing());
        }
        let line = format!(
            "{}; process_find {}",
            self.place.prelude(),
            quote(&name(id))
        );
        let answer = self.link.ask(Call::new(line)).await?;
        if answer.code != 0 {
            return Err(missing());
        }
        let output = Output::from_marks(&answer.text());
        let mut known = self.known();
        let process = known
            .entry(id.clone())
            .or_insert_with(|| Arc::new(Process::new(id.clone(), self.path(id), output)));
        self.watch.add(process);
        Ok(Arc::clone(process))
    }

    pub(crate) async fn start(&self, spec: ProcessSpec) -> Result<()> {
        check(&spec)?;
        let id = spec.id.clone();
        let mut leaving = self.leaving.subscribe();
        leaving
            .wait_for(|leaving| !leaving.contains(&id))
            .await
            .map_err(|e| Error::new(ErrorKind::Unexpected, e.to_string()))?;
        let process = Arc::new(Process::new(id.clone(), self.path(&id), Output::default()));
        {
            let mut known = self.known();
            if known.contains_key(&id) {
                return Err(taken(&id));
            }
            known.insert(id.clone(), Arc::clone(&process));
        }
        let mut unfinished = Unfinished {
            processes: self,
            process: &process,
            done: false,
        };
        // In a task: what was asked for is seen through, and released after it.
        let (link, asked) = (Arc::clone(&self.link), Arc::clone(&process));
        let call = Call::new(self.start_line(&spec)).body(script(&spec));
        let (sender, started) = tokio::sync::oneshot::channel();
        let task = async move {
            let _starting = asked.starting.lock().await;
            sender.send(()).ok();
            link.ask(call).await
        };
        let task = tokio::spawn(task);
        started.await.ok();
        let answer = task
            .await
            .map_err(|e| Error::new(ErrorKind::Unexpected, e.to_string()))??;
        if answer.code != 0 {
            self.known().remove(&id);
            unfinished.done = true;
            return Err(refused(&spec, &answer));
        }
        unfinished.done = true;
        self.watch.add(&process);
        Ok(())
    }

    fn start_line(&self, spec: &ProcessSpec) -> String {
        let config = &self.link.config;
        [
            format!("{}; process_start", self.place.prelude()),
            quote(spec.cwd.as_deref().unwrap_or(".")),
            quote(&name(&spec.id)),
            uuid::Uuid::new_v4().simple().to_string(),
            spec.timeout_ms.map_or(0, |ms| ms.max(1)).to_string(),
            config.grace_steps().to_string(),
            u8::from(spec.detach).to_string(),
            config.max_output_bytes.to_string(),
            quote(&self.mark(&spec.id)),
            u8::from(spec.stdin).to_string(),
            format!("\"$HOMEDIR\"/{}", self.watch.kick),
            script(spec).len().to_string(),
            config.abandoned_after_ms.to_string(),
        ]
        .join(" ")
    }

    pub(crate) async fn write_stdin(&self, id: &ProcessId, bytes: Option<Vec<u8>>) -> Result<()> {
        let process = self.get(id).await?;
        let prelude = self.place.prelude();
        let quoted = quote(&process.name());
        let Some(bytes) = bytes else {
            let line = format!("{prelude}; process_input_end {quoted}");
            return self.link.ask(Call::new(line)).await.map(drop);
        };
        if bytes.is_empty() {
            return Ok(());
        }
        let line = format!("{prelude}; process_input {quoted} {}", bytes.len());
        let call = Call::new(line).on(Use::Feed).body(bytes).once();
        let answer = self.link.ask(call).await?;
        match answer.code {
            0 => Ok(()),
            _ => Err(Error::new(
                ErrorKind::Unavailable,
                "the process doesn't read its standard input any more, or has none; ask for it \
                 when starting the process",
            )
            .permanent()
            .context("process", id)),
        }
    }

    pub(crate) async fn signal(&self, id: &ProcessId, signal: Signal) -> Result<()> {
        self.get(id).await?;
        let (signal, number) = match signal {
            Signal::Interrupt => ("INT", 2),
            Signal::Terminate => ("TERM", 15),
            Signal::Kill => ("KILL", 9),
        };
        let line = format!(
            "{}; process_signal {} {} {signal} {number}",
            self.place.prelude(),
            quote(&name(id)),
            quote(&self.mark(id)),
        );
        let answer = self.link.ask(Call::new(line)).await?;
        match answer.code {
            3 => Err(Error::new(ErrorKind::NotFound, answer.text()).context("process", id)),
            _ => Ok(()),
        }
    }

    /// Forgets a process, and has what is left of it ended.
    pub(crate) fn release(&self, id: &ProcessId) {
        let Some(process) = self.known().remove(id) else {
            return;
        };
        self.end(process);
    }

    fn end(&self, process: Arc<Process>) {
        process.released.store(true, Ordering::Release);
        // Outside a runtime nothing can be asked; the process keeps its limits.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let id = process.id.clone();
        self.leaving.send_modify(|leaving| leaving.push(id.clone()));
        let (link, leaving) = (Arc::clone(&self.link), self.leaving.clone());
        let line = format!(
            "{}; process_release {} {} {}",
            self.place.prelude(),
            quote(&name(&id)),
            quote(&self.mark(&id)),
            self.link.config.grace_steps()
        );
        runtime.spawn(async move {
            let _started = process.starting.lock().await;
            // A host that can't be reached now may be later.
            for _ in 0..20 {
                match link.ask(Call::new(line.clone())).await {
                    Err(e) if e.is_temporary() => {
                        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                    }
                    _ => break,
                }
            }
            leaving.send_modify(|leaving| leaving.retain(|known| *known != id));
        });
    }

    /// Nobody will read from them here any more.
    pub(crate) fn forget_all(&self) {
        for (_, process) in self.known().drain() {
            process.released.store(true, Ordering::Release);
        }
    }
}

/// A start that was given up: the process is not to be.
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
        let entered = known.get(&self.process.id);
        if entered.is_some_and(|entered| Arc::ptr_eq(entered, self.process)) {
            known.remove(&self.process.id);
            drop(known);
            self.processes.end(Arc::clone(self.process));
        }
    }
}

/// What the supervisor reads to start the command: no word of it is ever an
/// argument that others on the far side can see, except for the command's own.
fn script(spec: &ProcessSpec) -> Vec<u8> {
    let words: Vec<_> = spec.argv.iter().map(|word| quote_lines(word)).collect();
    let mut script = format!("set -- {}\n", words.join(" "));
    for (name, value) in &spec.env {
        script += &format!("export {name}={}\n", quote_lines(value));
    }
    script.into_bytes()
}

fn taken(id: &ProcessId) -> Error {
    Error::new(
        ErrorKind::AlreadyExists,
        "there is a process of that id; release it first",
    )
    .context("process", id)
}

fn refused(spec: &ProcessSpec, answer: &Answer) -> Error {
    if answer.kind() == ErrorKind::AlreadyExists {
        return taken(&spec.id);
    }
    let message = match answer.kind() {
        ErrorKind::NotFound => "no such program, or no such folder to start in",
        ErrorKind::Denied => "the program may not be run, or not in that folder",
        ErrorKind::Unavailable => "the session is gone on the far side",
        _ => "the program can't be started on the far side",
    };
    Error::new(answer.kind(), message)
        .permanent()
        .context("process", &spec.id)
        .context("program", spec.argv.first().map_or("", String::as_str))
        .context("found", answer.text())
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
        // `env` on the far side would take it for a variable.
        Some(program) if program.contains('=') => {
            return refuse("the program's name contains `=`; start it by a shell");
        }
        Some(_) => {}
    }
    if spec.argv.iter().any(|argument| argument.contains('\0')) {
        return refuse("an argument contains a NUL byte");
    }
    let bad = |(name, value): &(String, String)| !is_variable(name) || value.contains('\0');
    if spec.env.iter().any(bad) {
        return refuse("a variable's name or value isn't allowed");
    }
    Ok(())
}
