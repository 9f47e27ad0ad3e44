//! A skill's thread, and what is said to it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Instant;

use haft_api::{CallId, Error, Result, ToolContext, ToolOutput};
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use crate::actor;
use crate::config::Settings;
use crate::credentials::Credentials;
use crate::failure::Failure;
use crate::grants::Grants;
use crate::manifest::Package;
use crate::pulse::Pulse;
use crate::supervisor::Supervisor;
use haft_script_host::LogSink;

/// What is said to a skill's thread.
pub(crate) enum Message {
    Requests(Vec<Request>),
    /// Ends calls, by their numbers.
    Cancel(Vec<u64>),
    /// What an operation came to.
    Operation(Completion),
    /// Ends the skill: its `stop` runs, and whatever waits is told.
    Stop,
}

/// What an operation came to, or one of several things.
pub(crate) struct Completion {
    pub(crate) operation: u64,
    pub(crate) outcome: std::result::Result<Settled, Raised>,
    /// Whether it has ended.
    pub(crate) last: bool,
    /// Room in a queue, given back when this was taken.
    pub(crate) room: Option<tokio::sync::OwnedSemaphorePermit>,
}

/// A value that goes into JavaScript.
#[derive(Debug)]
pub(crate) enum Settled {
    Json(String),
    /// A JSON value, and bytes beside it.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "for requests"))]
    JsonAndBytes(String, Vec<u8>),
}

/// An error to be thrown in JavaScript.
#[derive(Debug)]
pub(crate) struct Raised {
    /// `Error`, `TypeError`, `RangeError`, or a `DOMException`'s name.
    pub(crate) name: &'static str,
    pub(crate) message: String,
}

impl Raised {
    pub(crate) fn new(name: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { name, message }
    }

    pub(crate) fn error(message: impl Into<String>) -> Self {
        Self::new("Error", message)
    }
}

/// A way into the skill's code.
pub(crate) enum Entry {
    Load,
    /// Reads the lists of tools and commands.
    Lists,
    Hook {
        name: &'static str,
        /// A JSON array.
        arguments: String,
    },
    Tool {
        name: String,
        arguments: Box<RawValue>,
        facts: Option<Arc<CallFacts>>,
    },
    Command {
        name: String,
        text: String,
    },
}

/// What a tool is told of its call.
pub(crate) struct CallFacts {
    pub(crate) call: CallId,
    pub(crate) tool: String,
    pub(crate) context: ToolContext,
}

impl CallFacts {
    /// The facts of a call of another tool that this call makes.
    pub(crate) fn of_inner(&self, tool: &str) -> Arc<Self> {
        Arc::new(Self {
            call: self.call.clone(),
            tool: tool.to_owned(),
            context: self.context.clone(),
        })
    }

    /// As a JSON object.
    pub(crate) fn json(&self) -> String {
        serde_json::json!({
            "callId": self.call,
            "tool": self.tool,
            "thread": self.context.thread,
            "turn": self.context.turn,
            "deadline": self.context.deadline,
        })
        .to_string()
    }
}

/// One call into the skill, with an identity of its own.
pub(crate) struct Request {
    pub(crate) number: u64,
    pub(crate) entry: Entry,
    pub(crate) deadline: Instant,
    pub(crate) reply: Reply,
}

/// Takes a call's one answer.
pub(crate) type Reply = Box<dyn FnOnce(std::result::Result<Answer, Failure>) + Send>;

/// What a call came to.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The skill has no such hook.
    Missing,
    /// JSON text; nothing for `undefined`.
    Json(Option<String>),
    Output(ToolOutput),
}

/// Who else is to be told of what a skill does.
pub(crate) trait Outside: Send + Sync + 'static {
    /// The skill's published state has changed.
    fn published(&self, state: Arc<str>);
    /// Calls a tool of some skill, within the call that asks for it if there is
    /// one.
    fn call_tool(
        &self,
        skill: String,
        tool: String,
        arguments: Box<RawValue>,
        within: Option<Arc<CallFacts>>,
    ) -> futures::future::BoxFuture<'static, std::result::Result<Settled, Raised>>;
    /// The skills there are, as JSON.
    fn skills(&self) -> String;
}

