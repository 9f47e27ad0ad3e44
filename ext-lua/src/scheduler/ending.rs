//! How tasks end before they return: deadlines, cancelling, and nobody left to
//! resume them.

use std::rc::Rc;
use std::time::{Duration, Instant};

use mlua::Lua;

use super::Scheduler;
use super::task::{Returned, State, Task};
use crate::failure::{Failure, FailureKind};
use crate::script::Script;

/// How long to-be-closed variables of a coroutine that is ended may take.
const CLOSING: Duration = Duration::from_millis(20);

impl Scheduler {
    /// When nothing is ready: ends tasks that yielded and that nothing can
    /// resume.
    pub(crate) fn settle(&self, lua: &Lua) {
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
            let due = self.deadlines.borrow_mut().take_due(now);
            let Some(id) = due else { return };
            let task = self.tasks.borrow().get(&id).cloned();
            if let Some(task) = task {
                let failure = self.overdue();
                self.doom(lua, &task, failure);
            }
        }
    }

    pub(super) fn overdue(&self) -> Failure {
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

    pub(super) fn close(&self, lua: &Lua, task: &Rc<Task>) {
        task.drop_operation();
        *self.current.borrow_mut() = Some(Rc::clone(task));
        self.closing.set(Some(Instant::now() + CLOSING));
        self.pulse.enter(Instant::now());
        // Whatever a to-be-closed variable raises has nobody to go to; the
        // reason for the end stands already.
        self.limited(lua, &task.script, || {
            task.thread.reset(self.tools.on_error.clone()).ok();
        });
        self.pulse.leave();
        self.closing.set(None);
        *self.current.borrow_mut() = None;
        self.panic.borrow_mut().take();
        let doom = task.doom.borrow().clone();
        let failure = doom.unwrap_or_else(|| self.overdue());
        self.end(task, Err(failure));
    }

    pub(super) fn end(&self, task: &Rc<Task>, outcome: Result<Returned, Failure>) {
        if task.state.get() == State::Yielded {
            self.yielded.set(self.yielded.get() - 1);
        }
        if task.state.replace(State::Ended) == State::Ended {
            return;
        }
        task.drop_operation();
        self.tasks.borrow_mut().remove(&task.id);
        if task.exposed.get() {
            let key = task.thread.to_pointer() as usize;
            self.by_thread.borrow_mut().remove(&key);
        }
        task.script.tasks.set(task.script.tasks.get() - 1);
        (task.on_end)(task, outcome);
    }

    /// Ends everything a script has running.
    pub(crate) fn cancel_script(&self, lua: &Lua, script: &Rc<Script>, failure: &Failure) {
        let tasks: Vec<_> = self.tasks.borrow().values().cloned().collect();
        for task in tasks.iter().filter(|t| Rc::ptr_eq(&t.script, script)) {
            self.doom(lua, task, failure.clone());
        }
    }
}
