//! The thread a state lives on, and what is said to it.

mod calls;
mod commands;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use haft_api::{
    BatchCall, BatchOutcomes, Error, ErrorKind, ExtensionId, Result, SlashCommand,
    SlashCommandCall, ToolSpec,
};
use mlua::{Lua, MultiValue};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::config::Settings;
use crate::failure::{Failure, FailureKind};
use crate::pulse::Pulse;
use crate::script::Place;
use crate::state::Host;
use crate::{json, load, state};
use haft_script_host::{Level, LogSink, look_again};

/// Most events that wait to be taken by scripts.
const EVENTS: usize = 1024;

/// What is said to a state's thread.
pub(crate) enum Message {
    Batch(Batch),
    /// Ends calls, by their numbers.
    Cancel(Vec<u64>),
    Command(CommandCall),
    Event {
        name: &'static str,
        json: String,
    },
    /// Loads an extension again.
    Reload(PathBuf),
    Memory(oneshot::Sender<Memory>),
}

/// What memory a state holds, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Memory {
    /// All of it.
    pub state: u64,
    /// About how much of it is each extension's.
    pub extensions: BTreeMap<String, u64>,
}

/// A round's calls.
pub(crate) struct Batch {
    pub(crate) calls: Vec<(u64, BatchCall)>,
    pub(crate) outcomes: Arc<dyn BatchOutcomes>,
    /// True once nobody waits for outcomes any more.
    pub(crate) over: Arc<AtomicBool>,
    pub(crate) done: oneshot::Sender<()>,
}

/// A command's call.
pub(crate) struct CommandCall {
    pub(crate) number: u64,
    pub(crate) call: SlashCommandCall,
    pub(crate) done: oneshot::Sender<std::result::Result<Option<String>, Failure>>,
}

/// What the scripts of a state have registered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot {
    pub(crate) tools: Vec<ToolSpec>,
    pub(crate) commands: Vec<SlashCommand>,
    /// The extensions that are loaded.
    pub(crate) loaded: Vec<String>,
    /// What kept extensions and tools out.
    pub(crate) problems: Vec<haft_api::ErrorData>,
}

/// The events that scripts listen to.
pub(crate) type Subscribed = Mutex<BTreeSet<String>>;

/// A state's thread, seen from outside.
pub(crate) struct Worker {
    say: mpsc::UnboundedSender<Message>,
    pub(crate) snapshot: watch::Receiver<Option<Arc<Snapshot>>>,
    /// Cancelled when the state is given up.
    pub(crate) lost: CancellationToken,
    pub(crate) pulse: Arc<Pulse>,
    events: Arc<AtomicUsize>,
}

/// What a state's thread is made of.
pub(crate) struct Setup {
    pub(crate) settings: Arc<Settings>,
    pub(crate) log: Arc<dyn LogSink>,
    pub(crate) subscribed: Arc<Subscribed>,
    /// Extensions that aren't loaded, and why.
    pub(crate) left_out: Vec<(PathBuf, String)>,
    /// Counts threads that were given up and still run.
    pub(crate) given_up: Arc<AtomicUsize>,
}

