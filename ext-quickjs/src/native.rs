//! What the native functions of a skill's runtime share with its loop.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use rquickjs::{Ctx, Exception, Value};
use tokio::task::AbortHandle;

use crate::api::cron::Schedule;
use crate::api::db::Database;
use crate::api::state::State;
use crate::failure::{Failure, FailureKind};
use crate::worker::{Answer, CallFacts, Completion, Message, Raised, Reply, Settled, Setup};
use crate::{json, result};
use haft_script_host::Level;

/// Most errors that wait to be told of.
const REPORTS: usize = 64;

/// What a call is, for people.
#[derive(Debug, Clone)]
pub(crate) enum What {
    Load,
    Lists,
    Hook(&'static str),
    Tool(String),
    Command(String),
}

impl std::fmt::Display for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Load => f.write_str("loading"),
            Self::Lists => f.write_str("reading the skill's tools"),
            Self::Hook(name) => write!(f, "the hook `{name}`"),
            Self::Tool(name) => write!(f, "the tool `{name}`"),
            Self::Command(name) => write!(f, "the command `{name}`"),
        }
    }
}

/// A call that has no answer yet.
pub(crate) struct Call {
    pub(crate) what: What,
    pub(crate) deadline: Instant,
    pub(crate) reply: Reply,
    pub(crate) facts: Option<Arc<CallFacts>>,
    /// A rejection in it that nobody handled.
    pub(crate) rejection: Option<String>,
}

/// Something the runtime waits for.
struct Operation {
    /// The call that began it; zero is none.
    owner: u64,
    abort: Option<AbortHandle>,
}

struct Timer {
    owner: u64,
    due: Instant,
    every: Option<Duration>,
}

/// A timer that is due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Due {
    pub(crate) timer: u64,
    pub(crate) owner: u64,
    pub(crate) again: bool,
}

/// Shared by the loop and the native functions, on one thread.
pub(crate) struct Native {
    pub(crate) setup: Setup,
    say: mpsc::Sender<Message>,
    pub(crate) calls: RefCell<HashMap<u64, Call>>,
    deadlines: RefCell<BTreeSet<(Instant, u64)>>,
    /// The call that is being driven; zero is none.
    pub(crate) current: Cell<u64>,
    /// Whether nothing may be begun: a call that has ended winds up.
    pub(crate) winding_up: Cell<bool>,
    pub(crate) ran_out_of_memory: Cell<bool>,
    numbers: Cell<u64>,
    operations: RefCell<BTreeMap<u64, Operation>>,
    timers: RefCell<HashMap<u64, Timer>>,
    due: RefCell<BTreeSet<(Instant, u64)>>,
    pub(crate) state: RefCell<State>,
    pub(crate) database: RefCell<Option<Database>>,
    pub(crate) cron: RefCell<Schedule>,
    /// What `onError` is to be told of.
    reports: RefCell<Vec<String>>,
    /// Answers that wait until the state is kept.
    held: RefCell<Vec<(Reply, Result<Answer, Failure>)>>,
}

impl Native {
    pub(crate) fn new(setup: Setup, say: mpsc::Sender<Message>) -> Result<Rc<Self>, String> {
        let state = State::open(setup.data.as_deref(), &setup.credentials)?;
        Ok(Rc::new(Self {
            setup,
            say,
            calls: RefCell::default(),
            deadlines: RefCell::default(),
            current: Cell::new(0),
            winding_up: Cell::new(false),
            ran_out_of_memory: Cell::new(false),
            numbers: Cell::new(1),
            operations: RefCell::default(),
            timers: RefCell::default(),
            due: RefCell::default(),
            state: RefCell::new(state),
            database: RefCell::default(),
            cron: RefCell::default(),
            reports: RefCell::default(),
            held: RefCell::default(),
        }))
    }

    pub(crate) fn log(&self, level: Level, message: &str) {
        self.setup.log.log(self.setup.id(), level, message);
    }

    // Calls.

    pub(crate) fn admit(&self, number: u64, call: Call) {
        self.deadlines.borrow_mut().insert((call.deadline, number));
        self.calls.borrow_mut().insert(number, call);
    }

    /// Answers a call, once.
    pub(crate) fn finish(&self, number: u64, outcome: Result<Answer, Failure>) {
        let Some(call) = self.calls.borrow_mut().remove(&number) else {
            return;
        };
        self.deadlines.borrow_mut().remove(&(call.deadline, number));
        if matches!(&outcome, Err(failure) if failure.short_of_memory) {
            self.ran_out_of_memory.set(true);
        }
        let outcome = match (outcome, &call.what) {
            (Err(failure), What::Tool(name)) => Ok(Answer::Output(failure.output(name))),
            (outcome, _) => outcome,
        };
        // While code runs that has the state in hand, it can't be looked at.
        let changed = self.state.try_borrow().map_or(true, |s| s.has_changed());
        match changed {
            true => self.held.borrow_mut().push((call.reply, outcome)),
            false => (call.reply)(outcome),
        }
    }

