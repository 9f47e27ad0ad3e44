//! Items as messages.

use std::borrow::Cow;
use std::sync::Arc;

use haft_api::{Item, Part, ProviderState, ToolCall, ToolResult};
use haft_engine_http::call_id::short;
use haft_engine_http::history::Written;
use haft_engine_http::json::{Object, list, write};
use haft_engine_http::tool_names::wire_name;

use super::EncodeSettings;

/// Writes the messages of the first step of these items, each after a comma.
pub(super) fn write_group(
    items: &[Arc<Item>],
    out: &mut Vec<u8>,
    settings: &EncodeSettings,
) -> Option<Written> {
    let group = Group::at_start_of(items)?;
    group.write(out, settings);
    Some(Written {
        items: group.len,
        is_final: group.is_closed(),
    })
}

/// The items that make one step of the conversation: what the user said, or
/// what the model said in a round with the results of its calls.
#[derive(Debug, Default)]
struct Group<'a> {
    user: Option<&'a [Part]>,
    reasoning: Vec<(&'a str, Option<&'a ProviderState>)>,
    text: Vec<&'a str>,
    calls: Vec<&'a ToolCall>,
    results: Vec<&'a ToolResult>,
    /// How many items it is made of.
    len: usize,
    /// Another group's item was seen behind it.
    followed: bool,
}

impl<'a> Group<'a> {
    /// The first group of these items; `None` if there is nothing left for the
    /// model to see.
    fn at_start_of(items: &'a [Arc<Item>]) -> Option<Self> {
        let mut group = Self::default();
        for item in items {
            if !group.take(item) {
                group.followed = true;
                break;
            }
            group.len += 1;
            if group.is_answered() {
                break;
            }
        }
        let seen = group.user.is_some() || group.speaks() || !group.results.is_empty();
        (seen || group.followed).then_some(group)
    }

    /// Takes an item in, if it belongs to this group.
    fn take(&mut self, item: &'a Item) -> bool {
        match item {
            Item::UserMessage { parts } => {
                if self.user.is_some() || self.speaks() || !self.results.is_empty() {
                    return false;
                }
                self.user = Some(parts);
            }
            Item::ToolResult(result) => {
                if self.user.is_some() {
                    return false;
                }
                self.results.push(result);
            }
            Item::AssistantMessage { .. } | Item::Reasoning { .. } | Item::ToolCall(_)
                if self.user.is_some() || !self.results.is_empty() =>
            {
                return false;
            }
            Item::AssistantMessage { text, .. } => self.text.push(text),
            Item::Reasoning { text, state } => self.reasoning.push((text, state.as_ref())),
            Item::ToolCall(call) => self.calls.push(call),
            // Notices, which aren't for models.
            _ => {}
        }
        true
    }

    fn speaks(&self) -> bool {
        !(self.text.is_empty() && self.calls.is_empty() && self.reasoning.is_empty())
    }

    /// Whether every call has its result.
    fn is_answered(&self) -> bool {
        !self.calls.is_empty() && self.calls.iter().all(|call| self.result_of(call).is_some())
    }

    /// Whether no further item can belong to it.
    fn is_closed(&self) -> bool {
        self.user.is_some() || self.followed || self.is_answered()
    }

    fn result_of(&self, call: &ToolCall) -> Option<&'a ToolResult> {
        self.results.iter().find(|r| r.call_id == call.id).copied()
    }

    /// Writes the group's messages, each after a comma.
    fn write(&self, out: &mut Vec<u8>, settings: &EncodeSettings) {
        if let Some(parts) = self.user {
            write_user(out, parts);
        }
        // Reasoning alone makes no message.
        if !self.text.is_empty() || !self.calls.is_empty() {
            self.write_assistant(out, settings);
        }
        for call in &self.calls {
            let content = match self.result_of(call) {
                Some(result) => result_text(result),
                None => Cow::Borrowed("The call was not run."),
            };
            out.push(b',');
            let mut message = Object::begin(out);
            message.field("role", "tool");
            message.field("tool_call_id", &*call_id(call, settings));
            message.field("content", &content);
            message.end();
        }
        self.write_rest_of_results(out);
    }

    fn write_assistant(&self, out: &mut Vec<u8>, settings: &EncodeSettings) {
        out.push(b',');
        let mut message = Object::begin(out);
        message.field("role", "assistant");
        self.write_reasoning(&mut message, settings);
        match self.text.as_slice() {
            [] => message.field("content", &()),
            [text] => message.field("content", text),
            several => message.field("content", &several.join("\n\n")),
        }
        if !self.calls.is_empty() {
            list(message.key("tool_calls"), &self.calls, |out, call| {
                write_call(out, call, settings);
            });
        }
        message.end();
    }

    fn write_reasoning(&self, message: &mut Object<'_>, settings: &EncodeSettings) {
        if let Some(field) = &settings.reasoning_field {
            let texts = self.reasoning.iter().map(|(text, _)| *text);
            let texts: Vec<_> = texts.filter(|text| !text.is_empty()).collect();
            if !texts.is_empty() {
                message.field(field, &texts.join("\n\n"));
            }
        }
        let details = |raw: &str| {
            raw.trim()
                .strip_prefix('[')?
                .strip_suffix(']')
                .map(str::to_owned)
        };
        let details: Vec<_> = self
            .reasoning
            .iter()
            .filter_map(|(_, state)| state.as_ref().filter(|s| s.provider == settings.provider))
            .filter_map(|state| details(state.data.get()))
            .filter(|details| !details.trim().is_empty())
            .collect();
        if !details.is_empty() {
            let out = message.key("reasoning_details");
            out.push(b'[');
            out.extend_from_slice(details.join(",").as_bytes());
            out.push(b']');
        }
    }

    /// What a tool message can't carry: pictures, and results of no call.
    fn write_rest_of_results(&self, out: &mut Vec<u8>) {
        let is_called = |r: &ToolResult| self.calls.iter().any(|call| call.id == r.call_id);
        let mut parts = Vec::new();
        for result in &self.results {
            let about = format!("`{}` (call {})", result.name, result.call_id);
            if !is_called(result) {
                let text = result_text(result);
                parts.push(Cow::Owned(Part::text(format!("Result of {about}: {text}"))));
            }
            let images = result.parts.iter().filter(|part| is_image(part));
            for (index, image) in images.enumerate() {
                if index == 0 {
                    parts.push(Cow::Owned(Part::text(format!("From {about}:"))));
                }
                parts.push(Cow::Borrowed(image));
            }
        }
        if !parts.is_empty() {
            let parts: Vec<&Part> = parts.iter().map(|part| &**part).collect();
            write_user(out, parts);
        }
    }
}

