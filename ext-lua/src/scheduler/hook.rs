//! The count hook: how a coroutine that doesn't wait lets others run, and how
//! one is stopped.

use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use mlua::Lua;

use super::Scheduler;
use super::task::Task;
use crate::failure::{Failure, FailureKind};
use crate::yieldable::is_yieldable;

/// Instructions between two looks at the clock.
pub(crate) const QUANTUM: u32 = 10_000;
/// Fewest looks before a coroutine has to let others run, the first of which may
/// come at once: shorter code is never interrupted by its siblings.
const LEAST_QUANTA: u32 = 2;
/// How long a coroutine may run before it has to let others run.
const SLICE: Duration = Duration::from_micros(500);

impl Scheduler {
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
        let running = lua.current_thread();
        if is_yieldable(&running) {
            task.hook_yields(&running);
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
            .app_data_ref::<Weak<Scheduler>>()
            .map(|weak| weak.clone());
        thread.set_hook(every, move |lua, _| {
            match scheduler.as_ref().and_then(Weak::upgrade) {
                Some(scheduler) => scheduler.tick(lua),
                None => Ok(mlua::VmState::Continue),
            }
        })?;
    }
    Err(mlua::Error::RuntimeError(words))
}