/// What a skill's thread is made of.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) package: Arc<Package>,
    pub(crate) grants: Grants,
    pub(crate) settings: Arc<Settings>,
    pub(crate) log: Arc<dyn LogSink>,
    pub(crate) outside: Arc<dyn Outside>,
    pub(crate) io: tokio::runtime::Handle,
    pub(crate) supervisor: Arc<Supervisor>,
    /// The skill's own folder of data.
    pub(crate) data: Option<PathBuf>,
    pub(crate) credentials: Arc<Credentials>,
    /// Threads that were given up and still run.
    pub(crate) given_up: Arc<AtomicUsize>,
}

impl Setup {
    pub(crate) fn id(&self) -> &str {
        &self.package.manifest.id
    }
}

/// A skill's thread, seen from outside. Dropping it ends the skill.
pub(crate) struct Worker {
    say: mpsc::Sender<Message>,
    pub(crate) pulse: Arc<Pulse>,
    /// Cancelled when the thread has ended, or is given up.
    pub(crate) lost: CancellationToken,
    /// Whether code ran since the lists were last read.
    pub(crate) touched: Arc<AtomicBool>,
    why: Arc<Mutex<Option<String>>>,
    given_up: Arc<AtomicUsize>,
}

impl Worker {
    /// Starts a thread. It does nothing before it is told to load.
    ///
    /// # Errors
    /// If the system has no thread for it.
    pub(crate) fn start(setup: Setup) -> Result<Arc<Self>> {
        let (say, hear) = mpsc::channel();
        let worker = Arc::new(Self {
            say: say.clone(),
            pulse: Arc::new(Pulse::new()),
            lost: CancellationToken::new(),
            touched: Arc::new(AtomicBool::new(true)),
            why: Arc::default(),
            given_up: Arc::clone(&setup.given_up),
        });
        let (pulse, touched) = (Arc::clone(&worker.pulse), Arc::clone(&worker.touched));
        let (ends, why) = (worker.lost.clone(), Arc::clone(&worker.why));
        // The stack of the script's own code, and room for what it calls.
        let stack = setup.settings.limits.stack_kib * 1024 + 1024 * 1024;
        setup.supervisor.watch(&worker);
        std::thread::Builder::new()
            .name(format!("js-{}", setup.id()))
            .stack_size(stack)
            .spawn(move || {
                let given_up = Arc::clone(&setup.given_up);
                let seen = Arc::clone(&pulse);
                // A panic here would be the host's own mistake; callers see a
                // skill that was lost.
                let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    actor::run(setup, say, &hear, pulse, touched)
                }));
                let broken = match ended {
                    Ok(Ok(())) => None,
                    Ok(Err(words)) => Some(words),
                    Err(panic) => Some(format!(
                        "the host panicked: {}",
                        haft_api::panic_message(&*panic)
                    )),
                };
                if seen.is_given_up() {
                    given_up.fetch_sub(1, Ordering::Relaxed);
                }
                if let Some(words) = broken {
                    set(&why, words);
                }
                ends.cancel();
            })
            .map_err(|e| Error::io(e, "a skill's thread can't be started"))?;
        Ok(worker)
    }

    /// Says something. A thread that has ended hears nothing; those who wait
    /// see that it is lost.
    pub(crate) fn say(&self, message: Message) {
        self.say.send(message).ok();
    }

    /// Gives the thread up: it ends when the code it is stuck in returns.
    pub(crate) fn give_up(&self, words: &str) {
        if !self.lost.is_cancelled() && self.pulse.give_up() {
            self.given_up.fetch_add(1, Ordering::Relaxed);
            set(&self.why, words.to_owned());
            self.lost.cancel();
        }
    }

    /// Why it was lost, unless it was told to stop.
    pub(crate) fn why_lost(&self) -> Option<String> {
        self.why
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

fn set(why: &Mutex<Option<String>>, words: String) {
    why.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get_or_insert(words);
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.say(Message::Stop);
    }
}
