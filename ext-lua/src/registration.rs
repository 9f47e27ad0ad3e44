//! From a script's table to a tool or a command, field by field.

use haft_api::{Effects, ToolName, ToolSpec, WorkspaceAccess};
use mlua::{Function, Table, Value};

use crate::json::{self, Marks};
use crate::script::{Handler, ScriptCommand, ScriptTool};

const SCHEMA: &[&str] = &["schema", "parameters", "input_schema", "inputSchema"];
const HANDLER: &[&str] = &["handler", "execute", "run"];

/// Reads a tool's table.
///
/// # Errors
/// The field that is missing or wrong, and what it has to be.
pub(crate) fn tool(marks: &Marks, table: &Table) -> Result<ScriptTool, String> {
    let name = text(table, "name")?;
    let what = format!("the tool `{name}`");
    let name = ToolName::new(&name).map_err(|e| format!("field `name`: {e}"))?;
    let description = text(table, "description").map_err(|e| format!("{what}: {e}"))?;
    let handler = function(table, HANDLER).map_err(|e| format!("{what}: {e}"))?;
    let mut spec = ToolSpec::new(name, description);
    if let Some((field, schema)) = first(table, SCHEMA) {
        let schema = match &schema {
            Value::String(text) => text.to_string_lossy(),
            Value::Table(_) => json::encode(marks, &schema, &json::Limits::default())
                .map(|json| json.get().to_owned())
                .map_err(|e| format!("{what}: field `{field}`: {e}"))?,
            other => {
                return Err(format!(
                    "{what}: field `{field}` must be a table or a JSON string, got {}",
                    other.type_name()
                ));
            }
        };
        spec = spec
            .schema(schema)
            .map_err(|e| format!("{what}: field `{field}`: {e}"))?;
    }
    let effects: Value = table.raw_get("effects").unwrap_or(Value::Nil);
    spec = spec.effects(self::effects(&effects).map_err(|e| format!("{what}: {e}"))?);
    match table.raw_get("timeout_ms").unwrap_or(Value::Nil) {
        Value::Nil => {}
        Value::Integer(ms) if ms > 0 => spec = spec.timeout_ms(ms.unsigned_abs()),
        _ => {
            return Err(format!(
                "{what}: field `timeout_ms` must be a positive integer"
            ));
        }
    }
    let handler = Handler::new(handler, &what);
    Ok(ScriptTool { spec, handler })
}

/// Reads a command's table.
///
/// # Errors
/// As [`tool`].
pub(crate) fn command(table: &Table) -> Result<ScriptCommand, String> {
    let name = text(table, "name")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':' | '.');
    if !name.chars().all(plain) {
        return Err(format!(
            "field `name`: `{name}` is no command's name (letters, digits, `-`, `_`, `:`, `.`)"
        ));
    }
    let what = format!("the command `{name}`");
    Ok(ScriptCommand {
        description: text(table, "description").map_err(|e| format!("{what}: {e}"))?,
        handler: Handler::new(
            function(table, HANDLER).map_err(|e| format!("{what}: {e}"))?,
            &what,
        ),
        name,
    })
}

fn first(table: &Table, names: &'static [&'static str]) -> Option<(&'static str, Value)> {
    names.iter().find_map(|name| {
        let value: Value = table.raw_get(*name).ok()?;
        (!value.is_nil()).then_some((*name, value))
    })
}

fn text(table: &Table, field: &str) -> Result<String, String> {
    match table.raw_get(field).unwrap_or(Value::Nil) {
        Value::String(text) => match text.to_str() {
            Ok(text) if !text.is_empty() => Ok((*text).to_owned()),
            Ok(_) => Err(format!("field `{field}` is empty")),
            Err(_) => Err(format!("field `{field}` isn't UTF-8")),
        },
        Value::Nil => Err(format!("field `{field}` is missing (a string)")),
        other => Err(format!(
            "field `{field}` must be a string, got {}",
            other.type_name()
        )),
    }
}

fn function(table: &Table, names: &'static [&'static str]) -> Result<Function, String> {
    match first(table, names) {
        Some((_, Value::Function(function))) => Ok(function),
        Some((field, other)) => Err(format!(
            "field `{field}` must be a function, got {}",
            other.type_name()
        )),
        None => Err(format!("field `{}` is missing (a function)", names[0])),
    }
}

fn effects(value: &Value) -> Result<Effects, String> {
    const WORDS: &str = "`pure`, `reads`, `writes`, `commands` or `network`";
    match value {
        Value::Nil => Ok(Effects::UNDECLARED),
        Value::String(word) => match &*word.to_string_lossy() {
            "pure" => Ok(Effects::PURE),
            "reads" => Ok(Effects::READS),
            "writes" => Ok(Effects::WRITES),
            "commands" => Ok(Effects::COMMANDS),
            "network" => Ok(Effects::NETWORK),
            other => Err(format!("field `effects`: `{other}` is none of {WORDS}")),
        },
        Value::Table(table) => {
            let mut effects = Effects::PURE;
            effects.idempotent = false;
            for pair in table.pairs::<Value, Value>() {
                let (key, value) = pair.map_err(|e| e.to_string())?;
                let key = key.to_string().unwrap_or_default();
                let refuse = || Err(format!("field `effects.{key}` has a value it can't have"));
                let slot = match key.as_str() {
                    "workspace" => {
                        effects.workspace = match value.to_string().unwrap_or_default().as_str() {
                            "none" => WorkspaceAccess::None,
                            "read" => WorkspaceAccess::Read,
                            "write" => WorkspaceAccess::Write,
                            _ => return refuse(),
                        };
                        continue;
                    }
                    "runs_commands" => &mut effects.runs_commands,
                    "network" => &mut effects.network,
                    "destructive" => &mut effects.destructive,
                    "idempotent" => &mut effects.idempotent,
                    _ => return Err(format!("field `effects`: there is no effect `{key}`")),
                };
                match value {
                    Value::Boolean(value) => *slot = value,
                    _ => return refuse(),
                }
            }
            Ok(effects)
        }
        other => Err(format!(
            "field `effects` must be a table or one of {WORDS}, got {}",
            other.type_name()
        )),
    }
}
