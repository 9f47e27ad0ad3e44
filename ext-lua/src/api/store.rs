//! `haft.state`: what an extension keeps beyond its own life.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use mlua::{Lua, Table, Value};
use serde_json::value::RawValue;

use crate::json;
use crate::script::Script;
use crate::state::{Host, reply};

/// Most bytes of an extension's state.
const LARGEST: usize = 16 * 1024 * 1024;

#[derive(Default)]
struct Kept {
    read: bool,
    values: BTreeMap<String, Box<RawValue>>,
    /// One write after the other.
    writing: Rc<tokio::sync::Mutex<()>>,
}

/// Reads the file, the first time. A damaged one is an error, and never
/// overwritten.
fn read(script: &Script, kept: &mut Kept) -> Result<(), String> {
    if kept.read {
        return Ok(());
    }
    if let Some(file) = &script.state_file {
        match std::fs::read(file) {
            Ok(bytes) => {
                kept.values = serde_json::from_slice(&bytes)
                    .map_err(|e| format!("state: {} is damaged: {e}", file.display()))?;
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(format!("state: {}: {e}", file.display())),
        }
    }
    kept.read = true;
    Ok(())
}

pub(super) fn add(
    lua: &Lua,
    host: &Rc<Host>,
    script: &Rc<Script>,
    haft: &Table,
) -> mlua::Result<()> {
    let state = lua.create_table()?;
    let kept = Rc::new(RefCell::new(Kept::default()));

    let (of, all) = (Rc::clone(script), Rc::clone(&kept));
    let marks = Rc::clone(&host.marks);
    state.raw_set(
        "get",
        host.immediate(lua, move |lua, key: String| {
            let mut kept = all.borrow_mut();
            read(&of, &mut kept)?;
            match kept.values.get(&key) {
                Some(value) => json::decode(lua, &marks, value.get()),
                None => Ok(Value::Nil),
            }
        })?,
    )?;

    let (of, all) = (Rc::clone(script), Rc::clone(&kept));
    state.raw_set(
        "keys",
        host.immediate(lua, move |_, ()| {
            let mut kept = all.borrow_mut();
            read(&of, &mut kept)?;
            Ok(kept.values.keys().cloned().collect::<Vec<_>>())
        })?,
    )?;

    let (of, all, limits) = (Rc::clone(script), kept, host.json_limits());
    let marks = Rc::clone(&host.marks);
    state.raw_set(
        "set",
        host.awaiting(
            lua,
            "haft.state.set",
            move |_, (key, value): (String, Value)| {
                let mut now = all.borrow_mut();
                read(&of, &mut now)?;
                let before = match value {
                    Value::Nil => now.values.remove(&key),
                    value => {
                        let raw = json::encode(&marks, &value, &limits)?;
                        now.values.insert(key.clone(), raw)
                    }
                };
                let text = serde_json::to_string(&now.values).map_err(|e| e.to_string())?;
                if text.len() > LARGEST {
                    match before {
                        Some(before) => now.values.insert(key, before),
                        None => now.values.remove(&key),
                    };
                    return Err(format!("state: more than {LARGEST} bytes"));
                }
                drop(now);
                let (all, of) = (Rc::clone(&all), Rc::clone(&of));
                // What was begun is finished, even if the call ends meanwhile.
                let writing = tokio::task::spawn_local(async move { write(&of, &all).await });
                Ok(async move {
                    writing
                        .await
                        .map_err(|e| format!("state: {e}"))?
                        .map(|()| reply(()))
                })
            },
        )?,
    )?;
    haft.raw_set("state", state)
}

async fn write(script: &Script, kept: &RefCell<Kept>) -> Result<(), String> {
    let Some(file) = &script.state_file else {
        return Ok(());
    };
    let writing = Rc::clone(&kept.borrow().writing);
    let _alone = writing.lock().await;
    // The newest values, whoever's turn it is.
    let text = serde_json::to_vec(&kept.borrow().values).map_err(|e| e.to_string())?;
    let fails = |e: std::io::Error| format!("state: {}: {e}", file.display());
    if let Some(folder) = file.parent() {
        tokio::fs::create_dir_all(folder).await.map_err(fails)?;
    }
    super::fs::replace(file, &text).await.map_err(fails)
}
