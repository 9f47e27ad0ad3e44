//! What memory the state and each extension may use.
//!
//! Lua's allocator knows one limit. It holds while a script runs, and not while
//! the host's own code does, whose needs are bounded by what it was given. What
//! a slice adds is put down to the script that ran; the collector may free what
//! another one left, so an extension's figure is an estimate, and their sum is
//! not.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Instant;

use mlua::Lua;

use super::Scheduler;
use crate::failure::{Failure, FailureKind};
use crate::script::Script;

/// What a script may leave behind before the collector runs on its account.
const LEFT_BEHIND: usize = 4 * 1024 * 1024;

/// A script is short of memory with less room than this part of its limit.
const SHORT: usize = 4;
/// How many times as long as a full collection took nothing is collected in full.
const COLLECTING: u32 = 10;

/// Limits, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryLimits {
    /// Of the state.
    pub(crate) state: usize,
    /// Of an extension, once the state is half full.
    pub(crate) extension: usize,
}

impl MemoryLimits {
    /// Those of an extension.
    fn of(self, script: &Script) -> Self {
        let extension = script.limits.all.extension_memory_mib;
        Self {
            extension: extension.saturating_mul(1024 * 1024),
            ..self
        }
    }

    /// What the state may hold at the end of a slice of a script that holds so
    /// much.
    fn during(&self, used: usize, held: usize) -> usize {
        let own = used + self.extension.saturating_sub(held);
        // While there is plenty nobody has to be frugal.
        self.state.min(own.max(self.state / 2)).max(1)
    }
}

/// Who holds what.
pub(super) struct Accounts {
    limits: MemoryLimits,
    last: RefCell<Weak<Script>>,
    /// What the last script has added since another one ran.
    added: Cell<usize>,
    /// When a full collection is due again: the scheduler's own, and one that a
    /// script asks for. Neither makes the other wait.
    own_due: Cell<Option<Instant>>,
    asked_due: Cell<Option<Instant>>,
}

impl Accounts {
    pub(super) fn new(limits: MemoryLimits) -> Self {
        Self {
            limits,
            last: RefCell::default(),
            added: Cell::new(0),
            own_due: Cell::new(None),
            asked_due: Cell::new(None),
        }
    }
}

impl Scheduler {
    /// Runs a script's code under its limits.
    pub(super) fn limited<T>(&self, lua: &Lua, script: &Rc<Script>, run: impl FnOnce() -> T) -> T {
        let limits = self.accounts.limits.of(script);
        let mut used = lua.used_memory();
        let mut limit = limits.during(used, script.memory.get());
        if limit.saturating_sub(used) < limits.extension / SHORT {
            collect(lua, &self.accounts.own_due);
            put_down(script, used, lua.used_memory());
            used = lua.used_memory();
            limit = limits.during(used, script.memory.get());
        }
        self.charged(lua, script, || {
            // Only a state that isn't our own could refuse.
            lua.set_memory_limit(limit).ok();
            let outcome = run();
            lua.set_memory_limit(0).ok();
            outcome
        })
    }

    /// A script asks for a collection: a full one if memory is short, for what it
    /// has just let go may be old, and only then is it worth the time.
    pub(crate) fn collect_asked(&self, lua: &Lua) {
        if lua.used_memory() > self.accounts.limits.state / 2 {
            collect(lua, &self.accounts.asked_due);
        }
    }

    /// Puts what the host makes for a script down to it.
    pub(crate) fn charged<T>(&self, lua: &Lua, script: &Rc<Script>, run: impl FnOnce() -> T) -> T {
        let accounts = &self.accounts;
        let same = std::ptr::eq(accounts.last.borrow().as_ptr(), Rc::as_ptr(script));
        if !same {
            if accounts.added.replace(0) > LEFT_BEHIND
                && let Some(last) = accounts.last.borrow().upgrade()
            {
                let before = lua.used_memory();
                lua.gc_step().ok();
                put_down(&last, before, lua.used_memory());
            }
            *accounts.last.borrow_mut() = Rc::downgrade(script);
        }
        let before = lua.used_memory();
        let outcome = run();
        let after = lua.used_memory();
        put_down(script, before, after);
        accounts
            .added
            .set(accounts.added.get() + after.saturating_sub(before));
        outcome
    }

    /// A failure for want of memory says who holds how much.
    pub(super) fn explained(&self, script: &Script, mut failure: Failure) -> Failure {
        if failure.kind == FailureKind::Memory {
            let mib = |bytes: usize| bytes.div_ceil(1024 * 1024);
            failure.message = format!(
                "{} (the extension `{}` held about {} MiB before it; one may hold {}, all together {})",
                failure.message,
                script.name(),
                mib(script.memory.get()),
                mib(self.accounts.limits.of(script).extension),
                mib(self.accounts.limits.state),
            );
        }
        failure
    }
}

/// Frees all that is garbage, unless that was done just now. Lua does so itself
/// when an allocation fails, but not for the buffers that its string functions
/// build in.
fn collect(lua: &Lua, due: &Cell<Option<Instant>>) {
    let began = Instant::now();
    if due.get().is_some_and(|due| began < due) {
        return;
    }
    lua.gc_collect().ok();
    let ended = Instant::now();
    due.set(Some(ended + COLLECTING * ended.duration_since(began)));
}

fn put_down(script: &Script, before: usize, after: usize) {
    let held = (script.memory.get() + after).saturating_sub(before);
    script.memory.set(held);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extension_is_held_to_its_own_limit_once_memory_is_short() {
        let limits = MemoryLimits {
            state: 100,
            extension: 60,
        };
        let check = |used: usize, held: usize, limit: usize| {
            assert_eq!(limits.during(used, held), limit, "{used} {held}");
        };
        check(10, 10, 60);
        check(10, 0, 70);
        check(10, 60, 50);
        check(70, 60, 70);
        check(70, 40, 90);
        check(90, 0, 100);
        check(90, 70, 90);
    }
}
