//! Events in one line.

use haft_api::{Event, EventBody, Item};

/// The name of an event's kind, as it stands in JSON, such as `turn.started`.
pub fn event_name(body: &EventBody) -> String {
    // The names stand in one place, the serialised form.
    let json = serde_json::to_value(body).unwrap_or_default();
    json["type"].as_str().unwrap_or("?").to_owned()
}

/// Events in one line, lossy ones left out: how many pieces an answer comes in
/// is nobody's promise.
///
/// ```
/// use std::sync::Arc;
/// use haft_api::*;
/// use haft_testkit::{fixture, summarise};
///
/// let bodies = [
///     EventBody::TurnStarted { engine: fixture::extension_id("scripted"), model: None },
///     EventBody::ItemAppended { item: Arc::new(Item::user("hi")) },
///     EventBody::MessageDelta { text: "hel".into() },
///     EventBody::ItemAppended { item: Arc::new(Item::assistant("hello")) },
///     EventBody::TurnCompleted { usage: Usage::default() },
/// ];
/// let events: Vec<_> = (0..)
///     .zip(bodies)
///     .map(|(seq, body)| Event::new(seq, fixture::thread_id("t"), None, 0, body))
///     .collect();
/// assert_eq!(
///     summarise(&events),
///     "turn.started item.appended(user_message) item.appended(assistant_message) turn.completed",
/// );
/// ```
pub fn summarise(events: &[Event]) -> String {
    let words: Vec<String> = events
        .iter()
        .filter(|event| !event.body.is_lossy())
        .map(|event| word(&event.body))
        .collect();
    words.join(" ")
}

fn word(body: &EventBody) -> String {
    let name = event_name(body);
    let detail = match body {
        EventBody::ItemAppended { item } => match &**item {
            Item::ToolCall(call) => format!("tool_call:{}", call.name),
            Item::ToolResult(result) if result.is_error => {
                format!("tool_result:{}:error", result.name)
            }
            Item::ToolResult(result) => format!("tool_result:{}", result.name),
            Item::Notice { code, .. } => format!("notice:{code}"),
            other => other.type_name().to_owned(),
        },
        EventBody::ToolStarted { name, .. }
        | EventBody::ApprovalRequested { name, .. }
        | EventBody::ExternalCallRequested { name, .. } => name.clone(),
        EventBody::ToolCompleted { name, is_error, .. } if *is_error => format!("{name}:error"),
        EventBody::ToolCompleted { name, .. } => name.clone(),
        EventBody::ApprovalResolved { approved, .. } => approved.to_string(),
        EventBody::ThreadUpdated { fields } => fields.join(","),
        EventBody::Lagged { from, to } => format!("{from}..{to}"),
        EventBody::TurnFailed { error, .. } => error.kind.to_string(),
        _ => return name,
    };
    format!("{name}({detail})")
}
