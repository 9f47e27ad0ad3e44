//! From a place on disk to an extension: all of it or nothing.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use mlua::{Lua, MultiValue, Table, Value};
use tokio::sync::oneshot;

use crate::api;
use crate::failure::{Failure, FailureKind};
use crate::grants::Grants;
use crate::json::Marks;
use crate::own_limits::OwnLimits;
use crate::registration;
use crate::scheduler::{Given, NewTask};
use crate::script::{Place, Script, ScriptLimits};
use crate::state::{Host, load_text};

/// Runs an extension's main file once. `old` is what it replaces, whose names
/// it may take.
///
/// # Errors
/// What is wrong, with file and line; nothing of it is left.
pub(crate) async fn load(
    lua: &Lua,
    host: &Rc<Host>,
    place: Place,
    old: Option<&Rc<Script>>,
) -> Result<Rc<Script>, Failure> {
    let source = tokio::fs::read(&place.main)
        .await
        .map_err(|e| Failure::error(format!("{}: {e}", place.main.display())))?;
    let grants = match host.settings.grants.get(&place.name) {
        Some(grants) => grants.clone(),
        None => Grants::declared(&String::from_utf8_lossy(&source))
            .map_err(|e| Failure::error(format!("{}: {e}", place.chunk_name(&place.main))))?,
    };
    let declared = OwnLimits::declared(&String::from_utf8_lossy(&source))
        .map_err(|e| Failure::error(format!("{}: {e}", place.chunk_name(&place.main))))?;
    let own = match host.settings.extension_limits.get(&place.name) {
        Some(said) => said.clone().or(declared),
        None => declared,
    };
    let taken = taken(host, old);
    let name = place.chunk_name(&place.main);
    let script = Script::new(
        place,
        grants,
        ScriptLimits {
            call_ms: own.call_ms,
            all: own.over(host.settings.limits.clone()),
        },
        std::sync::Arc::clone(&host.log),
        host.settings.state_dir.as_deref(),
    );
    let outcome = execute(lua, host, &script, &source, &name, taken).await;
    script.loading.set(false);
    match outcome {
        Ok(()) => Ok(script),
        Err(failure) => {
            let gone = Failure::new(FailureKind::Cancelled, "the extension failed to load");
            host.scheduler.cancel_script(lua, &script, &gone);
            script.tools.borrow_mut().clear();
            script.commands.borrow_mut().clear();
            script.listeners.borrow_mut().clear();
            Err(failure)
        }
    }
}

/// The names of tools and commands that others have.
pub(crate) struct Taken {
    pub(crate) tools: Vec<(String, String)>,
    pub(crate) commands: Vec<(String, String)>,
}

fn taken(host: &Host, old: Option<&Rc<Script>>) -> Taken {
    let mut taken = Taken {
        tools: Vec::new(),
        commands: Vec::new(),
    };
    let scripts = host.scripts.borrow();
    let others = scripts
        .iter()
        .filter(|script| !old.is_some_and(|old| Rc::ptr_eq(script, old)));
    for script in others {
        let of = script.name().to_owned();
        for tool in script.tools.borrow().iter() {
            let name = tool.spec.name.as_str().to_owned();
            taken.tools.push((name, of.clone()));
        }
        for command in script.commands.borrow().iter() {
            taken.commands.push((command.name.clone(), of.clone()));
        }
    }
    taken
}

async fn execute(
    lua: &Lua,
    host: &Rc<Host>,
    script: &Rc<Script>,
    source: &[u8],
    name: &str,
    taken: Taken,
) -> Result<(), Failure> {
    let taken = Rc::new(taken);
    let raise = |e: mlua::Error| Failure::from_error(&e);
    let env = api::environment(lua, host, script, &taken).map_err(raise)?;
    *script.env.borrow_mut() = Some(env.clone());
    let main = load_text(lua, source, name, env)?;
    let (done, outcome) = oneshot::channel();
    let done = Cell::new(Some(done));
    let task = NewTask {
        id: None,
        what: format!("loading `{}`", script.name()).into(),
        script: Rc::clone(script),
        call: None,
        function: main,
        arguments: Given::Any(MultiValue::new()),
        deadline: Some(Instant::now() + script.limits.all.load()),
        on_end: Rc::new(move |_, outcome| {
            if let Some(done) = done.take() {
                done.send(outcome).ok();
            }
        }),
    };
    host.scheduler.spawn(lua, task).map_err(raise)?;
    let values = outcome
        .await
        .map_err(|_| Failure::error("the host ended while the extension was loading"))??;
    returned(&host.marks, script, &taken, &values.0, name)
}

