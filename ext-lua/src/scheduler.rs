//! Runs coroutines: each for a slice, until it waits, yields or ends.

mod deadlines;
mod ending;
mod hook;
mod memory;
mod running;
mod task;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use futures::FutureExt as _;
use haft_api::panic_message;
use mlua::thread::ThreadStatus;
use mlua::{Function, LightUserData, Lua, MultiValue, Thread, Value, Variadic};
use rustc_hash::FxHashMap;
use tokio::sync::Notify;

use crate::failure::{Failure, FailureKind};
use crate::pulse::Pulse;

use deadlines::Deadlines;
pub(crate) use hook::QUANTUM;
use memory::Accounts;
pub(crate) use memory::MemoryLimits;
use running::{Running, Work};
pub(crate) use task::{
    Answer, Given, NewTask, OnEnd, Reply, Returned, Task, await_mark, preempt_mark,
};
use task::{State, Wake};

/// Most coroutines that are kept to be used again.
const POOL: usize = 512;

/// The coroutines of one state.
pub(crate) struct Scheduler {
    tasks: RefCell<FxHashMap<u64, Rc<Task>>>,
    /// Those of `tasks` whose coroutine a script has a reference to.
    by_thread: RefCell<FxHashMap<usize, u64>>,
    /// Coroutines that ended well and that no script has seen.
    pool: RefCell<Vec<Thread>>,
    ready: RefCell<VecDeque<(Rc<Task>, Wake)>>,
    deadlines: RefCell<Deadlines>,
    accounts: Accounts,
    yielded: Cell<usize>,
    current: RefCell<Option<Rc<Task>>>,
    next_id: Cell<u64>,
    slice_began: Cell<Instant>,
    quanta: Cell<u32>,
    closing: Cell<Option<Instant>>,
    /// A panic of the host that the running task may have caught.
    panic: RefCell<Option<String>>,
    wake: Notify,
    tools: Tools,
    pulse: Arc<Pulse>,
}

/// What a coroutine yields or returns, as far as anybody asks.
type Values = (Value, Value, Value);

/// What the prelude gives the scheduler.
pub(crate) struct Tools {
    pub(crate) xpcall: Function,
    pub(crate) on_error: Function,
    pub(crate) managed: mlua::Table,
}

impl Scheduler {
    pub(crate) fn new(tools: Tools, memory: MemoryLimits, pulse: Arc<Pulse>) -> Self {
        Self {
            tasks: RefCell::default(),
            by_thread: RefCell::default(),
            pool: RefCell::default(),
            accounts: Accounts::new(memory),
            ready: RefCell::default(),
            deadlines: RefCell::default(),
            yielded: Cell::new(0),
            current: RefCell::default(),
            next_id: Cell::new(1),
            slice_began: Cell::new(Instant::now()),
            quanta: Cell::new(0),
            closing: Cell::new(None),
            panic: RefCell::default(),
            wake: Notify::new(),
            tools,
            pulse,
        }
    }

    /// The task that runs.
    pub(crate) fn current(&self) -> Option<Rc<Task>> {
        self.current.borrow().clone()
    }

    /// Starts a coroutine; it runs when the scheduler next does. Returns its
    /// number.
    pub(crate) fn spawn(&self, lua: &Lua, new: NewTask) -> mlua::Result<u64> {
        let thread = self.coroutine(lua)?;
        let id = new.id.unwrap_or_else(|| {
            // Odd ones are the scheduler's own.
            self.next_id.replace(self.next_id.get() + 2)
        });
        let task = Rc::new(Task {
            id,
            what: new.what,
            script: new.script,
            call: new.call,
            thread,
            deadline: new.deadline,
            state: Cell::new(State::Ready),
            operation: Cell::new(0),
            running: RefCell::default(),
            early: RefCell::default(),
            exposed: Cell::new(false),
            hook_yields: RefCell::default(),
            doom: RefCell::default(),
            on_end: new.on_end,
        });
        if let Some(deadline) = task.deadline {
            self.deadlines.borrow_mut().add(deadline, id);
        }
        task.script.tasks.set(task.script.tasks.get() + 1);
        self.tasks.borrow_mut().insert(id, Rc::clone(&task));
        self.push(task, Wake::Start(new.function, new.arguments));
        Ok(id)
    }

