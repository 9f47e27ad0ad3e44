//! What scripts are offered: `haft`, and its older name `panto`.

mod fs;
#[cfg(feature = "http")]
mod http;
mod process;
mod register;
mod store;
mod values;

use std::path::Path;
use std::rc::Rc;

use mlua::{Lua, Table, Value};

use crate::load::Taken;
use crate::script::Script;
use crate::state::Host;
use haft_script_host::Level;

pub(crate) use values::milliseconds;

/// A script's globals.
pub(crate) fn environment(
    lua: &Lua,
    host: &Rc<Host>,
    script: &Rc<Script>,
    taken: &Rc<Taken>,
) -> mlua::Result<Table> {
    let env = host.environment(own(lua, host, script)?)?;
    let haft = lua.create_table()?;
    register::add(lua, host, script, taken, &haft)?;
    values::add(lua, host, script, &haft)?;
    fs::add(lua, host, script, &haft)?;
    process::add(lua, host, script, &haft)?;
    store::add(lua, host, script, &haft)?;
    #[cfg(feature = "http")]
    http::add(lua, host, script, &haft)?;
    haft.raw_set("version", env!("CARGO_PKG_VERSION"))?;
    haft.raw_set("extension", script.name())?;
    env.raw_set("haft", &haft)?;
    env.raw_set("panto", &haft)?;
    let package: Table = env.raw_get("package")?;
    let loaded: Table = package.raw_get("loaded")?;
    loaded.raw_set("haft", &haft)?;
    loaded.raw_set("panto", &haft)?;
    crate::luv::add(lua, host, script, &package)?;
    Ok(env)
}

/// What the prelude needs of a script to make its globals.
fn own(lua: &Lua, host: &Rc<Host>, script: &Rc<Script>) -> mlua::Result<Table> {
    let own = lua.create_table()?;
    own.raw_set("path", script.place.module_path())?;
    own.raw_set("cpath", script.place.library_path())?;
    own.raw_set(
        "library_exists",
        lua.create_function(|_, file: String| Ok(Path::new(&file).is_file()))?,
    )?;
    let of = Rc::clone(script);
    own.raw_set(
        "may_load_library",
        host.plain(lua, move |_, name: String| {
            of.grants.check_native(of.name(), &name).map(|()| true)
        })?,
    )?;
    let of = Rc::clone(script);
    let log = lua.create_function(move |_, (level, text): (String, mlua::LuaString)| {
        of.say(
            Level::parse(&level).unwrap_or(Level::Info),
            &text.to_string_lossy(),
        );
        Ok(())
    })?;
    own.raw_set("log", log)?;
    let of = Rc::clone(script);
    own.raw_set(
        "getenv",
        host.immediate(lua, move |_, name: String| env_var(&of, &name))?,
    )?;
    let of = Rc::clone(script);
    own.raw_set(
        "open_path",
        host.plain(lua, move |_, (path, mode): (String, String)| {
            let write = mode.contains(['w', 'a', '+']);
            let place = of.check_path(&path, write)?;
            // Opening a pipe or a device may never return.
            match place.metadata() {
                Ok(found) if !found.is_file() => Err(format!("{path}: not a regular file")),
                _ => Ok(place.display().to_string()),
            }
        })?,
    )?;
    let of = Rc::clone(script);
    own.raw_set(
        "remove",
        host.plain(lua, move |_, path: String| {
            let place = of.check_path(&path, true)?;
            std::fs::remove_file(&place)
                .or_else(|e| match place.is_dir() {
                    true => std::fs::remove_dir(&place),
                    false => Err(e),
                })
                .map(|()| true)
                .map_err(|e| format!("{path}: {e}"))
        })?,
    )?;
    let of = Rc::clone(script);
    own.raw_set(
        "rename",
        host.plain(lua, move |_, (from, to): (String, String)| {
            let (source, target) = (of.check_path(&from, true)?, of.check_path(&to, true)?);
            std::fs::rename(source, target)
                .map(|()| true)
                .map_err(|e| format!("{from}: {e}"))
        })?,
    )?;
    own.raw_set(
        "tmpname",
        host.plain(lua, |_, ()| {
            Err::<String, _>("os.tmpname isn't available to scripts".to_owned())
        })?,
    )?;
    let of = Rc::clone(script);
    own.raw_set(
        "module_exists",
        lua.create_function(move |_, file: String| {
            let file = Path::new(&file);
            Ok(file.is_file() && of.may_load(file))
        })?,
    )?;
    let of = Rc::clone(script);
    own.raw_set(
        "read_module",
        host.plain(lua, move |lua, file: String| {
            let path = Path::new(&file);
            if !of.may_load(path) {
                return Err(format!("{file}: outside of the extension"));
            }
            let bytes = std::fs::read(path).map_err(|e| format!("{file}: {e}"))?;
            lua.create_string(bytes).map_err(|e| e.to_string())
        })?,
    )?;
    let of = Rc::clone(script);
    own.raw_set(
        "chunk_name",
        lua.create_function(move |_, file: String| Ok(of.place.chunk_name(Path::new(&file))))?,
    )?;
    Ok(own)
}

/// A variable of the environment, if the script may read it.
pub(crate) fn env_var(script: &Script, name: &str) -> Result<Option<String>, String> {
    script.grants.check_env(script.name(), name)?;
    Ok(std::env::var(name).ok())
}

/// A field of an options table.
pub(crate) fn option<T: mlua::FromLua>(table: &Table, name: &str) -> Result<Option<T>, String> {
    table
        .get::<Option<T>>(name)
        .map_err(|e| format!("field `{name}`: {e}"))
}

/// A value that must be a table, or nothing.
pub(crate) fn options(lua: &Lua, value: Option<Value>) -> Result<Table, String> {
    match value {
        None | Some(Value::Nil) => lua.create_table().map_err(|e| e.to_string()),
        Some(Value::Table(table)) => Ok(table),
        Some(other) => Err(format!(
            "options must be a table, got {}",
            other.type_name()
        )),
    }
}
