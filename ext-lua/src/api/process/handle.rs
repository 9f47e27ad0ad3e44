//! What a script holds of a process.

use std::rc::Rc;

use haft_api::{Ending, OutputChannel, Signal};
use mlua::{Lua, Table, Value};

use super::Process;
use crate::state::{Host, reply};

pub(super) fn ending_table(lua: &Lua, ending: &Ending) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("ok", ending.is_success())?;
    match ending {
        Ending::Exited { code } => table.raw_set("code", *code)?,
        Ending::Signalled { signal } => table.raw_set("signal", *signal)?,
        Ending::TimedOut => table.raw_set("timed_out", true)?,
        Ending::OutOfMemory => table.raw_set("out_of_memory", true)?,
        Ending::Cancelled => table.raw_set("cancelled", true)?,
        Ending::Unknown { reason } => table.raw_set("unknown", reason.as_str())?,
        other => table.raw_set("unknown", format!("{other:?}"))?,
    }
    Ok(table)
}

/// What a script holds of a process: `p:read()`, `p:write(text)`,
/// `p:close_stdin()`, `p:wait()`, `p:kill(signal)`.
pub(super) fn handle(lua: &Lua, host: &Rc<Host>, process: &Rc<Process>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let of = Rc::clone(process);
    table.raw_set(
        "read",
        host.awaiting(lua, "process:read", move |_, _: Table| {
            let of = Rc::clone(&of);
            Ok(async move {
                let piece = of.read().await?;
                Ok(Box::new(move |lua: &Lua| {
                    let Some((channel, bytes)) = piece else {
                        return Ok([Value::Nil].into_iter().collect());
                    };
                    let name = match channel {
                        OutputChannel::Stdout => "stdout",
                        OutputChannel::Stderr => "stderr",
                    };
                    let text = Value::String(lua.create_string(bytes)?);
                    let name = Value::String(lua.create_string(name)?);
                    Ok([text, name].into_iter().collect())
                }) as crate::scheduler::Reply)
            })
        })?,
    )?;
    let of = Rc::clone(process);
    table.raw_set(
        "write",
        host.awaiting(
            lua,
            "process:write",
            move |_, (_, text): (Table, mlua::LuaString)| {
                let (of, bytes) = (Rc::clone(&of), text.as_bytes().to_vec());
                Ok(async move { of.write(Some(bytes)).await.map(|()| reply(())) })
            },
        )?,
    )?;
    let of = Rc::clone(process);
    table.raw_set(
        "close_stdin",
        host.awaiting(lua, "process:close_stdin", move |_, _: Table| {
            let of = Rc::clone(&of);
            Ok(async move { of.write(None).await.map(|()| reply(())) })
        })?,
    )?;
    let of = Rc::clone(process);
    table.raw_set(
        "wait",
        host.awaiting(lua, "process:wait", move |_, _: Table| {
            let of = Rc::clone(&of);
            Ok(async move {
                let ending = of.wait().await?;
                Ok(Box::new(move |lua: &Lua| {
                    let table = ending_table(lua, &ending)?;
                    Ok([Value::Table(table)].into_iter().collect())
                }) as crate::scheduler::Reply)
            })
        })?,
    )?;
    let of = Rc::clone(process);
    table.raw_set(
        "kill",
        host.awaiting(
            lua,
            "process:kill",
            move |_, (_, name): (Table, Option<String>)| {
                let signal = match name.as_deref() {
                    None | Some("kill") => Signal::Kill,
                    Some("term" | "terminate") => Signal::Terminate,
                    Some("int" | "interrupt") => Signal::Interrupt,
                    Some(other) => return Err(format!("there is no signal `{other}`")),
                };
                let of = Rc::clone(&of);
                Ok(async move { of.signal(signal).await.map(|()| reply(())) })
            },
        )?,
    )?;
    Ok(table)
}