fn is_image(part: &Part) -> bool {
    matches!(part, Part::Image { .. })
}

/// A part's text; `None` for a picture.
fn part_text(part: &Part) -> Option<&str> {
    match part {
        Part::Text { text } => Some(text),
        Part::Json { value } => Some(value.get()),
        _ => None,
    }
}

fn write_user<'p, P>(out: &mut Vec<u8>, parts: P)
where
    P: IntoIterator<Item = &'p Part>,
    P::IntoIter: Clone,
{
    let parts = parts.into_iter();
    out.push(b',');
    let mut message = Object::begin(out);
    message.field("role", "user");
    if parts.clone().any(is_image) {
        let parts = parts.filter(|part| part_text(part) != Some(""));
        list(message.key("content"), parts, write_part);
    } else {
        // Plain text is what every server understands.
        let texts: Vec<_> = parts.filter_map(part_text).collect();
        let text = texts.join("\n");
        // Some servers refuse a message of nothing.
        let text = if text.is_empty() { "(no text)" } else { &text };
        message.field("content", text);
    }
    message.end();
}

fn write_part(out: &mut Vec<u8>, part: &Part) {
    let mut object = Object::begin(out);
    match part {
        Part::Image { media_type, data } => {
            object.field("type", "image_url");
            let mut image = Object::begin(object.key("image_url"));
            image.field("url", &format!("data:{media_type};base64,{data}"));
            image.end();
        }
        other => {
            object.field("type", "text");
            object.field("text", part_text(other).unwrap_or_default());
        }
    }
    object.end();
}

fn call_id<'c>(call: &'c ToolCall, settings: &EncodeSettings) -> Cow<'c, str> {
    match settings.short_call_ids {
        true => short(call.id.as_str()),
        false => Cow::Borrowed(call.id.as_str()),
    }
}

fn write_call(out: &mut Vec<u8>, call: &ToolCall, settings: &EncodeSettings) {
    let mut object = Object::begin(out);
    object.field("id", &*call_id(call, settings));
    object.field("type", "function");
    let mut function = Object::begin(object.key("function"));
    function.field("name", &*wire_name(&call.name));
    function.field("arguments", &*arguments(call));
    function.end();
    let state = call.state.as_ref();
    if let Some(state) = state.filter(|state| state.provider == settings.provider) {
        write(object.key("extra_content"), &state.data);
    }
    object.end();
}

/// A call's arguments. Servers parse them, and refuse what is no object; a
/// model's broken text is kept within one.
fn arguments(call: &ToolCall) -> Cow<'_, str> {
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

/// What the model reads of a result, pictures apart.
fn result_text(result: &ToolResult) -> Cow<'_, str> {
    let text = match result.parts.as_slice() {
        [Part::Text { text }] => Cow::Borrowed(text.as_str()),
        parts => Cow::Owned(
            parts
                .iter()
                .filter_map(part_text)
                .collect::<Vec<_>>()
                .join("\n"),
        ),
    };
    let text = match text.is_empty() {
        true if result.parts.iter().any(is_image) => Cow::Borrowed("The picture follows."),
        true => Cow::Borrowed("(no output)"),
        false => text,
    };
    // The wire has no mark for it.
    let marked = text
        .get(..5)
        .is_some_and(|start| start.eq_ignore_ascii_case("error"));
    match result.is_error && !marked {
        true => Cow::Owned(format!("Error: {text}")),
        false => text,
    }
}
