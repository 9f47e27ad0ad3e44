//! `register_tool`, `register_command`, `tool`, `on`.

use std::rc::Rc;

use mlua::{Function, Lua, Table};

use crate::load::{self, Taken};
use crate::script::Script;
use crate::source::EVENTS;
use crate::state::Host;

pub(super) fn add(
    lua: &Lua,
    host: &Rc<Host>,
    script: &Rc<Script>,
    taken: &Rc<Taken>,
    haft: &Table,
) -> mlua::Result<()> {
    let (of, names) = (Rc::clone(script), Rc::clone(taken));
    let marks = Rc::clone(&host.marks);
    haft.raw_set(
        "register_tool",
        host.immediate(lua, move |_, table: Table| {
            while_loading(&of, "register_tool")?;
            load::add_tool(&marks, &of, &names, &table)
                .map_err(|words| format!("register_tool: {words}"))
        })?,
    )?;
    let (of, names) = (Rc::clone(script), Rc::clone(taken));
    haft.raw_set(
        "register_command",
        host.immediate(lua, move |_, table: Table| {
            while_loading(&of, "register_command")?;
            load::add_command(&of, &names, &table)
                .map_err(|words| format!("register_command: {words}"))
        })?,
    )?;
    haft.raw_set("tool", lua.create_function(|_, table: Table| Ok(table))?)?;
    let (of, shared) = (Rc::clone(script), Rc::clone(host));
    haft.raw_set(
        "on",
        host.immediate(lua, move |_, (event, listener): (String, Function)| {
            if !EVENTS.contains(&event.as_str()) {
                return Err(format!(
                    "on: there is no event `{event}`; there are {}",
                    EVENTS.join(", ")
                ));
            }
            let mut listeners = of.listeners.borrow_mut();
            listeners.entry(event).or_default().push(listener);
            drop(listeners);
            (shared.listening)();
            Ok(())
        })?,
    )?;
    Ok(())
}

fn while_loading(script: &Script, name: &str) -> Result<(), String> {
    match script.loading.get() {
        true => Ok(()),
        false => Err(format!(
            "{name}: only while the extension loads, not from a handler or a callback"
        )),
    }
}
