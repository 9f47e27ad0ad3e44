//! From a slash command to a task in the state.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use mlua::{IntoLua as _, Value};

use super::{Actor, CommandCall};
use crate::call::{CallFacts, Context};
use crate::failure::{Failure, FailureKind};
use crate::scheduler::{Given, NewTask, Returned, Task};

impl Actor {
    pub(super) fn command(self: &Rc<Self>, command: CommandCall) {
        let CommandCall { number, call, done } = command;
        let found = self.host.scripts.borrow().iter().find_map(|script| {
            let commands = script.commands.borrow();
            let command = commands.iter().find(|command| command.name == call.name)?;
            Some((Rc::clone(script), command.handler.clone()))
        });
        let Some((script, handler)) = found else {
            let words = format!("no Lua extension has the command `{}`", call.name);
            done.send(Err(Failure::new(FailureKind::NotFound, words)))
                .ok();
            return;
        };
        let text = call.text.clone();
        let deadline = Instant::now() + script.limits.all.call();
        let facts = Rc::new(CallFacts::of_command(call));
        let ended = Rc::clone(&facts);
        let done = Rc::new(Cell::new(Some(done)));
        let finish = Rc::clone(&done);
        let on_end = Rc::new(move |_: &Task, outcome: Result<Returned, Failure>| {
            ended.ended.set(true);
            if let Some(done) = finish.take() {
                // Nobody waits any more where the command was dropped.
                done.send(outcome.and_then(|values| shown(&values))).ok();
            }
        });
        let arguments = text.into_lua(&self.lua).and_then(|text| {
            let context = Context(Rc::clone(&facts)).into_lua(&self.lua)?;
            Ok(Given::Call(text, context))
        });
        let spawned = arguments.and_then(|arguments| {
            self.host.scheduler.spawn(
                &self.lua,
                NewTask {
                    id: Some(number),
                    what: handler.what,
                    script,
                    call: Some(facts),
                    function: handler.function,
                    arguments,
                    deadline: Some(deadline),
                    on_end,
                },
            )
        });
        if let Err(error) = spawned
            && let Some(done) = done.take()
        {
            done.send(Err(Failure::from_error(&error))).ok();
        }
    }
}

/// A handler's values as text for people: nothing, a string or a number, or
/// `nil` and a message, which is an error.
fn shown((first, second): &Returned) -> Result<Option<String>, Failure> {
    match (first, second) {
        (Value::Nil, Value::String(why)) => Err(Failure::error(why.to_string_lossy())),
        (Value::Nil, _) => Ok(None),
        (Value::String(text), _) => Ok(Some(text.to_string_lossy())),
        (value @ (Value::Integer(_) | Value::Number(_) | Value::Boolean(_)), _) => {
            Ok(value.to_string().ok())
        }
        (other, _) => Err(Failure::error(format!(
            "a command returns text to show, or nothing, got {}",
            other.type_name()
        ))),
    }
}
