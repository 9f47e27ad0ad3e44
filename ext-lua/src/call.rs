//! What a handler is told of its call: `ctx`.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use haft_api::{Deadline, OutputChannel, OutputSink, RemoteRunnerSession};
use mlua::{Lua, MetaMethod, UserData, UserDataMethods, Value};

/// A call's facts. Commands have some of them.
pub(crate) struct CallFacts {
    pub(crate) call_id: Option<String>,
    pub(crate) tool: String,
    pub(crate) thread: Option<String>,
    pub(crate) turn: Option<String>,
    pub(crate) deadline: Option<Deadline>,
    pub(crate) turn_deadline: Option<Deadline>,
    pub(crate) output: Arc<dyn OutputSink>,
    pub(crate) workspace: Option<Arc<dyn RemoteRunnerSession>>,
    pub(crate) ended: Cell<bool>,
}

/// The `ctx` of a handler.
pub(crate) struct Context(pub(crate) Rc<CallFacts>);

impl UserData for Context {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::Index, |lua, this, key: mlua::LuaString| {
            let facts = &this.0;
            let text = |text: Option<&str>| -> mlua::Result<Value> {
                text.map_or(Ok(Value::Nil), |text| {
                    lua.create_string(text).map(Value::String)
                })
            };
            match &*key.to_string_lossy() {
                "call_id" => text(facts.call_id.as_deref()),
                "tool" => text(Some(&facts.tool)),
                "thread" => text(facts.thread.as_deref()),
                "turn" => text(facts.turn.as_deref()),
                "workspace" => text(facts.workspace.as_deref().map(|w| w.workspace())),
                "deadline" => Ok(facts.deadline.map_or(Value::Nil, |deadline| {
                    i64::try_from(deadline.unix_ms()).map_or(Value::Nil, Value::Integer)
                })),
                "cancelled" => Ok(Value::Boolean(facts.ended.get())),
                "progress" => progress(lua, facts),
                _ => Ok(Value::Nil),
            }
        });
    }
}

/// `ctx.progress(text)` and `ctx:progress(text)`.
fn progress(lua: &Lua, facts: &Rc<CallFacts>) -> mlua::Result<Value> {
    let facts = Rc::clone(facts);
    let function = lua.create_function(move |_, values: mlua::Variadic<Value>| {
        if !facts.ended.get() {
            for value in values.iter() {
                if let Value::String(text) = value {
                    facts.output.write(OutputChannel::Stdout, &text.as_bytes());
                }
            }
        }
        Ok(())
    })?;
    Ok(Value::Function(function))
}
