//! Runs coroutines: each for a slice, until it waits, yields or ends.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ffi::c_void;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use haft_api::panic_message;
use mlua::thread::ThreadStatus;
use mlua::{Function, LightUserData, Lua, MultiValue, Thread, Value};
use tokio::sync::Notify;

use crate::call::CallFacts;
use crate::failure::{Failure, FailureKind};
use crate::pulse::Pulse;
use crate::script::Script;
use crate::yieldable::is_yieldable;

/// Instructions between two looks at the clock.
pub(crate) const QUANTUM: u32 = 5_000;
/// Fewest quanta before a coroutine has to let others run: shorter code is
/// never interrupted by its siblings.
const LEAST_QUANTA: u32 = 2;
/// How long a coroutine may run before it has to let others run.
const SLICE: Duration = Duration::from_micros(500);
/// How long to-be-closed variables of a coroutine that is ended may take.
const CLOSING: Duration = Duration::from_millis(20);

static AWAIT_MARK: u8 = 0;
static PREEMPT_MARK: u8 = 1;

fn mark(of: &'static u8) -> LightUserData {
    LightUserData(std::ptr::from_ref(of).cast_mut().cast::<c_void>())
}

/// What a coroutine yields while the host works for it.
pub(crate) fn await_mark() -> LightUserData {
    mark(&AWAIT_MARK)
}

/// What a coroutine yields whose inner coroutine's slice is over.
pub(crate) fn preempt_mark() -> LightUserData {
    mark(&PREEMPT_MARK)
}

/// Turns an operation's answer into Lua values.
pub(crate) type Reply = Box<dyn FnOnce(&Lua) -> mlua::Result<MultiValue>>;
/// What an operation answers; an error is a message for the script.
pub(crate) type Answer = Result<Reply, String>;
/// Takes a task's outcome: what its function returned.
pub(crate) type OnEnd = Box<dyn FnOnce(&Lua, Result<MultiValue, Failure>)>;

/// Whether a script's code could still be resumed, and by whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ready,
    Running,
    /// The host works for it.
    Waiting,
    /// It yielded by itself, and a script has to resume it.
    Yielded,
    Ended,
}

enum Wake {
    Start(MultiValue),
    Answer(Answer),
    /// From another coroutine of the script.
    Values(MultiValue),
    /// After a slice.
    Continue,
}

/// A coroutine that the scheduler owns.
pub(crate) struct Task {
    id: u64,
    /// What it is, for messages: "tool `x`", "a timer".
    pub(crate) what: String,
    pub(crate) script: Rc<Script>,
    pub(crate) call: Option<Rc<CallFacts>>,
    thread: Thread,
    deadline: Option<Instant>,
    state: Cell<State>,
    /// Counts operations, so that a late answer isn't taken for the next one's.
    operation: Cell<u64>,
    running: RefCell<Option<tokio::task::AbortHandle>>,
    doom: RefCell<Option<Failure>>,
    on_end: RefCell<Option<OnEnd>>,
}

impl Task {
    pub(crate) fn is_doomed(&self) -> bool {
        self.doom.borrow().is_some()
    }

    fn drop_operation(&self) {
        self.operation.set(self.operation.get() + 1);
        if let Some(running) = self.running.borrow_mut().take() {
            running.abort();
        }
    }
}

/// What a task is made of.
pub(crate) struct NewTask {
    pub(crate) what: String,
    pub(crate) script: Rc<Script>,
    pub(crate) call: Option<Rc<CallFacts>>,
    pub(crate) function: Function,
    pub(crate) arguments: MultiValue,
    pub(crate) deadline: Option<Instant>,
    pub(crate) on_end: OnEnd,
}

/// The coroutines of one state.
pub(crate) struct Scheduler {
    tasks: RefCell<HashMap<u64, Rc<Task>>>,
    by_thread: RefCell<HashMap<usize, u64>>,
    ready: RefCell<VecDeque<(Rc<Task>, Wake)>>,
    deadlines: RefCell<BTreeSet<(Instant, u64)>>,
    yielded: Cell<usize>,
    current: RefCell<Option<Rc<Task>>>,
    next_id: Cell<u64>,
    slice_began: Cell<Instant>,
    quanta: Cell<u32>,
    hook_yielded: Cell<bool>,
    closing: Cell<Option<Instant>>,
    /// A panic of the host that the running task may have caught.
    panic: RefCell<Option<String>>,
    wake: Notify,
    tools: Tools,
    pulse: Arc<Pulse>,
}

