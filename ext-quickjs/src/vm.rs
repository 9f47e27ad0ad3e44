//! A JavaScript runtime with its limits: memory, stack, time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use rquickjs::runtime::RejectionTracker;
use rquickjs::{Context, Ctx, Persistent, Runtime, Value};

use crate::pulse::Pulse;

/// When the code that runs now must have ended.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    deadline: Cell<Option<Instant>>,
    tripped: Cell<bool>,
}

impl Clock {
    /// Code begins to run that has to end by then.
    pub(crate) fn begin(&self, deadline: Instant) {
        self.deadline.set(Some(deadline));
        self.tripped.set(false);
    }

    /// Nothing runs any more.
    pub(crate) fn end(&self) {
        self.deadline.set(None);
    }

    /// Whether the code's time is over.
    pub(crate) fn is_over(&self) -> bool {
        self.deadline.get().is_some_and(|at| Instant::now() >= at)
    }

    pub(crate) fn trip(&self) {
        self.tripped.set(true);
    }

    /// Whether code was interrupted, or should have ended.
    pub(crate) fn has_tripped(&self) -> bool {
        self.tripped.get()
    }
}

/// A rejection that nobody has handled so far.
pub(crate) struct Rejection {
    promise: Persistent<Value<'static>>,
    pub(crate) reason: Persistent<Value<'static>>,
}

/// Most rejections that are kept until they are told of.
const REJECTIONS: usize = 64;

/// Rejections that nobody has handled, of the current macrotask.
#[derive(Default)]
pub(crate) struct Rejections {
    kept: RefCell<Vec<Rejection>>,
    /// How many more there were.
    more: Cell<usize>,
}

impl Rejections {
    /// Somebody has handled a promise after all.
    pub(crate) fn handled<'js>(&self, ctx: &Ctx<'js>, promise: &Value<'js>) {
        let mut kept = self.kept.borrow_mut();
        let same = |one: &Rejection| {
            let kept = one.promise.clone().restore(ctx);
            kept.is_ok_and(|kept| kept == *promise)
        };
        match kept.iter().position(same) {
            Some(at) => drop(kept.swap_remove(at)),
            None => self.more.set(self.more.get().saturating_sub(1)),
        }
    }

    fn track<'js>(&self, ctx: &Ctx<'js>, promise: &Value<'js>, reason: Value<'js>, handled: bool) {
        if handled {
            self.handled(ctx, promise);
            return;
        }
        let mut kept = self.kept.borrow_mut();
        if kept.len() < REJECTIONS {
            kept.push(Rejection {
                promise: Persistent::save(ctx, promise.clone()),
                reason: Persistent::save(ctx, reason),
            });
        } else {
            self.more.set(self.more.get() + 1);
        }
    }

    /// Those there are, and how many more there were.
    pub(crate) fn take(&self) -> (Vec<Rejection>, usize) {
        (self.kept.take(), self.more.take())
    }
}

fn tracker(rejections: Rc<Rejections>) -> RejectionTracker {
    Box::new(move |ctx, promise, reason, handled| {
        rejections.track(&ctx, &promise, reason, handled);
    })
}

/// A runtime and its one context.
pub(crate) struct Vm {
    pub(crate) clock: Rc<Clock>,
    pub(crate) rejections: Rc<Rejections>,
    pub(crate) context: Context,
    pub(crate) runtime: Runtime,
    /// In bytes.
    memory: usize,
}

impl Vm {
    /// A runtime with these limits, in bytes.
    ///
    /// # Errors
    /// If there isn't the memory for it.
    pub(crate) fn new(memory: usize, stack: usize, pulse: Arc<Pulse>) -> rquickjs::Result<Self> {
        let runtime = Runtime::new()?;
        runtime.set_memory_limit(memory);
        runtime.set_max_stack_size(stack);
        let clock = Rc::new(Clock::default());
        let handler = {
            let clock = Rc::clone(&clock);
            move || {
                let over = clock.is_over() || pulse.is_given_up();
                if over {
                    clock.trip();
                }
                over
            }
        };
        runtime.set_interrupt_handler(Some(Box::new(handler)));
        let rejections = Rc::new(Rejections::default());
        runtime.set_host_promise_rejection_tracker(Some(tracker(Rc::clone(&rejections))));
        let context = Context::full(&runtime)?;
        let vm = Self {
            clock,
            rejections,
            context,
            runtime,
            memory,
        };
        vm.put_off_collection();
        Ok(vm)
    }

    /// Keeps the collector from running while code runs, until half the memory
    /// is taken: a cycle of it stops everything.
    pub(crate) fn put_off_collection(&self) {
        self.runtime.set_gc_threshold(self.memory / 2);
    }

    /// Whether so much memory is taken that nothing can be done any more.
    pub(crate) fn is_full(&self) -> bool {
        let used = self.runtime.memory_usage().malloc_size;
        usize::try_from(used).unwrap_or(0) > self.memory / 10 * 8
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        // Values must not outlive their runtime.
        self.rejections.take();
    }
}
