//! A tool call and its result in a line.

use std::fmt;

use haft_api::{Part, ToolCall, join_text};
use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::Value;

use super::bytes;
use crate::failure::one_line;

/// Most characters of a call's arguments in a line.
const ARGUMENTS: usize = 80;
/// Most characters of a result that is shown itself.
const RESULT: usize = 100;

/// A call as it stands in a line.
pub(super) fn call_line(call: &ToolCall) -> String {
    let line = format!(
        "{} {}",
        one_line(&call.name),
        call_summary(call.arguments.get())
    );
    line.trim_end().to_owned()
}

/// What a call is about: its first argument, and the others by name.
pub(crate) fn call_summary(arguments: &str) -> String {
    let Ok(Fields(fields)) = serde_json::from_str(arguments) else {
        return cut(&one_line(arguments), ARGUMENTS);
    };
    let shown = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let words: Vec<_> = fields
        .iter()
        .enumerate()
        .map(|(index, (name, value))| match index {
            0 => shown(value),
            _ => format!("{name}={}", shown(value)),
        })
        .collect();
    cut(&one_line(&words.join(" ")), ARGUMENTS)
}

/// What came of a call: a short result itself, of a long one the size; of a
/// failure the first line.
pub(crate) fn result_summary(parts: &[Part], is_error: bool) -> String {
    let text = join_text(parts);
    let others = parts.iter().filter_map(|part| match part {
        Part::Text { .. } => None,
        Part::Image { media_type, .. } => Some(format!("[{}]", one_line(media_type))),
        Part::Json { value } => Some(cut(&one_line(value.get()), RESULT)),
        _ => Some("[…]".to_owned()),
    });
    let lines = text.trim_end().lines().count();
    let text = if is_error || (lines <= 1 && text.chars().count() <= RESULT) {
        let first = text.lines().find(|line| !line.trim().is_empty());
        cut(&one_line(first.unwrap_or_default()), RESULT)
    } else {
        let size = bytes(text.len() as u64);
        match lines {
            1 => size,
            _ => format!("{lines} lines, {size}"),
        }
    };
    let all: Vec<_> = Some(text)
        .filter(|t| !t.is_empty())
        .into_iter()
        .chain(others)
        .collect();
    all.join(" ")
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// An object's fields in the order in which they stand.
struct Fields(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_what_it_is_about() {
        let check = |arguments: &str, expected: &str| assert_eq!(call_summary(arguments), expected);
        check("{}", "");
        check(r#"{"path":"notes.txt"}"#, "notes.txt");
        check(r#"{"z":"first","a":2,"b":[true]}"#, "first a=2 b=[true]");
        check(r#"{"command":"echo a\necho b"}"#, "echo a echo b");
        check(r#""{\"a\":""#, r#""{\"a\":""#);
        check(
            &format!(r#"{{"p":"{}"}}"#, "中".repeat(81)),
            &format!("{}…", "中".repeat(80)),
        );
    }

    #[test]
    fn a_result_is_itself_or_its_size() {
        let check = |text: &str, is_error, expected: &str| {
            assert_eq!(result_summary(&[Part::text(text)], is_error), expected);
        };
        check("hi\n", false, "hi");
        check("a\nb\nc", false, "3 lines, 5 B");
        check(&"x".repeat(101), false, "101 B");
        check("\nno such file\nnear: a.txt", true, "no such file");
        let image = Part::Image {
            media_type: "image/png".into(),
            data: String::new(),
        };
        assert_eq!(
            result_summary(&[Part::text("a.png"), image], false),
            "a.png [image/png]"
        );
        let value = haft_api::raw_json(r#"{"a":1}"#).unwrap();
        assert_eq!(result_summary(&[Part::Json { value }], false), r#"{"a":1}"#);
    }
}