impl Worker {
    /// Starts a thread; it loads its scripts at once.
    pub(crate) fn start(setup: Setup) -> Result<Arc<Self>> {
        let (say, hear) = mpsc::unbounded_channel();
        let (publish, snapshot) = watch::channel(None);
        let pulse = Arc::new(Pulse::new());
        let events = Arc::new(AtomicUsize::new(0));
        let lost = CancellationToken::new();
        let (inner_pulse, inner_events) = (Arc::clone(&pulse), Arc::clone(&events));
        let ends = lost.clone();
        std::thread::Builder::new()
            .name("haft-lua".to_owned())
            .stack_size(4 * 1024 * 1024)
            .spawn(move || {
                let given_up = Arc::clone(&setup.given_up);
                let pulse = Arc::clone(&inner_pulse);
                // A panic here would be the host's own mistake; callers see a
                // state that was lost.
                let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    run(setup, hear, &publish, inner_pulse, inner_events);
                }));
                drop(outcome);
                if pulse.is_given_up() {
                    given_up.fetch_sub(1, Ordering::Relaxed);
                }
                ends.cancel();
            })
            .map_err(|e| Error::io(e, "the script host's thread can't be started"))?;
        Ok(Arc::new(Self {
            say,
            snapshot,
            lost,
            pulse,
            events,
        }))
    }

    /// Says something. A thread that has ended hears nothing; those who wait
    /// see that it is lost.
    pub(crate) fn say(&self, message: Message) {
        self.say.send(message).ok();
    }

    /// Passes an event on; false if too many wait already.
    pub(crate) fn event(&self, name: &'static str, json: String) -> bool {
        if self.events.fetch_add(1, Ordering::Relaxed) >= EVENTS {
            self.events.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        self.say(Message::Event { name, json });
        true
    }
}

fn run(
    setup: Setup,
    hear: mpsc::UnboundedReceiver<Message>,
    publish: &watch::Sender<Option<Arc<Snapshot>>>,
    pulse: Arc<Pulse>,
    events: Arc<AtomicUsize>,
) {
    let fail = |what: String| {
        let problem = Error::new(ErrorKind::Unexpected, what).to_data();
        publish.send_replace(Some(Arc::new(Snapshot {
            problems: vec![problem],
            ..Snapshot::default()
        })));
    };
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return fail(format!("the script host can't start: {error}")),
    };
    let local = tokio::task::LocalSet::new();
    let Setup {
        settings,
        log,
        subscribed,
        left_out,
        ..
    } = setup;
    let changed = Rc::new(Cell::new(false));
    let listening = {
        let changed = Rc::clone(&changed);
        Box::new(move || changed.set(true))
    };
    let (lua, host) = match state::new(settings, log, Arc::clone(&pulse), listening) {
        Ok(made) => made,
        Err(error) => return fail(format!("a Lua state can't be made: {error}")),
    };
    let actor = Rc::new(Actor {
        lua,
        host,
        publish: publish.clone(),
        pulse,
        subscribed,
        changed,
        problems: RefCell::default(),
        early: RefCell::new(Some(Vec::new())),
        events,
    });
    local.block_on(&runtime, actor.work(hear, left_out));
    actor.host.scripts.borrow_mut().clear();
}

struct Actor {
    lua: Lua,
    host: Rc<Host>,
    publish: watch::Sender<Option<Arc<Snapshot>>>,
    pulse: Arc<Pulse>,
    subscribed: Arc<Subscribed>,
    changed: Rc<Cell<bool>>,
    problems: RefCell<Vec<(PathBuf, haft_api::ErrorData)>>,
    /// Events that came while the scripts were being loaded.
    early: RefCell<Option<Vec<(&'static str, String)>>>,
    events: Arc<AtomicUsize>,
}

impl Actor {
    async fn work(
        self: &Rc<Self>,
        mut hear: mpsc::UnboundedReceiver<Message>,
        left_out: Vec<(PathBuf, String)>,
    ) {
        tokio::task::spawn_local(Rc::clone(self).load_all(left_out));
        let scheduler = Rc::clone(&self.host.scheduler);
        // Whoever said something is likely to say something more.
        let mut expects = false;
        loop {
            loop {
                match hear.try_recv() {
                    Ok(message) => {
                        self.take(message);
                        expects = true;
                    }
                    Err(mpsc::error::TryRecvError::Empty) => break,
                    Err(mpsc::error::TryRecvError::Disconnected) => return,
                }
            }
            if self.pulse.is_given_up() {
                return;
            }
            if scheduler.is_overdue() {
                // What was answered in time, while a sibling kept the thread
                // busy, is taken first.
                for _ in 0..3 {
                    tokio::task::yield_now().await;
                }
                scheduler.run(&self.lua);
                scheduler.enforce_deadlines(&self.lua);
            }
            if !scheduler.is_idle() {
                scheduler.run(&self.lua);
                if self.changed.take() {
                    self.tell_listening();
                }
                // Timers and sockets have their turn between slices.
                tokio::task::yield_now().await;
                continue;
            }
            scheduler.settle(&self.lua);
            if std::mem::take(&mut expects) {
                let said = || (!hear.is_empty() || hear.is_closed()).then_some(());
                if look_again(said).is_some() {
                    continue;
                }
            }
            let due = scheduler.next_deadline();
            tokio::select! {
                biased;
                message = hear.recv() => match message {
                    Some(message) => {
                        self.take(message);
                        expects = true;
                    }
                    None => return,
                },
                () = scheduler.woken() => {}
                () = async {
                    match due {
                        Some(due) => tokio::time::sleep_until(due.into()).await,
                        None => std::future::pending().await,
                    }
                } => {}
            }
        }
    }