    /// A coroutine that is ready to run a guarded function.
    fn coroutine(&self, lua: &Lua) -> mlua::Result<Thread> {
        let kept = self.pool.borrow_mut().pop();
        match kept {
            Some(thread) => {
                thread.reset(self.tools.xpcall.clone())?;
                Ok(thread)
            }
            None => {
                let thread = lua.create_thread(self.tools.xpcall.clone())?;
                self.tools.managed.raw_set(&thread, true)?;
                Ok(thread)
            }
        }
    }

    /// Keeps a coroutine that ended by itself, unless its script could still
    /// reach it.
    fn keep(&self, task: &Task) {
        let mut pool = self.pool.borrow_mut();
        if !task.exposed.get() && pool.len() < POOL {
            pool.push(task.thread.clone());
        }
    }

    /// The script of the task that runs gets a reference to its coroutine.
    pub(crate) fn expose(&self) {
        if let Some(task) = self.current.borrow().as_ref()
            && !task.exposed.replace(true)
        {
            let key = task.thread.to_pointer() as usize;
            self.by_thread.borrow_mut().insert(key, task.id);
        }
    }

    fn push(&self, task: Rc<Task>, wake: Wake) {
        task.state.set(State::Ready);
        let mut ready = self.ready.borrow_mut();
        ready.push_back((task, wake));
        if ready.len() == 1 {
            self.wake.notify_one();
        }
    }