    /// Keeps and publishes the state, and lets go of the answers that waited for
    /// it: whoever has an answer finds kept what the call has changed.
    pub(crate) fn publish(&self) {
        let published = self.state.borrow_mut().publish();
        match published {
            Ok(Some(json)) => self.setup.outside.published(json),
            Ok(None) => {}
            Err(words) => self.log(Level::Error, &words),
        }
        for (reply, outcome) in std::mem::take(&mut *self.held.borrow_mut()) {
            reply(outcome);
        }
    }

    /// Answers a call with a value.
    pub(crate) fn done<'js>(&self, ctx: &Ctx<'js>, number: u64, value: &Value<'js>) {
        let is_tool = match self.calls.borrow().get(&number) {
            None => return,
            Some(call) => matches!(call.what, What::Tool(_)),
        };
        let limit = self.setup.settings.limits.result_bytes;
        let outcome = match is_tool {
            true => result::output(ctx, value, limit).map(Answer::Output),
            false => match json::stringify(ctx, value, limit) {
                Ok(json) => Ok(Answer::Json(json)),
                Err(error) => Err(crate::thrown::caught(ctx, &error)),
            },
        };
        self.finish(number, outcome);
    }

    pub(crate) fn is_live(&self, call: u64) -> bool {
        self.calls.borrow().contains_key(&call)
    }

    /// The facts of the call that is being driven, if a turn made it and it has
    /// no answer yet.
    pub(crate) fn facts(&self) -> Option<Arc<CallFacts>> {
        let calls = self.calls.borrow();
        calls.get(&self.current.get())?.facts.clone()
    }

    /// When the code that runs now has to end.
    pub(crate) fn deadline(&self) -> Instant {
        let callback = self.setup.settings.limits.callback();
        let calls = self.calls.borrow();
        let call = calls.get(&self.current.get());
        call.map_or_else(|| Instant::now() + callback, |call| call.deadline)
    }

    /// The calls whose time is over.
    pub(crate) fn overdue(&self, now: Instant) -> Vec<u64> {
        let deadlines = self.deadlines.borrow();
        let over = deadlines.iter().take_while(|(at, _)| *at <= now);
        over.map(|(_, number)| *number).collect()
    }

    /// Has `onError` called with these arguments.
    pub(crate) fn report(&self, arguments: String) {
        let mut reports = self.reports.borrow_mut();
        if reports.len() < REPORTS {
            reports.push(arguments);
        }
    }

    pub(crate) fn take_reports(&self) -> Vec<String> {
        std::mem::take(&mut *self.reports.borrow_mut())
    }

    // Operations.

    fn number(&self) -> u64 {
        let number = self.numbers.get();
        self.numbers.set(number + 1);
        number
    }

    fn admit_pending(&self) -> Result<(), Raised> {
        if self.winding_up.get() {
            return Err(Raised::new("AbortError", "the call has ended"));
        }
        let pending = self.operations.borrow().len() + self.timers.borrow().len();
        let limit = self.setup.settings.limits.pending;
        if pending >= limit {
            return Err(Raised::new(
                "QuotaExceededError",
                format!(
                    "{limit} timers and operations are pending, which is the most there may be"
                ),
            ));
        }
        Ok(())
    }

    /// Begins something that is done elsewhere, for the call that is being
    /// driven.
    ///
    /// # Errors
    /// If too much is pending, or the call has ended.
    pub(crate) fn operation(
        &self,
        work: impl Future<Output = Result<Settled, Raised>> + Send + 'static,
    ) -> Result<u64, Raised> {
        self.begin(|number, say| async move {
            let outcome = work.await;
            let completion = Completion {
                operation: number,
                outcome,
                last: true,
                room: None,
            };
            // A thread that has ended needs no answer.
            say.send(Message::Operation(completion)).ok();
        })
    }

    /// Begins something that tells of itself, until it says the last word.
    ///
    /// # Errors
    /// As [`operation`](Self::operation).
    pub(crate) fn begin<F: Future<Output = ()> + Send + 'static>(
        &self,
        work: impl FnOnce(u64, mpsc::Sender<Message>) -> F,
    ) -> Result<u64, Raised> {
        self.admit_pending()?;
        let number = self.number();
        let task = self.setup.io.spawn(work(number, self.say.clone()));
        let operation = Operation {
            owner: self.current.get(),
            abort: Some(task.abort_handle()),
        };
        self.operations.borrow_mut().insert(number, operation);
        Ok(number)
    }

    /// The owner of an operation that tells something; nothing if it was
    /// dropped. `last` ends it.
    pub(crate) fn heard(&self, operation: u64, last: bool) -> Option<u64> {
        let mut operations = self.operations.borrow_mut();
        match last {
            true => operations.remove(&operation).map(|of| of.owner),
            false => operations.get(&operation).map(|of| of.owner),
        }
    }

    /// Drops an operation: it ends, and nothing more is heard of it.
    pub(crate) fn abort(&self, operation: u64) {
        if let Some(dropped) = self.operations.borrow_mut().remove(&operation)
            && let Some(task) = dropped.abort
        {
            task.abort();
        }
    }

    /// Drops what a call waits for; returns the operations.
    pub(crate) fn abandon(&self, call: u64) -> Vec<u64> {
        let of_call: Vec<u64> = {
            let operations = self.operations.borrow();
            let of_call = operations.iter().filter(|(_, of)| of.owner == call);
            of_call.map(|(number, _)| *number).collect()
        };
        for operation in &of_call {
            self.abort(*operation);
        }
        let timers: Vec<u64> = {
            let timers = self.timers.borrow();
            let of_call = timers.iter().filter(|(_, timer)| timer.owner == call);
            of_call.map(|(number, _)| *number).collect()
        };
        for timer in timers {
            self.clear_timer(timer);
        }
        of_call
    }

    /// Whether anything may still come by itself.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.operations.borrow().is_empty() || !self.timers.borrow().is_empty()
    }

    // Timers.

    /// Sets a timer.
    ///
    /// # Errors
    /// As [`operation`](Self::operation).
    pub(crate) fn set_timer(&self, ms: f64, repeats: bool) -> Result<u64, Raised> {
        self.admit_pending()?;
        // The longest time that browsers know; NaN is none.
        let after = Duration::from_secs_f64(ms.clamp(1.0, f64::from(i32::MAX)).max(1.0) / 1000.0);
        let number = self.number();
        let timer = Timer {
            owner: self.current.get(),
            due: Instant::now() + after,
            every: repeats.then_some(after),
        };
        self.due.borrow_mut().insert((timer.due, number));
        self.timers.borrow_mut().insert(number, timer);
        Ok(number)
    }

    pub(crate) fn clear_timer(&self, number: u64) {
        if let Some(timer) = self.timers.borrow_mut().remove(&number) {
            self.due.borrow_mut().remove(&(timer.due, number));
        }
    }

    /// Takes the first timer that is due by then.
    pub(crate) fn take_due(&self, now: Instant) -> Option<Due> {
        let (at, number) = *self.due.borrow().first()?;
        if at > now {
            return None;
        }
        self.due.borrow_mut().remove(&(at, number));
        let mut timers = self.timers.borrow_mut();
        let timer = timers.get_mut(&number)?;
        let due = Due {
            timer: number,
            owner: timer.owner,
            again: timer.every.is_some(),
        };
        match timer.every {
            Some(every) => {
                // Missed beats are skipped, not made up for.
                timer.due = (at + every).max(Instant::now());
                self.due.borrow_mut().insert((timer.due, number));
            }
            None => {
                timers.remove(&number);
            }
        }
        Some(due)
    }

    /// When the loop has to look again by itself.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        let timer = self.due.borrow().first().map(|(at, _)| *at);
        let deadline = self.deadlines.borrow().first().map(|(at, _)| *at);
        let cron = self.cron.borrow().next_wake();
        [timer, deadline, cron].into_iter().flatten().min()
    }

    /// The failure of a call that can't be answered any more.
    pub(crate) fn deadlock(&self, number: u64) -> Option<Failure> {
        let calls = self.calls.borrow();
        let call = calls.get(&number)?;
        Some(Failure::error(match &call.rejection {
            Some(why) => format!(
                "{} waits for a promise that nothing can settle any more; an error in it was \
                 never handled: {why}",
                call.what
            ),
            None => format!(
                "{} waits for a promise that nothing can settle any more (no timer, no request, \
                 no other work is pending)",
                call.what
            ),
        }))
    }

    /// Ends everything that waits.
    pub(crate) fn fail_all(&self, failure: &Failure) {
        let numbers: Vec<u64> = self.calls.borrow().keys().copied().collect();
        for number in numbers {
            self.finish(number, Err(failure.clone()));
        }
    }

    pub(crate) fn abort_all(&self) {
        for (_, operation) in std::mem::take(&mut *self.operations.borrow_mut()) {
            if let Some(task) = operation.abort {
                task.abort();
            }
        }
        self.timers.borrow_mut().clear();
        self.due.borrow_mut().clear();
    }

    pub(crate) fn cancel(&self, number: u64) {
        let words = "cancelled: the call's caller gave up";
        self.finish(number, Err(Failure::new(FailureKind::Cancelled, words)));
    }
}

/// Throws in JavaScript.
pub(crate) fn throw(ctx: &Ctx<'_>, raised: &Raised) -> rquickjs::Error {
    match raised.name {
        "Error" => Exception::throw_message(ctx, &raised.message),
        "TypeError" => Exception::throw_type(ctx, &raised.message),
        "RangeError" => Exception::throw_range(ctx, &raised.message),
        name => Exception::throw_dom(ctx, name, &raised.message),
    }
}
