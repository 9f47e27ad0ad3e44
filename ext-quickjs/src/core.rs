//! The JavaScript side of a skill's runtime, seen from its loop.

use std::rc::Rc;

use rquickjs::{Ctx, Function, Object, Persistent, TypedArray, Value};

use crate::api;
use crate::native::Native;
use crate::worker::{Raised, Settled};

const SOURCE: &str = include_str!("js/core.js");

type Kept = Persistent<Function<'static>>;

/// The functions that `core.js` gives the loop.
pub(crate) struct Core {
    tool: Kept,
    answer: Kept,
    command: Kept,
    hook: Kept,
    lists: Kept,
    adopt: Kept,
    loaded: Kept,
    settle: Kept,
    abort: Kept,
    fire: Kept,
}

impl Core {
    /// Makes what every skill has.
    ///
    /// # Errors
    /// If there isn't the memory for it.
    pub(crate) fn new(ctx: &Ctx<'_>, native: &Rc<Native>) -> rquickjs::Result<Self> {
        let make: Function<'_> = api::evaluate(ctx, "core", SOURCE)?;
        let made: Object<'_> = make.call((api::core(ctx, native)?,))?;
        let function = |name: &str| -> rquickjs::Result<Kept> {
            let function: Function<'_> = made.get(name)?;
            Ok(Persistent::save(ctx, function))
        };
        Ok(Self {
            tool: function("tool")?,
            answer: function("answer")?,
            command: function("command")?,
            hook: function("hook")?,
            lists: function("lists")?,
            adopt: function("adopt")?,
            loaded: function("loaded")?,
            settle: function("settle")?,
            abort: function("abort")?,
            fire: function("fire")?,
        })
    }

    /// Calls a tool and returns its value or promise; the arguments are JSON
    /// text.
    pub(crate) fn tool<'js>(
        &self,
        ctx: &Ctx<'js>,
        call: u64,
        name: &str,
        arguments: &str,
    ) -> rquickjs::Result<Value<'js>> {
        let arguments = ctx.json_parse(arguments)?;
        let tool = self.tool.clone().restore(ctx)?;
        tool.call((number(call), name, arguments))
    }

    /// Answers a call with what its promise comes to.
    pub(crate) fn answer<'js>(
        &self,
        ctx: &Ctx<'js>,
        call: u64,
        promise: Value<'js>,
    ) -> rquickjs::Result<()> {
        self.answer
            .clone()
            .restore(ctx)?
            .call((number(call), promise))
    }

    pub(crate) fn command(
        &self,
        ctx: &Ctx<'_>,
        call: u64,
        name: &str,
        text: &str,
    ) -> rquickjs::Result<()> {
        let command = self.command.clone().restore(ctx)?;
        command.call((number(call), name, text))
    }

    /// Calls a hook with a JSON array of arguments; false if there is none.
    pub(crate) fn hook(
        &self,
        ctx: &Ctx<'_>,
        call: u64,
        name: &str,
        arguments: String,
    ) -> rquickjs::Result<bool> {
        let arguments = ctx.json_parse(arguments)?;
        let hook = self.hook.clone().restore(ctx)?;
        hook.call((number(call), name, arguments))
    }

    pub(crate) fn lists(&self, ctx: &Ctx<'_>, call: u64) -> rquickjs::Result<()> {
        self.lists.clone().restore(ctx)?.call((number(call),))
    }

    /// Finds the skill in what a script left behind, and answers with what it has.
    pub(crate) fn adopt(&self, ctx: &Ctx<'_>, call: u64) -> rquickjs::Result<()> {
        self.adopt.clone().restore(ctx)?.call((number(call),))
    }

    /// The same for a module, once it is evaluated.
    pub(crate) fn loaded<'js>(
        &self,
        ctx: &Ctx<'js>,
        call: u64,
        evaluated: Value<'js>,
        exported: Value<'js>,
    ) -> rquickjs::Result<()> {
        let loaded = self.loaded.clone().restore(ctx)?;
        loaded.call((number(call), evaluated, exported))
    }

    /// Passes on what an operation came to.
    pub(crate) fn settle(
        &self,
        ctx: &Ctx<'_>,
        operation: u64,
        outcome: Result<Settled, Raised>,
        last: bool,
    ) -> rquickjs::Result<()> {
        let settle = self.settle.clone().restore(ctx)?;
        let undefined = || Value::new_undefined(ctx.clone());
        let operation = number(operation);
        match outcome {
            Ok(Settled::Json(json)) => {
                let value = ctx.json_parse(json)?;
                settle.call((
                    operation,
                    value,
                    undefined(),
                    undefined(),
                    undefined(),
                    last,
                ))
            }
            Ok(Settled::JsonAndBytes(json, bytes)) => {
                let value = ctx.json_parse(json)?;
                let bytes = TypedArray::<u8>::new(ctx.clone(), bytes)?;
                settle.call((operation, value, bytes, undefined(), undefined(), last))
            }
            Err(raised) => {
                let (name, message) = (raised.name, raised.message);
                settle.call((operation, undefined(), undefined(), name, message, last))
            }
        }
    }

    /// Rejects what an ended call waits for.
    pub(crate) fn abort(
        &self,
        ctx: &Ctx<'_>,
        call: u64,
        operations: Vec<u64>,
        why: &str,
    ) -> rquickjs::Result<()> {
        let abort = self.abort.clone().restore(ctx)?;
        let operations: Vec<f64> = operations.into_iter().map(number).collect();
        abort.call((number(call), operations, why))
    }

    pub(crate) fn fire(&self, ctx: &Ctx<'_>, timer: u64, again: bool) -> rquickjs::Result<()> {
        let fire = self.fire.clone().restore(ctx)?;
        fire.call((number(timer), again))
    }
}

/// Numbers of calls, operations and timers are counted up from one, or down
/// from a power of two that a double holds.
#[allow(clippy::cast_precision_loss, reason = "see above")]
fn number(number: u64) -> f64 {
    number as f64
}
