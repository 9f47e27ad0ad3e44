//! What the scheduler runs, and what it is resumed with.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::rc::Rc;
use std::time::Instant;

use mlua::{Function, LightUserData, Lua, MultiValue, Thread, Value};

use super::running::Running;
use crate::call::CallFacts;
use crate::failure::Failure;
use crate::script::Script;

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
/// Takes a task's outcome, once: what its function returned.
pub(crate) type OnEnd = Rc<dyn Fn(&Task, Result<Returned, Failure>)>;
/// The first values that a function returned; nobody asks for more of them.
pub(crate) type Returned = (Value, Value);

/// Whether a script's code could still be resumed, and by whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    Running,
    /// The host works for it.
    Waiting,
    /// It yielded by itself, and a script has to resume it.
    Yielded,
    Ended,
}

pub(super) enum Wake {
    Start(Function, Given),
    Answer(Answer),
    /// From another coroutine of the script.
    Values(MultiValue),
    /// After a slice.
    Continue,
}

/// What a function is called with.
pub(crate) enum Given {
    /// A call's arguments and its context.
    Call(Value, Value),
    Any(MultiValue),
}

/// A coroutine that the scheduler owns.
pub(crate) struct Task {
    pub(super) id: u64,
    /// What it is, for messages: "tool `x`", "a timer".
    pub(crate) what: Rc<str>,
    pub(crate) script: Rc<Script>,
    pub(crate) call: Option<Rc<CallFacts>>,
    pub(super) thread: Thread,
    pub(super) deadline: Option<Instant>,
    pub(super) state: Cell<State>,
    /// Counts operations, so that a late answer isn't taken for the next one's.
    pub(super) operation: Cell<u64>,
    pub(super) running: RefCell<Option<Running>>,
    /// What was answered before the task could wait for it.
    pub(super) early: RefCell<Option<Answer>>,
    /// Whether its script has a reference to its coroutine.
    pub(super) exposed: Cell<bool>,
    /// The coroutines that the hook made to yield, and whose resumers haven't
    /// seen it yet: before one does, its own slice may be over, too.
    pub(super) hook_yields: RefCell<Vec<*const c_void>>,
    pub(super) doom: RefCell<Option<Failure>>,
    pub(super) on_end: OnEnd,
}

impl Task {
    /// Takes note that the hook makes a coroutine yield.
    pub(super) fn hook_yields(&self, coroutine: &Thread) {
        let coroutine = coroutine.to_pointer();
        let mut all = self.hook_yields.borrow_mut();
        if !all.contains(&coroutine) {
            all.push(coroutine);
        }
    }

    /// Whether a coroutine's yield was the hook's; asking forgets it.
    pub(super) fn take_hook_yield(&self, coroutine: &Thread) -> bool {
        let coroutine = coroutine.to_pointer();
        let mut all = self.hook_yields.borrow_mut();
        let at = all.iter().position(|noted| *noted == coroutine);
        at.map(|at| all.swap_remove(at)).is_some()
    }

    pub(crate) fn is_doomed(&self) -> bool {
        self.doom.borrow().is_some()
    }

    pub(super) fn drop_operation(&self) {
        self.operation.set(self.operation.get() + 1);
        self.early.borrow_mut().take();
        let running = self.running.borrow_mut().take();
        if let Some(running) = running {
            running.end();
        }
    }
}

/// What a task is made of.
pub(crate) struct NewTask {
    /// Its number, for who may have to cancel it; even ones are callers'.
    pub(crate) id: Option<u64>,
    pub(crate) what: Rc<str>,
    pub(crate) script: Rc<Script>,
    pub(crate) call: Option<Rc<CallFacts>>,
    pub(crate) function: Function,
    pub(crate) arguments: Given,
    pub(crate) deadline: Option<Instant>,
    pub(crate) on_end: OnEnd,
}
