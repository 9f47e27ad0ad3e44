//! The loop of a skill's thread.
//!
//! One macrotask at a time: a request, what an operation came to, a timer. Each
//! belongs to a call or to none; then all microtasks run. So whatever runs long
//! is known by the call that was being driven.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::time::{Duration, Instant};

use rquickjs::{Ctx, Value};

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
/// How many microtasks run between two looks at the clock.
const LOOK_EVERY: u32 = 32;
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
/// How many unhandled rejections of a turn are told of one by one.
const TOLD: usize = 8;

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
        self.turn(number, deadline, move |ctx, core| match entry {
            Entry::Load => load::load(ctx, core, &native, number),
            Entry::Lists => core.lists(ctx, number),
            Entry::Hook { name, arguments } => match core.hook(ctx, number, name, arguments)? {
                true => Ok(()),
                false => {
                    native.finish(number, Ok(Answer::Missing));
                    Ok(())
                }
            },
            Entry::Tool {
                name, arguments, ..
            } => core.tool(ctx, number, &name, arguments.get()),
            Entry::Command { name, text } => core.command(ctx, number, &name, &text),
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
            core.settle(ctx, operation, outcome, last)
        })
    }

    fn run_timers(&mut self) -> Turned {
        // Those that are set meanwhile have their turn later.
        let now = Instant::now();
        while let Some(due) = self.native.take_due(now) {
            let deadline = self.deadline_of(due.owner);
            self.turn(due.owner, deadline, move |ctx, core| {
                core.fire(ctx, due.timer, due.again)
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
            core.abort(ctx, number, operations, why)
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

    // Running code.

    /// A macrotask and its microtasks.
    ///
    /// # Errors
    /// If they can't be brought to an end.
    fn turn(
        &mut self,
        owner: u64,
        deadline: Instant,
        run: impl FnOnce(&Ctx<'_>, &Core) -> rquickjs::Result<()>,
    ) -> Turned {
        let began = Instant::now();
        let (vm, native) = (&self.vm, &self.native);
        native.current.set(owner);
        native.setup.supervisor.rouse();
        self.pulse.enter(deadline);
        vm.clock.begin(deadline);
        vm.put_off_collection();
        let core = &self.core;
        let thrown = vm.context.with(|ctx| match run(&ctx, core) {
            Ok(()) => None,
            Err(error) => Some(thrown::caught(&ctx, &error)),
        });
        let mut late = vm.clock.has_tripped();
        if !late {
            late = !self.run_microtasks();
        }
        if late {
            self.out_of_time(owner)?;
        } else if let Some(failure) = thrown {
            self.failed(owner, failure);
        }
        if self.native.ran_out_of_memory.take() {
            self.recover_memory()?;
        }
        self.pulse.leave();
        self.vm.clock.end();
        self.native.current.set(0);
        self.tell_rejections(owner)?;
        self.code_ran += began.elapsed();
        Ok(())
    }

    /// Runs microtasks until there are none, or the time is over.
    fn run_microtasks(&self) -> bool {
        let mut until_look = LOOK_EVERY;
        loop {
            match self.vm.runtime.execute_pending_job() {
                Ok(false) => return !self.vm.clock.has_tripped(),
                Ok(true) => {}
                // A microtask's error is its promise's; what arrives here is an
                // interrupt, or memory that is used up.
                Err(error) => {
                    let context = error.0;
                    context.with(|ctx| drop(ctx.catch()));
                }
            }
            if self.vm.clock.has_tripped() {
                return false;
            }
            until_look -= 1;
            if until_look == 0 {
                until_look = LOOK_EVERY;
                if self.vm.clock.is_over() {
                    return false;
                }
            }
        }
    }

    /// Ends the call that was being driven; what waits in the queue, its own
    /// and others', has a short time to end.
    fn out_of_time(&mut self, owner: u64) -> Turned {
        let what = self.what(owner);
        let failure = Failure::deadline(&what);
        if self.native.is_live(owner) {
            self.native.finish(owner, Err(failure));
        } else {
            self.native.log(Level::Error, &failure.to_string());
        }
        let operations = self.native.abandon(owner);
        self.native.winding_up.set(true);
        self.vm.clock.begin(Instant::now() + GRACE);
        let core = &self.core;
        self.vm.context.with(|ctx| {
            let aborted = core.abort(&ctx, owner, operations, "the call's time was over");
            if let Err(error) = aborted {
                let failure = thrown::caught(&ctx, &error);
                self.native.log(Level::Warn, &failure.to_string());
            }
        });
        let ended = self.run_microtasks();
        self.native.winding_up.set(false);
        match ended {
            true => Ok(()),
            false => Err(format!(
                "{what} went on after its time was over and couldn't be interrupted"
            )),
        }
    }

    /// A macrotask threw.
    fn failed(&self, owner: u64, failure: Failure) {
        if self.native.is_live(owner) {
            self.native.finish(owner, Err(failure));
            return;
        }
        let words = format!("an error in a callback: {failure}");
        self.native.log(Level::Error, &words);
        self.report(owner, "error", &failure);
        if failure.short_of_memory {
            self.native.ran_out_of_memory.set(true);
        }
    }

    /// Gives back what nothing holds any more.
    ///
    /// # Errors
    /// If the skill's own data fills its memory.
    fn recover_memory(&self) -> Turned {
        self.vm.runtime.run_gc();
        match self.vm.is_full() {
            true => Err("its memory is used up by what it keeps".to_owned()),
            false => Ok(()),
        }
    }

    /// Tells of rejections that nobody handled.
    fn tell_rejections(&mut self, owner: u64) -> Turned {
        let (rejections, more) = self.vm.rejections.take();
        if rejections.is_empty() {
            return Ok(());
        }
        let failures: Vec<Failure> = self.vm.context.with(|ctx| {
            let reasons = rejections.into_iter().filter_map(|rejection| {
                let reason: Value<'_> = rejection.reason.restore(&ctx).ok()?;
                Some(thrown::from_value(&ctx, &reason))
            });
            reasons.collect()
        });
        if let Some(call) = self.native.calls.borrow_mut().get_mut(&owner) {
            call.rejection = failures.first().map(ToString::to_string);
        }
        for failure in failures.iter().take(TOLD) {
            let words = format!("an unhandled rejection: {failure}");
            self.native.log(Level::Error, &words);
            self.report(owner, "unhandledrejection", failure);
        }
        let rest = failures.len().saturating_sub(TOLD) + more;
        if rest > 0 {
            let words = format!("{rest} more unhandled rejections");
            self.native.log(Level::Error, &words);
        }
        Ok(())
    }

    /// Has `onError` called in a turn of its own.
    fn report(&self, owner: u64, kind: &str, failure: &Failure) {
        if owner & OF_ON_ERROR != 0 {
            return;
        }
        let arguments = serde_json::json!([{
            "type": kind,
            "message": failure.message,
            "source": failure.stack.as_deref().unwrap_or_default(),
            "recoverable": true,
        }]);
        self.native.report(arguments.to_string());
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
