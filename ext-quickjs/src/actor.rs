//! The loop of a skill's thread.
//!
//! One macrotask at a time: a request, what an operation came to, a timer. Each
//! belongs to a call or to none; then all microtasks run. So whatever runs long
//! is known by the call that was being driven.

mod running;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::time::{Duration, Instant};

use self::running::answer;
use crate::core::Core;
use crate::failure::{Failure, FailureKind};
use crate::native::{Call, Native, What};
use crate::pulse::Pulse;
use crate::vm::Vm;
use crate::worker::{Answer, Completion, Entry, Message, Reply, Request, Setup};
use crate::{load, thrown};
use haft_script_host::{Level, look_again};

/// How long code that was interrupted, and what it left behind, may wind up.
const GRACE: Duration = Duration::from_millis(50);
/// How many messages are taken before timers have their turn.
const MESSAGES: usize = 64;
/// The longest sleep: a clock that was set is noticed then.
const SLEEP: Duration = Duration::from_secs(3600);
/// How much code runs before its garbage is looked for.
const COLLECT_AFTER: Duration = Duration::from_millis(20);
/// Numbers of calls that the loop makes itself; those from outside count up
/// from one. JavaScript can say them all.
const OWN_CALLS: u64 = 1 << 50;
/// The mark of a call of `onError`: its own errors are logged alone.
const OF_ON_ERROR: u64 = 1 << 51;

/// Runs a skill until it is stopped.
///
/// # Errors
/// Why its runtime had to be given up.
pub(crate) fn run(
    setup: Setup,
    say: Sender<Message>,
    hear: &Receiver<Message>,
    pulse: Arc<Pulse>,
    touched: Arc<AtomicBool>,
) -> Result<(), String> {
    let limits = &setup.settings.limits;
    let manifest = &setup.package.manifest;
    let memory = manifest.memory_limit_mb.min(limits.memory_mib) * 1024 * 1024;
    let vm = Vm::new(memory, limits.stack_kib * 1024, Arc::clone(&pulse))
        .map_err(|e| format!("a runtime can't be made: {e}"))?;
    let native = Native::new(setup, say)?;
    let core = vm
        .context
        .with(|ctx| Core::new(&ctx, &native).map_err(|e| thrown::caught(&ctx, &e).to_string()))?;
    load::equip(&vm, &native);
    let mut actor = Actor {
        core,
        native,
        vm,
        pulse,
        touched,
        own_calls: OWN_CALLS,
        code_ran: Duration::ZERO,
        last_collection: Duration::ZERO,
        stopping: None,
    };
    let ended = actor.work(hear);
    let failure = match &ended {
        Ok(()) => Failure::stopped(actor.native.setup.id()),
        Err(words) => Failure::new(FailureKind::Wedged, restarted(words)),
    };
    actor.native.fail_all(&failure);
    actor.native.abort_all();
    actor.native.publish();
    ended
}

/// What calls are told whose runtime was given up.
pub(crate) fn restarted(words: &str) -> String {
    format!("the skill's runtime was given up and is started anew: {words}")
}

struct Actor {
    core: Core,
    native: Rc<Native>,
    vm: Vm,
    pulse: Arc<Pulse>,
    touched: Arc<AtomicBool>,
    own_calls: u64,
    code_ran: Duration,
    last_collection: Duration,
    /// The call of `stop`, once it was asked for.
    stopping: Option<u64>,
}

type Turned = Result<(), String>;

