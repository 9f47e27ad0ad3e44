//! What a handler is told of its call: `ctx`.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use haft_api::{
    OutputChannel, OutputSink, RemoteRunnerSession, SlashCommandCall, ToolCall, ToolContext,
};
use mlua::{Lua, MetaMethod, UserData, UserDataMethods, Value};

/// A call's facts.
pub(crate) struct CallFacts {
    of: Of,
    pub(crate) ended: Cell<bool>,
}

#[allow(
    clippy::large_enum_variant,
    reason = "nearly all of them are tools' calls, and each is made once"
)]
enum Of {
    Tool(ToolCall, ToolContext),
    Command(SlashCommandCall),
}

impl CallFacts {
    /// Those of a tool's call.
    pub(crate) fn of_tool(call: ToolCall, context: ToolContext) -> Self {
        Self {
            of: Of::Tool(call, context),
            ended: Cell::new(false),
        }
    }

    /// Those of a command's.
    pub(crate) fn of_command(call: SlashCommandCall) -> Self {
        Self {
            of: Of::Command(call),
            ended: Cell::new(false),
        }
    }

    /// The tool's or the command's name.
    pub(crate) fn name(&self) -> &str {
        match &self.of {
            Of::Tool(call, _) => &call.name,
            Of::Command(call) => &call.name,
        }
    }

    /// The tool's call; a command has none.
    pub(crate) fn call(&self) -> Option<&ToolCall> {
        match &self.of {
            Of::Tool(call, _) => Some(call),
            Of::Command(_) => None,
        }
    }

    /// The tool's context; a command has none.
    pub(crate) fn context(&self) -> Option<&ToolContext> {
        match &self.of {
            Of::Tool(_, context) => Some(context),
            Of::Command(_) => None,
        }
    }

    /// Where the call's side effects happen, if it has such a place.
    pub(crate) fn workspace(&self) -> Option<&Arc<dyn RemoteRunnerSession>> {
        self.context()?.workspace().ok()
    }

    fn thread(&self) -> Option<&str> {
        match &self.of {
            Of::Tool(_, context) => Some(context.thread.as_str()),
            Of::Command(call) => Some(call.thread.as_ref()?.as_str()),
        }
    }

    fn output(&self) -> Option<&Arc<dyn OutputSink>> {
        Some(&self.context()?.output)
    }
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
                "call_id" => text(facts.call().map(|call| call.id.as_str())),
                "tool" => text(Some(facts.name())),
                "thread" => text(facts.thread()),
                "turn" => text(facts.context().map(|context| context.turn.as_str())),
                "workspace" => text(facts.workspace().map(|w| w.workspace())),
                "deadline" => {
                    let deadline = facts.context().and_then(|context| context.deadline);
                    Ok(deadline.map_or(Value::Nil, |deadline| {
                        i64::try_from(deadline.unix_ms()).map_or(Value::Nil, Value::Integer)
                    }))
                }
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
        let output = facts.output().filter(|_| !facts.ended.get());
        if let Some(output) = output {
            for value in values.iter() {
                if let Value::String(text) = value {
                    output.write(OutputChannel::Stdout, &text.as_bytes());
                }
            }
        }
        Ok(())
    })?;
    Ok(Value::Function(function))
}
