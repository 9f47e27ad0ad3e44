//! Child processes.

use std::process::Stdio;

use mlua::{AnyUserData, Function, IntoLuaMulti as _, Lua, Table, UserData, Value};
use rustix::process::{Pid, Signal, kill_process_group};

use super::Loop;
use super::stream::{Stream, code};
use crate::api::option;
use crate::script::OpenHandle;

/// A child that runs; nothing of it outlives the state.
struct Child {
    group: Pid,
}

impl UserData for Child {}

/// Kills what is left of a child's group.
struct Group(Pid);

impl Drop for Group {
    fn drop(&mut self) {
        // Nobody may be left, which is what was wanted.
        kill_process_group(self.0, Signal::KILL).ok();
    }
}

pub(super) fn add(lua: &Lua, shared: &Loop, to: &Table) -> mlua::Result<()> {
    let of = shared.clone();
    to.raw_set(
        "spawn",
        shared
            .host
            .plain(lua, move |lua, (given, on_exit): (Table, Function)| {
                spawn(lua, &of, &given, on_exit)
            })?,
    )?;
    to.raw_set(
        "kill",
        shared
            .host
            .plain(lua, |_, (child, signal): (AnyUserData, i32)| {
                let child = child.borrow::<Child>().map_err(|e| e.to_string())?;
                let signal = Signal::from_named_raw(signal).ok_or("EINVAL: no such signal")?;
                kill_process_group(child.group, signal).map_err(|e| format!("ESRCH: {e}"))?;
                Ok(0)
            })?,
    )
}

fn spawn(
    lua: &Lua,
    of: &Loop,
    given: &Table,
    on_exit: Function,
) -> Result<(AnyUserData, u32, Table), String> {
    let path: String = option(given, "path")?.ok_or("EINVAL: no program")?;
    of.script
        .grants
        .check_process(of.script.name(), &path)
        .map_err(|e| format!("EACCES: {e}"))?;
    let args: Vec<String> = option(given, "args")?.unwrap_or_default();
    let piped = |name: &str| -> Result<Stdio, String> {
        Ok(match option::<bool>(given, name)?.unwrap_or(false) {
            true => Stdio::piped(),
            false => Stdio::null(),
        })
    };
    let mut command = tokio::process::Command::new(&path);
    command
        .args(args)
        .stdin(piped("stdin")?)
        .stdout(piped("stdout")?)
        .stderr(piped("stderr")?)
        .process_group(0)
        .kill_on_drop(true);
    if let Some(cwd) = option::<String>(given, "cwd")? {
        command.current_dir(cwd);
    }
    if let Some(env) = option::<Vec<String>>(given, "env")? {
        command.env_clear();
        command.envs(env.iter().filter_map(|entry| entry.split_once('=')));
    }
    let mut child = command
        .spawn()
        .map_err(|e| format!("{}: {path}: {e}", code(&e)))?;
    let id = child.id().ok_or("ESRCH: it ended at once")?;
    let group = i32::try_from(id)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or("ESRCH: it ended at once")?;
    let mut make = || -> mlua::Result<(AnyUserData, Table)> {
        let streams = lua.create_table()?;
        if let Some(stdin) = child.stdin.take() {
            let stream = Stream::new(None, Some(Box::new(stdin)));
            streams.raw_set(1, lua.create_userdata(stream)?)?;
        }
        if let Some(stdout) = child.stdout.take() {
            let stream = Stream::new(Some(Box::new(stdout)), None);
            streams.raw_set(2, lua.create_userdata(stream)?)?;
        }
        if let Some(stderr) = child.stderr.take() {
            let stream = Stream::new(Some(Box::new(stderr)), None);
            streams.raw_set(3, lua.create_userdata(stream)?)?;
        }
        Ok((lua.create_userdata(Child { group })?, streams))
    };
    let (handle, streams) = make().map_err(|e| e.to_string())?;
    let (of, open) = (of.clone(), OpenHandle::new(&of.script));
    tokio::task::spawn_local(async move {
        let _group = Group(group);
        let (code, signal) = match child.wait().await {
            Ok(status) => {
                use std::os::unix::process::ExitStatusExt as _;
                (status.code().unwrap_or(0), status.signal().unwrap_or(0))
            }
            Err(_) => (-1, 0),
        };
        of.call("a process's exit callback", &on_exit, |lua| {
            (Value::Integer(code.into()), Value::Integer(signal.into())).into_lua_multi(lua)
        });
        tokio::task::yield_now().await;
        drop(open);
    });
    Ok((handle, id, streams))
}
