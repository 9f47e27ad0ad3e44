//! `require("luv")`: the API of libuv's Lua binding on the host's own loop.

mod files;
mod misc;
mod process;
mod stream;
mod timer;

use std::rc::Rc;

use mlua::{Function, Lua, MultiValue, Table};

use crate::scheduler::Answer;
use crate::script::{OpenHandle, Script};
use crate::state::Host;

/// What the parts of the module share.
#[derive(Clone)]
pub(super) struct Loop {
    lua: mlua::WeakLua,
    host: Rc<Host>,
    script: Rc<Script>,
}

impl Loop {
    /// Runs a callback in a coroutine of its own.
    fn call(
        &self,
        what: &str,
        callback: &Function,
        arguments: impl FnOnce(&Lua) -> mlua::Result<MultiValue>,
    ) {
        let Some(lua) = self.lua.try_upgrade() else {
            return;
        };
        match arguments(&lua) {
            Ok(arguments) => {
                self.host
                    .call_back(&lua, &self.script, what, callback, arguments);
            }
            Err(error) => self
                .script
                .say(haft_script_host::Level::Error, &format!("{what}: {error}")),
        }
    }

    /// Does something and then runs a callback with its answer. The extension
    /// counts as waiting meanwhile.
    fn later(
        &self,
        what: &'static str,
        operation: impl Future<Output = Answer> + 'static,
        callback: Option<Function>,
    ) {
        let (of, open) = (self.clone(), OpenHandle::new(&self.script));
        tokio::task::spawn_local(async move {
            let answer = operation.await;
            if let Some(callback) = callback {
                of.call(what, &callback, |lua| match answer {
                    Ok(reply) => {
                        let mut values = reply(lua)?;
                        values.push_front(mlua::Value::Nil);
                        Ok(values)
                    }
                    Err(message) => mlua::IntoLuaMulti::into_lua_multi(message, lua),
                });
            }
            drop(open);
        });
    }
}

/// Makes the module known to a script's `require`; it is made when it is first
/// required.
pub(crate) fn add(
    lua: &Lua,
    host: &Rc<Host>,
    script: &Rc<Script>,
    package: &Table,
) -> mlua::Result<()> {
    let preload: Table = package.raw_get("preload")?;
    let loaded: Table = package.raw_get("loaded")?;
    // Weak, or the state would hold what holds the state.
    let (of, script) = (Rc::downgrade(host), Rc::downgrade(script));
    let module = lua.create_function(move |lua, _: MultiValue| {
        let (Some(host), Some(script)) = (of.upgrade(), script.upgrade()) else {
            return Err(mlua::Error::runtime("the host has ended"));
        };
        if let Some(module) = loaded.raw_get::<Option<Table>>("luv")? {
            return Ok(module);
        }
        let shared = Loop {
            lua: lua.weak(),
            host,
            script,
        };
        let offered = lua.create_table()?;
        timer::add(lua, &shared, &offered)?;
        stream::add(lua, &shared, &offered)?;
        process::add(lua, &shared, &offered)?;
        files::add(lua, &shared, &offered)?;
        misc::add(lua, &shared, &offered)?;
        let module: Table = lua
            .load(include_str!("luv.lua"))
            .set_name("=[host]")
            .call(offered)?;
        loaded.raw_set("luv", &module)?;
        loaded.raw_set("uv", &module)?;
        Ok(module)
    })?;
    preload.raw_set("luv", &module)?;
    preload.raw_set("uv", module)
}