    /// Resolves when there is something to run.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.ready.borrow().is_empty()
    }

    /// When the next deadline is.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let tasks = self.tasks.borrow();
        let mut deadlines = self.deadlines.borrow_mut();
        deadlines.next(|id| tasks.contains_key(&id))
    }

    /// Begins an operation of the task that runs; it is resumed with the
    /// answer.
    pub(crate) fn operate(
        self: &Rc<Self>,
        operation: impl Future<Output = Answer> + 'static,
    ) -> Result<(), String> {
        let task = self.current().ok_or("nothing runs that could wait")?;
        task.drop_operation();
        let (id, number) = (task.id, task.operation.get());
        let mut operation: Work = Box::pin(AssertUnwindSafe(operation).catch_unwind());
        // What is done already needs no task to wait for it.
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(answer) = operation.as_mut().poll(&mut context) {
            let answer = answer.unwrap_or_else(|panic| Err(self.note_panic(&*panic)));
            *task.early.borrow_mut() = Some(answer);
            return Ok(());
        }
        let scheduler = Rc::downgrade(self);
        let running = Running::start(operation, move |answer| {
            let Some(scheduler) = scheduler.upgrade() else {
                return;
            };
            let answer = answer.unwrap_or_else(|panic| {
                let text = panic_text(&*panic);
                scheduler.doom_waiting(id, number, &text);
                Err(text)
            });
            scheduler.answer(id, number, answer);
        });
        *task.running.borrow_mut() = Some(running);
        Ok(())
    }

    fn answer(&self, id: u64, number: u64, answer: Answer) {
        let Some(task) = self.tasks.borrow().get(&id).cloned() else {
            return;
        };
        if task.operation.get() == number && task.state.get() == State::Waiting {
            task.running.borrow_mut().take();
            self.push(task, Wake::Answer(answer));
        }
    }

    /// What a task waited for panicked: it can't end well.
    fn doom_waiting(&self, id: u64, number: u64, text: &str) {
        let tasks = self.tasks.borrow();
        if let Some(task) = tasks.get(&id).filter(|t| t.operation.get() == number) {
            let failure = Failure::new(FailureKind::Panic, text);
            task.doom.borrow_mut().get_or_insert(failure);
        }
    }

    /// Keeps a panic of the host, so that the running task can't end well, and
    /// returns the words for it.
    pub(crate) fn note_panic(&self, panic: &(dyn Any + Send)) -> String {
        let text = panic_text(panic);
        *self.panic.borrow_mut() = Some(text.clone());
        text
    }

    /// Drops what the host does for the task that runs.
    pub(crate) fn abandon_operation(&self) {
        if let Some(task) = self.current() {
            task.drop_operation();
        }
    }

    /// Whether this coroutine's yield was the hook's; asking forgets it.
    pub(crate) fn take_hook_yield(&self, coroutine: &Thread) -> bool {
        self.current()
            .is_some_and(|task| task.take_hook_yield(coroutine))
    }

    /// A script resumes a coroutine that the scheduler owns.
    pub(crate) fn resume_from_script(
        &self,
        thread: &Thread,
        values: MultiValue,
    ) -> Result<(), &'static str> {
        let key = thread.to_pointer() as usize;
        let id = self.by_thread.borrow().get(&key).copied();
        let task = id.and_then(|id| self.tasks.borrow().get(&id).cloned());
        let Some(task) = task else {
            return Err("cannot resume dead coroutine");
        };
        match task.state.get() {
            State::Yielded => {
                self.yielded.set(self.yielded.get() - 1);
                self.push(task, Wake::Values(values));
                Ok(())
            }
            State::Waiting => Err("cannot resume a coroutine that waits for the host"),
            State::Ready | State::Running => Err("cannot resume non-suspended coroutine"),
            State::Ended => Err("cannot resume dead coroutine"),
        }
    }

    /// Runs every task that is ready now, each for a slice at most.
    pub(crate) fn run(&self, lua: &Lua) {
        let mut left = self.ready.borrow().len();
        while left > 0 {
            left -= 1;
            let next = self.ready.borrow_mut().pop_front();
            let Some((task, wake)) = next else { break };
            if task.state.get() == State::Ready {
                self.run_one(lua, &task, wake);
            }
        }
    }

    fn run_one(&self, lua: &Lua, task: &Rc<Task>, wake: Wake) {
        if task.is_doomed() {
            self.close(lua, task);
            return;
        }
        let now = Instant::now();
        task.state.set(State::Running);
        *self.current.borrow_mut() = Some(Rc::clone(task));
        self.slice_began.set(now);
        self.quanta.set(0);
        self.pulse.enter(now);
        let resumed = self.limited(lua, &task.script, || match wake {
            Wake::Start(function, given) => {
                let on_error = &self.tools.on_error;
                match given {
                    Given::Call(first, second) => {
                        task.thread.resume((function, on_error, first, second))
                    }
                    Given::Any(values) => {
                        let all = (function, on_error, Variadic::from_iter(values));
                        task.thread.resume(all)
                    }
                }
            }
            Wake::Values(values) => task.thread.resume(values),
            Wake::Continue => task.thread.resume(()),
            Wake::Answer(Ok(reply)) => match reply(lua) {
                Ok(values) if values.is_empty() => task.thread.resume(true),
                Ok(mut values) => {
                    values.push_front(Value::Boolean(true));
                    task.thread.resume(values)
                }
                Err(error) => task
                    .thread
                    .resume((false, Failure::from_error(&error).message)),
            },
            Wake::Answer(Err(message)) => task.thread.resume((false, message)),
        });
        self.pulse.leave();
        *self.current.borrow_mut() = None;
        let panic = self.panic.borrow_mut().take();
        let values: Values = match resumed {
            Ok(values) => values,
            Err(error) => {
                let failure = self.explained(&task.script, Failure::from_error(&error));
                self.end(task, Err(failure));
                return;
            }
        };
        if let Some(text) = panic {
            task.doom
                .borrow_mut()
                .get_or_insert(Failure::new(FailureKind::Panic, text));
        }
        if task.thread.status() != ThreadStatus::Resumable {
            self.ended(lua, task, values);
        } else if task.is_doomed() {
            self.close(lua, task);
        } else {
            self.suspended(task, &values.0);
        }
    }

    fn ended(&self, lua: &Lua, task: &Rc<Task>, (ok, first, second): Values) {
        let doom = task.doom.borrow().clone();
        let ok = matches!(ok, Value::Boolean(true));
        let outcome = match doom {
            Some(doom) => Err(doom),
            None if ok => {
                self.keep(task);
                Ok((first, second))
            }
            None => {
                let failure = Failure::from_raised(lua, &first);
                Err(self.explained(&task.script, failure))
            }
        };
        self.end(task, outcome);
    }

    fn suspended(&self, task: &Rc<Task>, first: &Value) {
        let marked = |mark: LightUserData| matches!(first, Value::LightUserData(m) if *m == mark);
        if task.take_hook_yield(&task.thread) || marked(preempt_mark()) {
            self.push(Rc::clone(task), Wake::Continue);
        } else if marked(await_mark()) {
            let early = task.early.borrow_mut().take();
            match early {
                Some(answer) => self.push(Rc::clone(task), Wake::Answer(answer)),
                None => task.state.set(State::Waiting),
            }
        } else {
            task.state.set(State::Yielded);
            self.yielded.set(self.yielded.get() + 1);
        }
    }

    /// What the running task is to end with, if it is to end.
    pub(crate) fn doom_text(&self) -> Option<String> {
        let current = self.current.borrow();
        let doom = current.as_ref()?.doom.borrow();
        doom.as_ref().map(|failure| failure.message.clone())
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    format!("the host {}", panic_message(panic))
}