/// What the prelude gives the scheduler.
pub(crate) struct Tools {
    pub(crate) xpcall: Function,
    pub(crate) on_error: Function,
    pub(crate) managed: mlua::Table,
}

impl Scheduler {
    pub(crate) fn new(tools: Tools, pulse: Arc<Pulse>) -> Self {
        Self {
            tasks: RefCell::default(),
            by_thread: RefCell::default(),
            ready: RefCell::default(),
            deadlines: RefCell::default(),
            yielded: Cell::new(0),
            current: RefCell::default(),
            next_id: Cell::new(1),
            slice_began: Cell::new(Instant::now()),
            quanta: Cell::new(0),
            hook_yielded: Cell::new(false),
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
        let thread = lua.create_thread(self.tools.xpcall.clone())?;
        self.tools.managed.raw_set(&thread, true)?;
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        let mut arguments = new.arguments;
        arguments.push_front(Value::Function(self.tools.on_error.clone()));
        arguments.push_front(Value::Function(new.function));
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
            doom: RefCell::default(),
            on_end: RefCell::new(Some(new.on_end)),
        });
        let key = task.thread.to_pointer() as usize;
        self.by_thread.borrow_mut().insert(key, id);
        if let Some(deadline) = task.deadline {
            self.deadlines.borrow_mut().insert((deadline, id));
        }
        task.script.tasks.set(task.script.tasks.get() + 1);
        self.tasks.borrow_mut().insert(id, Rc::clone(&task));
        self.push(task, Wake::Start(arguments));
        Ok(id)
    }

    fn push(&self, task: Rc<Task>, wake: Wake) {
        task.state.set(State::Ready);
        self.ready.borrow_mut().push_back((task, wake));
        self.wake.notify_one();
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
        self.deadlines.borrow().first().map(|(at, _)| *at)
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
        let scheduler = Rc::downgrade(self);
        let handle = tokio::task::spawn_local(async move {
            let answer = AssertUnwindSafe(operation).catch_unwind().await;
            let Some(scheduler) = scheduler.upgrade() else {
                return;
            };
            let answer = answer.unwrap_or_else(|panic| Err(scheduler.note_panic(&*panic)));
            scheduler.answer(id, number, answer);
        });
        *task.running.borrow_mut() = Some(handle.abort_handle());
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

    /// Keeps a panic of the host, so that the running task can't end well, and
    /// returns the words for it.
    pub(crate) fn note_panic(&self, panic: &(dyn Any + Send)) -> String {
        let text = format!("the host {}", panic_message(panic));
        *self.panic.borrow_mut() = Some(text.clone());
        text
    }

    /// Drops what the host does for the task that runs.
    pub(crate) fn abandon_operation(&self) {
        if let Some(task) = self.current() {
            task.drop_operation();
        }
    }

    /// Whether the last yield was the hook's; asking forgets it.
    pub(crate) fn take_hook_yielded(&self) -> bool {
        self.hook_yielded.take()
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

    /// When nothing is ready: ends those that nothing can resume.
    pub(crate) fn settle(&self, lua: &Lua) {
        self.end_stranded(lua);
    }

    fn run_one(&self, lua: &Lua, task: &Rc<Task>, wake: Wake) {
        if task.is_doomed() {
            self.close(lua, task);
            return;
        }
        task.state.set(State::Running);
        *self.current.borrow_mut() = Some(Rc::clone(task));
        self.slice_began.set(Instant::now());
        self.quanta.set(0);
        self.hook_yielded.set(false);
        self.pulse.enter();
        let resumed = match wake {
            Wake::Start(values) | Wake::Values(values) => task.thread.resume(values),
            Wake::Continue => task.thread.resume(()),
            Wake::Answer(Ok(reply)) => match reply(lua) {
                Ok(mut values) => {
                    values.push_front(Value::Boolean(true));
                    task.thread.resume(values)
                }
                Err(error) => task
                    .thread
                    .resume((false, Failure::from_error(&error).message)),
            },
            Wake::Answer(Err(message)) => task.thread.resume((false, message)),
        };
        self.pulse.leave();
        *self.current.borrow_mut() = None;
        let panic = self.panic.borrow_mut().take();
        let values: MultiValue = match resumed {
            Ok(values) => values,
            Err(error) => {
                self.end(lua, task, Err(Failure::from_error(&error)));
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
            self.suspended(task, &values);
        }
    }

    fn ended(&self, lua: &Lua, task: &Rc<Task>, mut values: MultiValue) {
        let doom = task.doom.borrow().clone();
        let ok = matches!(values.pop_front(), Some(Value::Boolean(true)));
        let outcome = match doom {
            Some(doom) => Err(doom),
            None if ok => Ok(values),
            None => {
                let raised = values.pop_front().unwrap_or(Value::Nil);
                Err(Failure::from_raised(lua, &raised))
            }
        };
        self.end(lua, task, outcome);
    }

    fn suspended(&self, task: &Rc<Task>, values: &MultiValue) {
        let marked = |mark: LightUserData| {
            values.len() == 1
                && matches!(values.front(), Some(Value::LightUserData(m)) if *m == mark)
        };
        if self.hook_yielded.take() || marked(preempt_mark()) {
            self.push(Rc::clone(task), Wake::Continue);
        } else if marked(await_mark()) {
            task.state.set(State::Waiting);
        } else {
            task.state.set(State::Yielded);
            self.yielded.set(self.yielded.get() + 1);
        }
    }

    /// Ends tasks that yielded and that nothing can resume.
    fn end_stranded(&self, lua: &Lua) {
        if self.yielded.get() == 0 {
            return;
        }
        let tasks: Vec<_> = self.tasks.borrow().values().cloned().collect();
        let is_yielded = |task: &Rc<Task>| task.state.get() == State::Yielded;
        for task in tasks.iter().filter(|task| is_yielded(task)) {
            let alive = task.script.handles.get() > 0
                || tasks.iter().any(|other| {
                    Rc::ptr_eq(&other.script, &task.script)
                        && matches!(other.state.get(), State::Ready | State::Waiting)
                });
            if !alive {
                let words = "the coroutine yielded, and nothing is left that could resume it \
                             (no timer, process or connection of the extension is open)";
                self.doom(lua, task, Failure::error(words));
            }
        }
    }

    /// Whether some task's time is over.
    pub(crate) fn is_overdue(&self) -> bool {
        self.next_deadline().is_some_and(|at| at <= Instant::now())
    }

    /// Ends tasks whose time is over.
    pub(crate) fn enforce_deadlines(&self, lua: &Lua) {
        let now = Instant::now();
        loop {
            let due = match self.deadlines.borrow().first() {
                Some((at, id)) if *at <= now => *id,
                _ => return,
            };
            let task = self.tasks.borrow().get(&due).cloned();
            match task {
                Some(task) => {
                    let failure = self.overdue();
                    self.forget_deadline(&task);
                    self.doom(lua, &task, failure);
                }
                None => {
                    self.deadlines.borrow_mut().retain(|(_, id)| *id != due);
                }
            }
        }
    }

    fn overdue(&self) -> Failure {
        Failure::new(FailureKind::Deadline, "stopped: its time was over")
    }

    /// Ends a task: what the host does for it is dropped, its to-be-closed
    /// variables run.
    pub(crate) fn cancel(&self, lua: &Lua, id: u64, failure: Failure) {
        let task = self.tasks.borrow().get(&id).cloned();
        if let Some(task) = task {
            self.doom(lua, &task, failure);
        }
    }

    fn doom(&self, lua: &Lua, task: &Rc<Task>, failure: Failure) {
        task.doom.borrow_mut().get_or_insert(failure);
        match task.state.get() {
            // The hook sees to it.
            State::Running | State::Ended => {}
            State::Ready | State::Waiting | State::Yielded => self.close(lua, task),
        }
    }

    fn close(&self, lua: &Lua, task: &Rc<Task>) {
        task.drop_operation();
        *self.current.borrow_mut() = Some(Rc::clone(task));
        self.closing.set(Some(Instant::now() + CLOSING));
        self.pulse.enter();
        // Whatever a to-be-closed variable raises has nobody to go to; the
        // reason for the end stands already.
        task.thread.reset(self.tools.on_error.clone()).ok();
        self.pulse.leave();
        self.closing.set(None);
        *self.current.borrow_mut() = None;
        self.panic.borrow_mut().take();
        let doom = task.doom.borrow().clone();
        let failure = doom.unwrap_or_else(|| self.overdue());
        self.end(lua, task, Err(failure));
    }

    fn forget_deadline(&self, task: &Task) {
        if let Some(deadline) = task.deadline {
            self.deadlines.borrow_mut().remove(&(deadline, task.id));
        }
    }

    fn end(&self, lua: &Lua, task: &Rc<Task>, outcome: Result<MultiValue, Failure>) {
        if task.state.get() == State::Yielded {
            self.yielded.set(self.yielded.get() - 1);
        }
        if task.state.replace(State::Ended) == State::Ended {
            return;
        }
        task.drop_operation();
        self.forget_deadline(task);
        self.tasks.borrow_mut().remove(&task.id);
        let key = task.thread.to_pointer() as usize;
        self.by_thread.borrow_mut().remove(&key);
        task.script.tasks.set(task.script.tasks.get() - 1);
        let on_end = task.on_end.borrow_mut().take();
        if let Some(on_end) = on_end {
            on_end(lua, outcome);
        }
    }

    /// Ends everything a script has running.
    pub(crate) fn cancel_script(&self, lua: &Lua, script: &Rc<Script>, failure: &Failure) {
        let tasks: Vec<_> = self.tasks.borrow().values().cloned().collect();
        for task in tasks.iter().filter(|t| Rc::ptr_eq(&t.script, script)) {
            self.doom(lua, task, failure.clone());
        }
    }

    /// What the running task is to end with, if it is to end.
    pub(crate) fn doom_text(&self) -> Option<String> {
        let current = self.current.borrow();
        let doom = current.as_ref()?.doom.borrow();
        doom.as_ref().map(|failure| failure.message.clone())
    }

    /// What the hook does every [`QUANTUM`] instructions.
    pub(crate) fn tick(&self, lua: &Lua) -> mlua::Result<mlua::VmState> {
        let Some(task) = self.current() else {
            return Ok(mlua::VmState::Continue);
        };
        let now = Instant::now();
        if self.pulse.is_given_up() {
            let words = "the state was given up while this ran";
            task.doom
                .borrow_mut()
                .get_or_insert_with(|| Failure::new(FailureKind::Wedged, words));
        }
        if let Some(until) = self.closing.get() {
            return if now < until {
                Ok(mlua::VmState::Continue)
            } else {
                kill(lua, &task)
            };
        }
        if task.doom.borrow().is_none() && task.deadline.is_some_and(|deadline| deadline <= now) {
            *task.doom.borrow_mut() = Some({
                let mut failure = self.overdue();
                failure.trace = lua
                    .traceback(None, 0)
                    .ok()
                    .map(|trace| trace.to_string_lossy());
                failure
            });
        }
        let quanta = self.quanta.get() + 1;
        self.quanta.set(quanta);
        let over = quanta >= LEAST_QUANTA && now.duration_since(self.slice_began.get()) >= SLICE;
        let doomed = task.is_doomed();
        if !doomed && !over {
            return Ok(mlua::VmState::Continue);
        }
        if is_yieldable(&lua.current_thread()) {
            self.hook_yielded.set(true);
            return Ok(mlua::VmState::Yield);
        }
        if doomed {
            kill(lua, &task)
        } else {
            Ok(mlua::VmState::Continue)
        }
    }
}

/// Raises where the coroutine can't yield. From now on every instruction of it
/// does: a `pcall` around the loop would else go on for ever.
fn kill(lua: &Lua, task: &Rc<Task>) -> mlua::Result<mlua::VmState> {
    let words = match &*task.doom.borrow() {
        Some(failure) => failure.message.clone(),
        None => format!("{}: stopped while it was being closed", task.what),
    };
    let every = mlua::HookTriggers::new().every_nth_instruction(1);
    for thread in [&lua.current_thread(), &task.thread] {
        let scheduler = lua
            .app_data_ref::<std::rc::Weak<Scheduler>>()
            .map(|weak| weak.clone());
        thread.set_hook(every, move |lua, _| {
            match scheduler.as_ref().and_then(std::rc::Weak::upgrade) {
                Some(scheduler) => scheduler.tick(lua),
                None => Ok(mlua::VmState::Continue),
            }
        })?;
    }
    Err(mlua::Error::RuntimeError(words))
}