/// What the main file returned may stand in place of a call to register.
fn returned(
    marks: &Marks,
    script: &Rc<Script>,
    taken: &Taken,
    value: &Value,
    name: &str,
) -> Result<(), Failure> {
    let refuse = |words: String| Failure::error(format!("{name}: {words}"));
    let table = match value {
        Value::Nil => {
            let nothing = script.tools.borrow().is_empty()
                && script.commands.borrow().is_empty()
                && script.listeners.borrow().is_empty()
                && script.handles.get() == 0;
            return match nothing {
                true => Err(refuse(
                    "the file registers nothing and returns no table (call haft.register_tool, or \
                     return the tool's table)"
                        .to_owned(),
                )),
                false => Ok(()),
            };
        }
        Value::Table(table) => table,
        // A module's usual last line.
        Value::Boolean(_) if !script.tools.borrow().is_empty() => return Ok(()),
        other => {
            return Err(refuse(format!(
                "the file returns a {} (return the tool's table, or nothing)",
                other.type_name()
            )));
        }
    };
    let list = |field: &str| -> Result<Option<Vec<Table>>, Failure> {
        match table.raw_get(field).unwrap_or(Value::Nil) {
            Value::Nil => Ok(None),
            Value::Table(list) => list
                .sequence_values::<Table>()
                .collect::<Result<Vec<_>, _>>()
                .map(Some)
                .map_err(|_| refuse(format!("field `{field}` must be a list of tables"))),
            other => Err(refuse(format!(
                "field `{field}` must be a list of tables, got {}",
                other.type_name()
            ))),
        }
    };
    let (tools, commands) = (list("tools")?, list("commands")?);
    let tools = match (tools, &commands) {
        (None, None) if table.raw_len() > 0 => table
            .sequence_values::<Table>()
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| refuse("the returned list must hold nothing but tables".to_owned()))?,
        (None, None) => vec![table.clone()],
        (tools, _) => tools.unwrap_or_default(),
    };
    for tool in tools {
        add_tool(marks, script, taken, &tool).map_err(refuse)?;
    }
    for command in commands.unwrap_or_default() {
        add_command(script, taken, &command).map_err(refuse)?;
    }
    Ok(())
}

/// Registers a tool.
///
/// # Errors
/// What is wrong with the table, or who has the name already.
pub(crate) fn add_tool(
    marks: &Marks,
    script: &Script,
    taken: &Taken,
    table: &Table,
) -> Result<(), String> {
    let mut tool = registration::tool(marks, table)?;
    // The runtime sets the deadline of a call, by what its tool says.
    if tool.spec.timeout_ms.is_none() {
        tool.spec.timeout_ms = script.limits.call_ms;
    }
    let name = tool.spec.name.as_str();
    if let Some((_, of)) = taken.tools.iter().find(|(taken, _)| taken == name) {
        return Err(format!("the extension `{of}` has a tool `{name}` already"));
    }
    let mut tools = script.tools.borrow_mut();
    if tools.iter().any(|other| other.spec.name == tool.spec.name) {
        return Err(format!("a second tool `{name}`"));
    }
    tools.push(tool);
    Ok(())
}

/// Registers a command.
///
/// # Errors
/// As [`add_tool`].
pub(crate) fn add_command(script: &Script, taken: &Taken, table: &Table) -> Result<(), String> {
    let command = registration::command(table)?;
    let name = &command.name;
    if let Some((_, of)) = taken.commands.iter().find(|(taken, _)| taken == name) {
        return Err(format!(
            "the extension `{of}` has a command `{name}` already"
        ));
    }
    let mut commands = script.commands.borrow_mut();
    if commands.iter().any(|other| other.name == command.name) {
        return Err(format!("a second command `{name}`"));
    }
    commands.push(command);
    Ok(())
}
