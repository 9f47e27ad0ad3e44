//! What items hold, as all wires take it.

use std::borrow::Cow;

use haft_api::{Part, ToolCall, ToolResult};

/// Stands for the result of a call that has none.
pub const NOT_RUN: &str = "The call was not run.";

/// Stands for a user's message of nothing, which servers refuse.
pub const NO_TEXT: &str = "(no text)";

/// Whether a part is a picture.
pub fn is_image(part: &Part) -> bool {
    matches!(part, Part::Image { .. })
}

/// A part's text; `None` for a picture.
pub fn part_text(part: &Part) -> Option<&str> {
    match part {
        Part::Text { text } => Some(text),
        Part::Json { value } => Some(value.get()),
        _ => None,
    }
}

/// All text of some parts, joined by line breaks.
pub fn joined_text<'p>(parts: impl IntoIterator<Item = &'p Part>) -> String {
    parts
        .into_iter()
        .filter_map(part_text)
        .collect::<Vec<_>>()
        .join("\n")
}

/// A call's arguments. Servers parse them, and refuse what is no object; a
/// model's broken text is kept within one.
pub fn arguments(call: &ToolCall) -> Cow<'_, str> {
    if let Some(object) = call.arguments_object() {
        return Cow::Borrowed(object);
    }
    let text = serde_json::from_str::<Cow<'_, str>>(call.arguments.get())
        .unwrap_or(Cow::Borrowed(call.arguments.get()));
    if text.trim().is_empty() {
        return Cow::Borrowed("{}");
    }
    Cow::Owned(serde_json::json!({ "invalid_arguments": text }).to_string())
}

/// What the model reads of a result, pictures apart. Never empty.
pub fn result_text(result: &ToolResult) -> Cow<'_, str> {
    let text = match result.parts.as_slice() {
        [Part::Text { text }] => Cow::Borrowed(text.as_str()),
        parts => Cow::Owned(joined_text(parts)),
    };
    match text.trim().is_empty() {
        true if result.parts.iter().any(is_image) => Cow::Borrowed("The picture follows."),
        true if text.is_empty() => Cow::Borrowed("(no output)"),
        _ => text,
    }
}

/// As [`result_text`], for wires without a mark for failures: the text says it.
pub fn marked_result_text(result: &ToolResult) -> Cow<'_, str> {
    let text = result_text(result);
    let marked = text
        .get(..5)
        .is_some_and(|start| start.eq_ignore_ascii_case("error"));
    match result.is_error && !marked {
        true => Cow::Owned(format!("Error: {text}")),
        false => text,
    }
}
