//! `json`, `base64`, `log`, `sleep`, result parts, clocks.

use std::rc::Rc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mlua::{Lua, MultiValue, Table, Value};

use super::option;
use crate::json;
use crate::script::Script;
use crate::state::{Host, reply};
use haft_script_host::Level;

/// Longest sleep; longer ones are a mistake of units.
const LONGEST: f64 = 7.0 * 86_400_000.0;

pub(super) fn add(
    lua: &Lua,
    host: &Rc<Host>,
    script: &Rc<Script>,
    haft: &Table,
) -> mlua::Result<()> {
    haft.raw_set("json", json(lua, host)?)?;
    haft.raw_set("base64", base64(lua, host)?)?;
    haft.raw_set("log", log(lua, host, script)?)?;
    haft.raw_set(
        "sleep",
        host.awaiting(lua, "haft.sleep", |_, ms: f64| {
            let time = milliseconds(ms)?;
            Ok(async move {
                // No time at all lets others run, and waits for no clock.
                if !time.is_zero() {
                    tokio::time::sleep(time).await;
                }
                Ok(reply(()))
            })
        })?,
    )?;
    let began = Instant::now();
    haft.raw_set(
        "now",
        lua.create_function(move |_, ()| Ok(began.elapsed().as_secs_f64() * 1000.0))?,
    )?;
    haft.raw_set(
        "text",
        host.immediate(lua, |lua, text: mlua::LuaString| {
            part(lua, "text", &[("text", Value::String(text))])
        })?,
    )?;
    haft.raw_set(
        "image",
        host.immediate(lua, |lua, image: Table| {
            let media: mlua::LuaString =
                option(&image, "media_type")?.ok_or("image: field `media_type` is missing")?;
            let data: Option<mlua::LuaString> = option(&image, "data")?;
            let bytes: Option<mlua::LuaString> = option(&image, "bytes")?;
            let data = match (data, bytes) {
                (Some(data), None) => data,
                (None, Some(bytes)) => lua
                    .create_string(STANDARD.encode(bytes.as_bytes()))
                    .map_err(|e| e.to_string())?,
                _ => return Err("image: either `data` (base64) or `bytes`".to_owned()),
            };
            let fields = [
                ("media_type", Value::String(media)),
                ("data", Value::String(data)),
            ];
            part(lua, "image", &fields)
        })?,
    )?;
    haft.raw_set(
        "json_part",
        host.immediate(lua, |lua, value: Value| {
            part(lua, "json", &[("value", value)])
        })?,
    )?;
    Ok(())
}

/// A time in milliseconds.
pub(crate) fn milliseconds(ms: f64) -> Result<Duration, String> {
    match ms {
        ms if ms.is_nan() || ms < 0.0 => Err(format!("{ms} is no time in milliseconds")),
        ms if ms > LONGEST => Err(format!("{ms} ms is longer than a week")),
        ms => Ok(Duration::from_secs_f64(ms / 1000.0)),
    }
}

fn part(lua: &Lua, kind: &str, fields: &[(&str, Value)]) -> Result<Table, String> {
    let make = || -> mlua::Result<Table> {
        let part = lua.create_table()?;
        part.raw_set("type", kind)?;
        for (name, value) in fields {
            part.raw_set(*name, value)?;
        }
        Ok(part)
    };
    make().map_err(|e| e.to_string())
}

fn json(lua: &Lua, host: &Rc<Host>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("null", Value::NULL)?;
    let (limits, marks) = (host.json_limits(), Rc::clone(&host.marks));
    table.raw_set(
        "encode",
        host.immediate(lua, move |_, value: Value| {
            json::encode(&marks, &value, &limits).map(|json| json.get().to_owned())
        })?,
    )?;
    let marks = Rc::clone(&host.marks);
    table.raw_set(
        "decode",
        host.immediate(lua, move |lua, text: mlua::LuaString| {
            let text = text
                .to_str()
                .map_err(|_| "the text isn't UTF-8".to_owned())?;
            json::decode(lua, &marks, &text).map_err(|words| format!("not JSON: {words}"))
        })?,
    )?;
    let mark = host.marks.array.clone();
    table.raw_set(
        "array",
        host.immediate(
            lua,
            move |lua, (table, n): (Option<Table>, Option<usize>)| {
                let make = || -> mlua::Result<Table> {
                    let table = match table {
                        Some(table) => table,
                        None => lua.create_table()?,
                    };
                    for at in 1..=n.unwrap_or(0) {
                        if table.raw_get::<Value>(at)?.is_nil() {
                            table.raw_set(at, Value::NULL)?;
                        }
                    }
                    table.set_metatable(Some(mark.clone()))?;
                    Ok(table)
                };
                if n.is_some_and(|n| n > 10_000_000) {
                    return Err("array: more than 10,000,000 places".to_owned());
                }
                make().map_err(|e| e.to_string())
            },
        )?,
    )?;
    let mark = host.marks.object.clone();
    table.raw_set(
        "object",
        host.immediate(lua, move |lua, table: Option<Table>| {
            let make = || -> mlua::Result<Table> {
                let table = match table {
                    Some(table) => table,
                    None => lua.create_table()?,
                };
                table.set_metatable(Some(mark.clone()))?;
                Ok(table)
            };
            make().map_err(|e| e.to_string())
        })?,
    )?;
    Ok(table)
}

fn base64(lua: &Lua, host: &Rc<Host>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set(
        "encode",
        host.immediate(lua, |_, bytes: mlua::LuaString| {
            Ok(STANDARD.encode(bytes.as_bytes()))
        })?,
    )?;
    table.raw_set(
        "decode",
        host.immediate(lua, |lua, text: mlua::LuaString| {
            let bytes = STANDARD
                .decode(text.as_bytes())
                .map_err(|e| format!("not base64: {e}"))?;
            lua.create_string(bytes).map_err(|e| e.to_string())
        })?,
    )?;
    Ok(table)
}

/// `haft.log("words")`, and `haft.log.warn("words")` for each level.
fn log(lua: &Lua, host: &Rc<Host>, script: &Rc<Script>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let say = |level: Level| -> mlua::Result<mlua::Function> {
        let of = Rc::clone(script);
        host.immediate(lua, move |_, values: MultiValue| {
            let mut words = Vec::new();
            for value in &values {
                words.push(value.to_string().map_err(|e| e.to_string())?);
            }
            of.say(level, &words.join(" "));
            Ok(())
        })
    };
    table.raw_set("debug", say(Level::Debug)?)?;
    table.raw_set("info", say(Level::Info)?)?;
    table.raw_set("warn", say(Level::Warn)?)?;
    table.raw_set("error", say(Level::Error)?)?;
    let meta = lua.create_table()?;
    let of = Rc::clone(script);
    let call = host.immediate(lua, move |_, (_, value): (Table, Value)| {
        of.say(Level::Info, &value.to_string().map_err(|e| e.to_string())?);
        Ok(())
    })?;
    meta.raw_set("__call", call)?;
    table.set_metatable(Some(meta))?;
    Ok(table)
}