    fn take(self: &Rc<Self>, message: Message) {
        match message {
            Message::Batch(batch) => self.batch(batch),
            Message::Cancel(numbers) => {
                for number in numbers {
                    let words = "cancelled: the call's caller gave up";
                    let failure = Failure::new(FailureKind::Cancelled, words);
                    self.host.scheduler.cancel(&self.lua, number, failure);
                }
            }
            Message::Command(command) => self.command(command),
            Message::Event { name, json } => match &mut *self.early.borrow_mut() {
                Some(early) => early.push((name, json)),
                None => self.event(name, &json),
            },
            Message::Memory(asked) => {
                // Whoever asked may have gone.
                asked.send(self.memory()).ok();
            }
            Message::Reload(path) => {
                tokio::task::spawn_local(Rc::clone(self).reload(path));
            }
        }
    }

    fn memory(&self) -> Memory {
        let bytes = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
        let scripts = self.host.scripts.borrow();
        let held = scripts
            .iter()
            .map(|script| (script.name().to_owned(), bytes(script.memory.get())));
        Memory {
            state: bytes(self.lua.used_memory()),
            extensions: held.collect(),
        }
    }

    // Loading.

    async fn load_all(self: Rc<Self>, left_out: Vec<(PathBuf, String)>) {
        let settings = Arc::clone(&self.host.settings);
        let mut paths = settings.paths.clone();
        for folder in &settings.folders {
            paths.extend(Place::within(folder));
        }
        let mut seen = BTreeSet::new();
        for path in paths {
            let place = match Place::of(&path) {
                Ok(place) => place,
                Err(words) => {
                    self.problem(&path, &path.display().to_string(), &Failure::error(words));
                    continue;
                }
            };
            if !seen.insert(place.main.clone()) {
                continue;
            }
            if let Some((_, why)) = left_out.iter().find(|(main, _)| *main == place.main) {
                self.problem(&path, &place.name, &Failure::error(why.clone()));
                continue;
            }
            self.load(place).await;
        }
        self.publish();
        for (name, json) in self.early.take().unwrap_or_default() {
            self.event(name, &json);
        }
    }

    /// Loads an extension in the place of the one that came from there before,
    /// if one did.
    async fn load(&self, place: Place) {
        self.pulse.set_loading(Some(place.main.clone()));
        let (name, main) = (place.name.clone(), place.main.clone());
        let old = self
            .host
            .scripts
            .borrow()
            .iter()
            .find(|script| script.place.main == main)
            .cloned();
        let loaded = load::load(&self.lua, &self.host, place, old.as_ref()).await;
        self.pulse.set_loading(None);
        self.problems.borrow_mut().retain(|(path, _)| *path != main);
        match loaded {
            Ok(script) => {
                if let Some(old) = old {
                    self.host
                        .scripts
                        .borrow_mut()
                        .retain(|script| !Rc::ptr_eq(script, &old));
                    let words = "cancelled: the extension was loaded again";
                    let failure = Failure::new(FailureKind::Cancelled, words);
                    self.host.scheduler.cancel_script(&self.lua, &old, &failure);
                }
                self.host.scripts.borrow_mut().push(script);
            }
            Err(failure) => self.problem(&main, &name, &failure),
        }
        self.tell_listening();
    }

