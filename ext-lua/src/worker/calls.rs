//! From a call to a task in the state, and from its end to its outcome.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use haft_api::{BatchCall, BatchOutcomes, CallId, Error, ErrorKind, Result, ToolOutput};
use mlua::{IntoLuaMulti as _, Lua, MultiValue};
use tokio::sync::oneshot;

use super::{Actor, Batch};
use crate::call::{CallFacts, Context};
use crate::failure::Failure;
use crate::scheduler::NewTask;
use crate::script::Script;
use crate::{json, result};

impl Actor {
    pub(super) fn batch(self: &Rc<Self>, batch: Batch) {
        let open = Rc::new(OpenBatch {
            left: Cell::new(batch.calls.len()),
            outcomes: batch.outcomes,
            over: batch.over,
            done: RefCell::new(Some(batch.done)),
        });
        for (number, call) in batch.calls {
            let id = call.call.id.clone();
            if let Err(outcome) = self.start(number, call, &open) {
                open.fill(&id, outcome);
            }
        }
    }

    fn start(
        self: &Rc<Self>,
        number: u64,
        BatchCall { call, context }: BatchCall,
        batch: &Rc<OpenBatch>,
    ) -> std::result::Result<(), Result<ToolOutput>> {
        let fails = |failure: &Failure| Err(Ok(failure.output(&call.name)));
        let found = self.find_tool(&call.name);
        let Some((script, handler)) = found else {
            let error = Error::new(ErrorKind::NotFound, "no Lua extension has this tool")
                .context("tool", &call.name);
            return Err(Err(error));
        };
        let Some(arguments) = call.arguments_object() else {
            let words = format!("the arguments are no JSON object: {}", call.arguments.get());
            return fails(&Failure::error(words));
        };
        let arguments = match json::decode(&self.lua, arguments) {
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
            None => now + self.host.settings.limits.call(),
        };
        let facts = Rc::new(CallFacts {
            call_id: Some(call.id.as_str().to_owned()),
            tool: call.name.clone(),
            thread: Some(context.thread.as_str().to_owned()),
            turn: Some(context.turn.as_str().to_owned()),
            deadline: context.deadline,
            turn_deadline: context.turn_deadline,
            output: Arc::clone(&context.output),
            workspace: context.workspace().ok().map(Arc::clone),
            ended: Cell::new(false),
        });
        let (actor, batch) = (Rc::downgrade(self), Rc::clone(batch));
        let (id, name, ended) = (call.id.clone(), call.name.clone(), Rc::clone(&facts));
        let limits = self.host.json_limits();
        let on_end = Box::new(
            move |lua: &Lua, outcome: std::result::Result<MultiValue, Failure>| {
                ended.ended.set(true);
                if let Some(actor) = actor.upgrade() {
                    actor.calls.borrow_mut().remove(&number);
                }
                let outcome = outcome.and_then(|values| {
                    result::output(lua, &values, &limits).map_err(Failure::error)
                });
                let output = outcome.unwrap_or_else(|failure| failure.output(&name));
                batch.fill(&id, Ok(output));
            },
        );
        let arguments = (arguments, Context(Rc::clone(&facts))).into_lua_multi(&self.lua);
        let spawned = arguments.and_then(|arguments| {
            self.host.scheduler.spawn(
                &self.lua,
                NewTask {
                    what: format!("the tool `{}`", call.name),
                    script,
                    call: Some(facts),
                    function: handler,
                    arguments,
                    deadline: Some(deadline),
                    on_end,
                },
            )
        });
        match spawned {
            Ok(task) => {
                self.calls.borrow_mut().insert(number, task);
                Ok(())
            }
            Err(error) => fails(&Failure::from_error(&error)),
        }
    }

    fn find_tool(&self, name: &str) -> Option<(Rc<Script>, mlua::Function)> {
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
