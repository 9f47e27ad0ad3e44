//! Clocks, the system, and the loop itself.

use std::time::Instant;

use mlua::{Lua, Table};

use super::Loop;
use crate::state::reply;

pub(super) fn add(lua: &Lua, shared: &Loop, to: &Table) -> mlua::Result<()> {
    let began = Instant::now();
    to.raw_set(
        "hrtime",
        lua.create_function(move |_, ()| {
            Ok(i64::try_from(began.elapsed().as_nanos()).unwrap_or(i64::MAX))
        })?,
    )?;
    to.raw_set(
        "now",
        lua.create_function(move |_, ()| {
            Ok(i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX))
        })?,
    )?;
    to.raw_set(
        "cwd",
        lua.create_function(|_, ()| {
            Ok(std::env::current_dir()
                .ok()
                .map(|folder| folder.display().to_string()))
        })?,
    )?;
    to.raw_set("pid", lua.create_function(|_, ()| Ok(std::process::id()))?)?;
    to.raw_set(
        "tmpdir",
        lua.create_function(|_, ()| Ok(std::env::temp_dir().display().to_string()))?,
    )?;
    to.raw_set(
        "hostname",
        lua.create_function(|_, ()| {
            Ok(rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned())
        })?,
    )?;
    to.raw_set(
        "uname",
        lua.create_function(|lua, ()| {
            let uname = rustix::system::uname();
            let table = lua.create_table()?;
            table.raw_set("sysname", uname.sysname().to_string_lossy().into_owned())?;
            table.raw_set("release", uname.release().to_string_lossy().into_owned())?;
            table.raw_set("version", uname.version().to_string_lossy().into_owned())?;
            table.raw_set("machine", uname.machine().to_string_lossy().into_owned())?;
            Ok(table)
        })?,
    )?;
    let of = shared.clone();
    to.raw_set(
        "getenv",
        shared.host.immediate(lua, move |_, name: String| {
            crate::api::env_var(&of.script, &name)
        })?,
    )?;
    to.raw_set(
        "sleep",
        shared.host.awaiting(lua, "uv.sleep", |_, ms: f64| {
            let time = crate::api::milliseconds(ms)?;
            Ok(async move {
                tokio::time::sleep(time).await;
                Ok(reply(()))
            })
        })?,
    )?;
    let of = shared.clone();
    to.raw_set(
        "run",
        shared.host.awaiting(lua, "uv.run", move |_, ()| {
            let script = std::rc::Rc::clone(&of.script);
            Ok(async move {
                loop {
                    let closed = script.closed.notified();
                    if script.handles.get() == 0 {
                        return Ok(reply(()));
                    }
                    closed.await;
                }
            })
        })?,
    )?;
    let of = shared.clone();
    to.raw_set(
        "alive",
        lua.create_function(move |_, ()| Ok(of.script.handles.get() > 0))?,
    )
}