    async fn reload(self: Rc<Self>, path: PathBuf) {
        let place = match Place::of(&path) {
            Ok(place) => place,
            Err(words) => {
                self.problem(&path, &path.display().to_string(), &Failure::error(words));
                self.publish();
                return;
            }
        };
        let name = place.name.clone();
        self.load(place).await;
        let fine = !self.problems.borrow().iter().any(|(_, p)| {
            p.context
                .iter()
                .any(|(k, v)| k == "extension" && *v == name)
        });
        if fine {
            self.host.log.log(&name, Level::Info, "loaded again");
        }
        self.publish();
    }

    fn problem(&self, path: &std::path::Path, name: &str, failure: &Failure) {
        let text = failure.to_string();
        self.host
            .log
            .log(name, Level::Error, &format!("not loaded: {text}"));
        let error = Error::new(ErrorKind::InvalidInput, text)
            .operation("load a Lua extension")
            .context("extension", name)
            .context("file", path.display());
        self.problems
            .borrow_mut()
            .push((path.to_owned(), error.to_data()));
    }

    fn publish(&self) {
        let mut snapshot = Snapshot::default();
        let denied = &self.host.settings.deny_tools;
        for script in self.host.scripts.borrow().iter() {
            snapshot.loaded.push(script.name().to_owned());
            for tool in script.tools.borrow().iter() {
                if denied.iter().any(|name| tool.spec.name == *name.as_str()) {
                    let words = "the settings leave this tool out (`deny_tools`)";
                    let problem = Error::new(ErrorKind::Denied, words)
                        .context("tool", &tool.spec.name)
                        .context("extension", script.name());
                    snapshot.problems.push(problem.to_data());
                } else {
                    snapshot.tools.push(tool.spec.clone());
                }
            }
            for command in script.commands.borrow().iter() {
                let (name, description) = (&command.name, &command.description);
                snapshot.commands.push(SlashCommand::new(name, description));
            }
        }
        snapshot.tools.sort_by(|a, b| a.name.cmp(&b.name));
        snapshot.commands.sort_by(|a, b| a.name.cmp(&b.name));
        let problems = self.problems.borrow();
        snapshot
            .problems
            .extend(problems.iter().map(|(_, problem)| problem.clone()));
        self.publish.send_replace(Some(Arc::new(snapshot)));
    }

    fn tell_listening(&self) {
        let scripts = self.host.scripts.borrow();
        let names = scripts
            .iter()
            .flat_map(|script| {
                script
                    .listeners
                    .borrow()
                    .keys()
                    .cloned()
                    .collect::<Vec<_>>()
            })
            .collect();
        *self
            .subscribed
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = names;
    }

    fn event(&self, name: &str, text: &str) {
        self.events.fetch_sub(1, Ordering::Relaxed);
        let scripts = self.host.scripts.borrow().clone();
        for script in scripts {
            let listeners = script.listeners.borrow().get(name).cloned();
            for listener in listeners.unwrap_or_default() {
                let event = match json::decode(&self.lua, &self.host.marks, text) {
                    Ok(event) => MultiValue::from_iter([event]),
                    Err(words) => {
                        let words = format!("the event {name} can't be passed on: {words}");
                        script.say(Level::Error, &words);
                        break;
                    }
                };
                let what = format!("the listener to `{name}`");
                self.host
                    .call_back(&self.lua, &script, &what, &listener, event);
            }
        }
    }
}

/// The host's id.
pub(crate) fn id() -> Result<ExtensionId> {
    ExtensionId::new("lua")
}
