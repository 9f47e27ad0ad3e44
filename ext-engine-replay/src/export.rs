//! Scripts from recorded threads.

use haft_api::{Item, ToolCall};
use serde::Serialize;
use serde_json::value::RawValue;

/// An event, written as [`Script`](crate::Script) reads it.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Written<'a> {
    Text { text: &'a str },
    Reasoning { text: &'a str },
    Error { kind: &'a str, message: &'a str },
    Stop { reason: &'a str },
}

/// A call is apart: serde's tagged enums can't carry raw JSON.
#[derive(Serialize)]
struct WrittenCall<'a> {
    r#type: &'a str,
    id: &'a str,
    name: &'a str,
    arguments: Arguments<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Arguments<'a> {
    Json(&'a RawValue),
    Text(&'a str),
}

/// Writes the script that plays a thread's recorded rounds again.
///
/// What the model said between two of the thread's user messages or tool
/// results is one round and one line. A notice of code `output_limit` or
/// `content_filter` makes it stop for that reason; one of code `interrupted`
/// makes it end with an error of kind `cancelled`, so that the turn it belongs
/// to ends there when it is played, too. Provider state, usage and timing aren't
/// in the items' portable form, and aren't written.
///
/// ```
/// use haft_api::Item;
/// use haft_ext_engine_replay::script_from_items;
///
/// let script = script_from_items(&[Item::user("hi"), Item::assistant("hello")]);
/// assert_eq!(script, "{\"events\":[{\"type\":\"text\",\"text\":\"hello\"}]}\n");
/// ```
pub fn script_from_items<'a>(items: impl IntoIterator<Item = &'a Item>) -> String {
    let mut script = String::new();
    let mut round = Vec::new();
    for item in items {
        match item {
            Item::AssistantMessage { text, .. } => round.push(write(&Written::Text { text })),
            // Without text there is nothing to show; only its provider reads the rest.
            Item::Reasoning { text, .. } if text.is_empty() => {}
            Item::Reasoning { text, .. } => round.push(write(&Written::Reasoning { text })),
            Item::ToolCall(call) => round.push(write_call(call)),
            Item::Notice { code, text, .. } => {
                if let Some(end) = end_of(code, text) {
                    round.push(write(&end));
                    end_round(&mut round, &mut script);
                }
            }
            Item::UserMessage { .. } | Item::ToolResult(_) => end_round(&mut round, &mut script),
            _ => {}
        }
    }
    end_round(&mut round, &mut script);
    script
}

/// How a round ended, where a notice says so. Other notices are the runtime's
/// own, and say nothing of the model.
fn end_of<'a>(code: &str, text: &'a str) -> Option<Written<'a>> {
    match code {
        "interrupted" => Some(Written::Error {
            kind: "cancelled",
            message: text,
        }),
        "output_limit" => Some(Written::Stop { reason: "length" }),
        "content_filter" => Some(Written::Stop {
            reason: "content_filter",
        }),
        _ => None,
    }
}

fn end_round(round: &mut Vec<String>, script: &mut String) {
    if !round.is_empty() {
        script.push_str("{\"events\":[");
        script.push_str(&round.join(","));
        script.push_str("]}\n");
        round.clear();
    }
}

fn write_call(call: &ToolCall) -> String {
    let raw = call.arguments.get();
    // Raw JSON may be written over several lines; a script's round is one.
    let arguments = match raw.contains(['\n', '\r']) {
        true => Arguments::Text(raw),
        false => Arguments::Json(&call.arguments),
    };
    write(&WrittenCall {
        r#type: "call",
        id: call.id.as_str(),
        name: &call.name,
        arguments,
    })
}

fn write(event: &impl Serialize) -> String {
    serde_json::to_string(event).expect("strings and raw JSON always serialise")
}

#[cfg(test)]
mod tests;
