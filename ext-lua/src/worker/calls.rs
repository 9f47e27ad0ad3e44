//! From a call to a task in the state, and from its end to its outcome.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use haft_api::{BatchCall, BatchOutcomes, CallId, Error, ErrorKind, Result, ToolOutput};
use mlua::{IntoLua as _, Value};
use tokio::sync::oneshot;

use super::{Actor, Batch};
use crate::call::{CallFacts, Context};
use crate::failure::Failure;
use crate::scheduler::{Given, NewTask, OnEnd};
use crate::script::{Handler, Script};
use crate::{json, result};

impl Actor {
    pub(super) fn batch(self: &Rc<Self>, batch: Batch) {
        let open = Rc::new(OpenBatch {
            left: Cell::new(batch.calls.len()),
            outcomes: batch.outcomes,
            over: batch.over,
            done: RefCell::new(Some(batch.done)),
        });
        let on_end = self.on_end(&open);
        for (number, call) in batch.calls {
            if let Err((id, outcome)) = self.start(number, call, &on_end) {
                open.fill(&id, outcome);
            }
        }
    }

    fn start(
        self: &Rc<Self>,
        number: u64,
        BatchCall { call, context }: BatchCall,
        on_end: &OnEnd,
    ) -> std::result::Result<(), (CallId, Result<ToolOutput>)> {
        let fails = |failure: &Failure| Err((call.id.clone(), Ok(failure.output(&call.name))));
        let found = self.find_tool(&call.name);
        let Some((script, handler)) = found else {
            let error = Error::new(ErrorKind::NotFound, "no Lua extension has this tool")
                .context("tool", &call.name);
            return Err((call.id, Err(error)));
        };
        let Some(arguments) = call.arguments_object() else {
            let words = format!("the arguments are no JSON object: {}", call.arguments.get());
            return fails(&Failure::error(words));
        };
        let scheduler = &self.host.scheduler;
        let decoded = scheduler.charged(&self.lua, &script, || {
            json::decode(&self.lua, &self.host.marks, arguments)
        });
        let arguments = match decoded {
            Ok(arguments) => arguments,
            Err(words) => {
                return fails(&Failure::error(format!(
                    "the arguments can't be read: {words}"
                )));
            }
        };
        let now = Instant::now();
        let deadline = match context.deadline {
            Some(deadline) => now + deadline.remaining(),
            None => now + script.limits.all.call(),
        };
        let facts = Rc::new(CallFacts::of_tool(call, context));
        let context = match handler.takes_context {
            true => Context(Rc::clone(&facts)).into_lua(&self.lua),
            false => Ok(Value::Nil),
        };
        let spawned = context.and_then(|context| {
            scheduler.spawn(
                &self.lua,
                NewTask {
                    id: Some(number),
                    what: handler.what,
                    script,
                    call: Some(Rc::clone(&facts)),
                    function: handler.function,
                    arguments: Given::Call(arguments, context),
                    deadline: Some(deadline),
                    on_end: Rc::clone(on_end),
                },
            )
        });
        match (spawned, facts.call()) {
            (Err(error), Some(call)) => {
                let output = Failure::from_error(&error).output(facts.name());
                Err((call.id.clone(), Ok(output)))
            }
            _ => Ok(()),
        }
    }

    /// What becomes of the batch's calls.
    fn on_end(&self, batch: &Rc<OpenBatch>) -> OnEnd {
        let batch = Rc::clone(batch);
        let marks = Rc::clone(&self.host.marks);
        Rc::new(move |task, outcome| {
            let Some(facts) = &task.call else { return };
            facts.ended.set(true);
            let bytes = task.script.limits.all.result_bytes;
            let limits = json::Limits { bytes };
            let outcome = outcome.and_then(|values| {
                result::output(&marks, &values, &limits).map_err(Failure::error)
            });
            let output = outcome.unwrap_or_else(|failure| failure.output(facts.name()));
            if let Some(call) = facts.call() {
                batch.fill(&call.id, Ok(output));
            }
        })
    }

    fn find_tool(&self, name: &str) -> Option<(Rc<Script>, Handler)> {
        if self
            .host
            .settings
            .deny_tools
            .iter()
            .any(|tool| tool == name)
        {
            return None;
        }
        self.host.scripts.borrow().iter().find_map(|script| {
            let tools = script.tools.borrow();
            let tool = tools.iter().find(|tool| tool.spec.name == *name)?;
            Some((Rc::clone(script), tool.handler.clone()))
        })
    }
}

/// A batch whose calls haven't all ended.
struct OpenBatch {
    left: Cell<usize>,
    outcomes: Arc<dyn BatchOutcomes>,
    over: Arc<AtomicBool>,
    done: RefCell<Option<oneshot::Sender<()>>>,
}

impl OpenBatch {
    fn fill(&self, call: &CallId, outcome: Result<ToolOutput>) {
        if !self.over.load(Ordering::Relaxed) {
            self.outcomes.complete(call, outcome);
        }
        self.left.set(self.left.get().saturating_sub(1));
        if self.left.get() == 0
            && let Some(done) = self.done.borrow_mut().take()
        {
            // Nobody waits any more where the batch was cancelled.
            done.send(()).ok();
        }
    }
}
