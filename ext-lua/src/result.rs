//! From what a handler returned to what the model reads.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use haft_api::{Part, ToolOutput};
use mlua::{Table, Value};

use crate::json::{self, Marks};
use crate::scheduler::Returned;

/// A handler's values as a tool's output: nothing, a text, a JSON value, a part
/// or a list of parts, `{ content = parts, is_error = … }`, or `nil` and a
/// message, which is an error.
///
/// # Errors
/// What can't be said, and where it stands.
pub(crate) fn output(
    marks: &Marks,
    (first, second): &Returned,
    limits: &json::Limits,
) -> Result<ToolOutput, String> {
    if first.is_nil() {
        return Ok(match second {
            Value::String(message) => ToolOutput::error(message.to_string_lossy()),
            _ => ToolOutput::parts(Vec::new()),
        });
    }
    let mut output = match first {
        Value::Table(table) if is_wrapped(table) => wrapped(marks, table, limits)?,
        value => ToolOutput::parts(parts_of(marks, value, limits)?),
    };
    // An empty text says nothing, and no result has one.
    output
        .parts
        .retain(|part| part.as_text().is_none_or(|text| !text.is_empty()));
    Ok(output)
}

fn field(table: &Table, names: &[&str]) -> Value {
    names
        .iter()
        .filter_map(|name| table.raw_get::<Value>(*name).ok())
        .find(|value| !value.is_nil())
        .unwrap_or(Value::Nil)
}

fn is_wrapped(table: &Table) -> bool {
    matches!(field(table, &["content"]), Value::Table(parts) if as_parts(&parts).is_some())
}

fn wrapped(marks: &Marks, table: &Table, limits: &json::Limits) -> Result<ToolOutput, String> {
    let content = parts_of(marks, &field(table, &["content"]), limits)?;
    let mut output = ToolOutput::parts(content);
    output.is_error = matches!(field(table, &["is_error", "isError"]), Value::Boolean(true));
    Ok(output)
}

fn parts_of(marks: &Marks, value: &Value, limits: &json::Limits) -> Result<Vec<Part>, String> {
    match value {
        Value::String(text) => Ok(vec![Part::text(utf8(text, "the result")?)]),
        Value::Table(table) => match as_parts(table) {
            Some(parts) => parts
                .iter()
                .enumerate()
                .map(|(index, table)| part(marks, index + 1, table, limits))
                .collect(),
            None => Ok(vec![as_json(marks, value, limits)?]),
        },
        value => Ok(vec![as_json(marks, value, limits)?]),
    }
}

fn as_json(marks: &Marks, value: &Value, limits: &json::Limits) -> Result<Part, String> {
    json::encode(marks, value, limits).map(|value| Part::Json { value })
}

/// The parts, if it is a part or a list of nothing but parts.
fn as_parts(table: &Table) -> Option<Vec<Table>> {
    if is_part(table) {
        return Some(vec![table.clone()]);
    }
    let length = table.raw_len();
    if length == 0 {
        return None;
    }
    (1..=length)
        .map(|at| match table.raw_get(at) {
            Ok(Value::Table(part)) if is_part(&part) => Some(part),
            _ => None,
        })
        .collect()
}

fn is_part(table: &Table) -> bool {
    let Value::String(kind) = field(table, &["type"]) else {
        return false;
    };
    match &*kind.to_string_lossy() {
        "text" => matches!(field(table, &["text"]), Value::String(_)),
        "image" => matches!(field(table, &["data"]), Value::String(_)),
        "json" => !field(table, &["value"]).is_nil(),
        _ => false,
    }
}

fn part(marks: &Marks, at: usize, table: &Table, limits: &json::Limits) -> Result<Part, String> {
    let what = format!("part {at} of the result");
    match &*field(table, &["type"]).to_string().unwrap_or_default() {
        "text" => match field(table, &["text"]) {
            Value::String(text) => Ok(Part::text(utf8(&text, &what)?)),
            _ => Err(format!("{what} has no text")),
        },
        "image" => {
            let media = field(table, &["media_type", "mime_type", "mimeType"]);
            let (Value::String(media), Value::String(data)) = (media, field(table, &["data"]))
            else {
                return Err(format!("{what}: an image needs `media_type` and `data`"));
            };
            let data = utf8(&data, &what)?;
            if STANDARD.decode(&data).is_err() {
                return Err(format!(
                    "{what}: an image's `data` is base64 (see haft.base64.encode)"
                ));
            }
            Ok(Part::Image {
                media_type: media.to_string_lossy(),
                data,
            })
        }
        _ => as_json(marks, &field(table, &["value"]), limits).map_err(|e| format!("{what}: {e}")),
    }
}

fn utf8(text: &mlua::LuaString, what: &str) -> Result<String, String> {
    String::from_utf8(text.as_bytes().to_vec()).map_err(|e| {
        format!(
            "{what} isn't UTF-8 (at byte {}); use haft.base64.encode for bytes",
            e.utf8_error().valid_up_to() + 1
        )
    })
}