impl Actor {
    fn work(&mut self, hear: &Receiver<Message>) -> Turned {
        // Whoever asked something is likely to ask something more.
        let mut expects = false;
        loop {
            let mut quiet = false;
            for _ in 0..MESSAGES {
                match hear.try_recv() {
                    Ok(message) => {
                        expects |= matches!(message, Message::Requests(_));
                        self.take(message)?;
                    }
                    Err(TryRecvError::Empty | TryRecvError::Disconnected) => {
                        quiet = true;
                        break;
                    }
                }
            }
            self.run_timers()?;
            self.run_cron()?;
            self.enforce_deadlines()?;
            self.run_reports()?;
            if self.pulse.is_given_up() || self.has_stopped() {
                return Ok(());
            }
            self.native.publish();
            if !quiet {
                continue;
            }
            self.collect();
            let wait = match self.native.next_wake() {
                Some(at) => at.saturating_duration_since(Instant::now()).min(SLEEP),
                None => SLEEP,
            };
            if wait.is_zero() {
                continue;
            }
            if !self.native.is_waiting() && !self.native.calls.borrow().is_empty() {
                match hear.try_recv() {
                    Ok(message) => self.take(message)?,
                    Err(_) => self.break_deadlock()?,
                }
                continue;
            }
            if std::mem::take(&mut expects)
                && let Some(message) = look_again(|| hear.try_recv().ok())
            {
                expects = matches!(message, Message::Requests(_));
                self.take(message)?;
                continue;
            }
            match hear.recv_timeout(wait) {
                Ok(message) => {
                    expects = matches!(message, Message::Requests(_));
                    self.take(message)?;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    fn has_stopped(&self) -> bool {
        self.stopping.is_some_and(|call| !self.native.is_live(call))
    }

    fn take(&mut self, message: Message) -> Turned {
        match message {
            Message::Requests(requests) => {
                for request in requests {
                    self.request(request)?;
                }
                Ok(())
            }
            Message::Cancel(numbers) => {
                for number in numbers {
                    if self.native.is_live(number) {
                        self.native.cancel(number);
                        self.wind_up(number, "the call was cancelled")?;
                    }
                }
                Ok(())
            }
            Message::Operation(completion) => self.settle(completion),
            Message::Stop => self.stop(),
        }
    }

    // Ways in.

    fn request(&mut self, request: Request) -> Turned {
        let Request {
            number,
            entry,
            deadline,
            reply,
        } = request;
        if self.stopping.is_some() {
            reply(Err(Failure::stopped(self.native.setup.id())));
            return Ok(());
        }
        let (what, facts) = match &entry {
            Entry::Load => (What::Load, None),
            Entry::Lists => (What::Lists, None),
            Entry::Hook { name, .. } => (What::Hook(name), None),
            Entry::Tool { name, facts, .. } => (What::Tool(name.clone()), facts.clone()),
            Entry::Command { name, .. } => (What::Command(name.clone()), None),
        };
        if !matches!(entry, Entry::Lists) {
            self.touched.store(true, Ordering::Relaxed);
        }
        let call = Call {
            what,
            deadline,
            reply,
            facts,
            rejection: None,
        };
        self.native.admit(number, call);
        let native = Rc::clone(&self.native);
        self.turn(number, deadline, move |ctx, core| {
            match entry {
                Entry::Load => load::load(ctx, core, &native, number)?,
                Entry::Lists => core.lists(ctx, number)?,
                Entry::Hook { name, arguments } => {
                    if !core.hook(ctx, number, name, arguments)? {
                        native.finish(number, Ok(Answer::Missing));
                    }
                }
                Entry::Tool {
                    name, arguments, ..
                } => {
                    let value = core.tool(ctx, number, &name, arguments.get())?;
                    return answer(ctx, core, &native, number, value);
                }
                Entry::Command { name, text } => core.command(ctx, number, &name, &text)?,
            }
            Ok(None)
        })
    }

    /// Calls a hook from within; what it answers is nobody's concern, but an
    /// error is told of.
    fn own_hook(&mut self, name: &'static str, arguments: String, limit: Duration) -> Turned {
        let mark = if name == "onError" { OF_ON_ERROR } else { 0 };
        let number = self.own_number() | mark;
        let reply = self.own_reply(name);
        self.request(Request {
            number,
            entry: Entry::Hook { name, arguments },
            deadline: Instant::now() + limit,
            reply,
        })
    }

    fn own_number(&mut self) -> u64 {
        self.own_calls += 1;
        self.own_calls
    }

    fn own_reply(&self, name: &'static str) -> Reply {
        let (log, skill) = (
            Arc::clone(&self.native.setup.log),
            self.native.setup.id().to_owned(),
        );
        Box::new(move |outcome| {
            if let Err(failure) = outcome
                && failure.kind != FailureKind::Stopped
            {
                log.log(&skill, Level::Error, &format!("`{name}` failed: {failure}"));
            }
        })
    }

    fn stop(&mut self) -> Turned {
        if self.stopping.is_some() {
            return Ok(());
        }
        let failure = Failure::stopped(self.native.setup.id());
        self.native.fail_all(&failure);
        let number = self.own_number();
        let limit = self.native.setup.settings.limits.stop();
        self.request(Request {
            number,
            entry: Entry::Hook {
                name: "stop",
                arguments: "[]".to_owned(),
            },
            deadline: Instant::now() + limit,
            reply: self.own_reply("stop"),
        })?;
        self.stopping = Some(number);
        Ok(())
    }

    // What comes by itself.

    fn settle(&mut self, completion: Completion) -> Turned {
        let Completion {
            operation,
            outcome,
            last,
            room,
        } = completion;
        let Some(owner) = self.native.heard(operation, last) else {
            return Ok(());
        };
        drop(room);
        let deadline = self.deadline_of(owner);
        self.turn(owner, deadline, move |ctx, core| {
            core.settle(ctx, operation, outcome, last).map(|()| None)
        })
    }

    fn run_timers(&mut self) -> Turned {
        // Those that are set meanwhile have their turn later.
        let now = Instant::now();
        while let Some(due) = self.native.take_due(now) {
            let deadline = self.deadline_of(due.owner);
            self.turn(due.owner, deadline, move |ctx, core| {
                core.fire(ctx, due.timer, due.again).map(|()| None)
            })?;
        }
        Ok(())
    }

    fn run_cron(&mut self) -> Turned {
        let due = self.native.cron.borrow_mut().take_due();
        for id in due {
            let arguments = serde_json::json!([id]).to_string();
            let limit = self.native.setup.settings.limits.hook();
            self.own_hook("onCronTrigger", arguments, limit)?;
        }
        Ok(())
    }

    /// Calls `onError` for what is to be told of. Errors of it are logged alone.
    fn run_reports(&mut self) -> Turned {
        for arguments in self.native.take_reports() {
            if self.stopping.is_none() {
                let limit = self.native.setup.settings.limits.callback();
                self.own_hook("onError", arguments, limit)?;
            }
        }
        Ok(())
    }

    /// When what a call began has to end: with it, or in a callback's time once
    /// it has ended.
    fn deadline_of(&self, owner: u64) -> Instant {
        let callback = Instant::now() + self.native.setup.settings.limits.callback();
        let calls = self.native.calls.borrow();
        calls.get(&owner).map_or(callback, |call| call.deadline)
    }

    fn enforce_deadlines(&mut self) -> Turned {
        for number in self.native.overdue(Instant::now()) {
            let what = self.what(number);
            self.native.finish(number, Err(Failure::deadline(&what)));
            self.wind_up(number, "the call's time was over")?;
        }
        Ok(())
    }

    fn break_deadlock(&mut self) -> Turned {
        let numbers: Vec<u64> = self.native.calls.borrow().keys().copied().collect();
        for number in numbers {
            if let Some(failure) = self.native.deadlock(number) {
                self.native.finish(number, Err(failure));
            }
        }
        Ok(())
    }

    /// Drops what an ended call waits for, so that its code can clean up.
    fn wind_up(&mut self, number: u64, why: &'static str) -> Turned {
        let operations = self.native.abandon(number);
        self.native.winding_up.set(true);
        let deadline = Instant::now() + GRACE;
        let turned = self.turn(number, deadline, move |ctx, core| {
            core.abort(ctx, number, operations, why).map(|()| None)
        });
        self.native.winding_up.set(false);
        turned
    }

    fn what(&self, number: u64) -> String {
        let calls = self.native.calls.borrow();
        calls
            .get(&number)
            .map_or_else(|| "a callback".to_owned(), |call| call.what.to_string())
    }

    // Between turns.

    /// Looks for garbage that holds itself, when enough code ran to have left
    /// some: it takes a small share of that time.
    fn collect(&mut self) {
        if self.code_ran > COLLECT_AFTER.max(self.last_collection * 20) {
            let began = Instant::now();
            self.vm.runtime.run_gc();
            self.last_collection = began.elapsed();
            self.code_ran = Duration::ZERO;
        }
    }
}
