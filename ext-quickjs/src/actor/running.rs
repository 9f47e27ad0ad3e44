//! Running a skill's code, within its time.

use std::time::Instant;

use rquickjs::atom::PredefinedAtom;
use rquickjs::{Ctx, Persistent, Value};

use super::{Actor, GRACE, OF_ON_ERROR, Turned};
use crate::core::Core;
use crate::failure::Failure;
use crate::native::Native;
use crate::thrown;
use haft_script_host::Level;

/// How many microtasks run between two looks at the clock.
const LOOK_EVERY: u32 = 32;
/// How many unhandled rejections of a turn are told of one by one.
const TOLD: usize = 8;

/// What a call is to be answered with once it is settled.
pub(super) type Promised = Persistent<Value<'static>>;

/// Answers a call with what its tool returned; a promise is left for later.
pub(super) fn answer<'js>(
    ctx: &Ctx<'js>,
    core: &Core,
    native: &Native,
    number: u64,
    value: Value<'js>,
) -> rquickjs::Result<Option<Promised>> {
    if value.is_promise() {
        return Ok(Some(Persistent::save(ctx, value)));
    }
    let then = match value.as_object() {
        Some(object) => object.get::<_, Value<'js>>(PredefinedAtom::Then)?,
        None => Value::new_undefined(ctx.clone()),
    };
    match then.is_function() {
        true => core.answer(ctx, number, value)?,
        false => native.done(ctx, number, &value),
    }
    Ok(None)
}

impl Actor {
    /// A macrotask and its microtasks. A promise that it returns answers its
    /// owner.
    ///
    /// # Errors
    /// If they can't be brought to an end.
    pub(super) fn turn(
        &mut self,
        owner: u64,
        deadline: Instant,
        run: impl FnOnce(&Ctx<'_>, &Core) -> rquickjs::Result<Option<Promised>>,
    ) -> Turned {
        let began = Instant::now();
        let (vm, native) = (&self.vm, &self.native);
        native.current.set(owner);
        native.setup.supervisor.rouse();
        self.pulse.enter(deadline);
        vm.clock.begin(deadline);
        vm.put_off_collection();
        let core = &self.core;
        let (promised, mut thrown) = vm.context.with(|ctx| match run(&ctx, core) {
            Ok(promised) => (promised, None),
            Err(error) => (None, Some(thrown::caught(&ctx, &error))),
        });
        let mut late = vm.clock.has_tripped() || !self.run_microtasks();
        if let Some(promise) = promised
            && !late
        {
            thrown = self.conclude(owner, promise);
            // To say a value may run code.
            late = self.vm.clock.has_tripped() || !self.run_microtasks();
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

    /// Answers a call with its promise, at once if it is settled: most are, and
    /// to hear of it by `then` took longer than all else.
    fn conclude(&self, owner: u64, promise: Promised) -> Option<Failure> {
        let (core, native) = (&self.core, &self.native);
        self.vm.context.with(|ctx| {
            let run = || -> rquickjs::Result<()> {
                let value = promise.restore(&ctx)?;
                let Some(promise) = value.as_promise() else {
                    return core.answer(&ctx, owner, value);
                };
                match promise.result::<Value<'_>>() {
                    None => core.answer(&ctx, owner, value),
                    Some(Ok(result)) => {
                        native.done(&ctx, owner, &result);
                        Ok(())
                    }
                    Some(Err(error)) => {
                        self.vm.rejections.handled(&ctx, &value);
                        Err(error)
                    }
                }
            };
            run().err().map(|error| thrown::caught(&ctx, &error))
        })
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
}
