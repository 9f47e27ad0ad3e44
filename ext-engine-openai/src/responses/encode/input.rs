//! Items as the wire's items.

use std::borrow::Cow;
use std::sync::Arc;

use haft_api::{Item, Part, ProviderState, ToolCall, ToolResult};
use haft_engine_http::content::{
    NO_TEXT, NOT_RUN, arguments, is_image, joined_text, marked_result_text, part_text,
};
use haft_engine_http::history::Written;
use haft_engine_http::json::{Object, list, write};
use haft_engine_http::step::Step;
use haft_engine_http::tool_names::wire_name;
use serde::Deserialize;

use super::EncodeSettings;

/// Writes the first step of these items, each item after a comma.
pub(super) fn write_step(
    items: &[Arc<Item>],
    out: &mut Vec<u8>,
    settings: &EncodeSettings,
) -> Option<Written> {
    Step::write_first(items, out, |step, out| {
        if let Some(parts) = step.user() {
            write_user(out, parts);
        }
        let is_speech = |item: &&Item| !matches!(item, Item::Reasoning { .. });
        let last = step.said().iter().rposition(is_speech);
        for (place, item) in step.said().iter().enumerate() {
            // OpenAI refuses reasoning that nothing came of.
            let is_used = last.is_some_and(|last| place < last || !settings.is_strict);
            write_said(out, item, is_used, settings);
        }
        for (call, result) in step.answered_calls() {
            write_result(out, call, result, settings);
        }
        write_rest_of_results(out, step, settings);
    })
}

fn write_said(out: &mut Vec<u8>, item: &Item, is_used: bool, settings: &EncodeSettings) {
    match item {
        Item::AssistantMessage { text, state } => {
            out.push(b',');
            let mut message = Object::begin(out);
            message.field("type", "message");
            message.field("role", "assistant");
            if let Some(phase) = own(state, settings).and_then(phase) {
                message.field("phase", &phase);
            }
            list(message.key("content"), [text], |out, text| {
                let mut part = Object::begin(out);
                part.field("type", "output_text");
                part.field("text", text);
                part.end();
            });
            message.end();
        }
        Item::Reasoning { state, .. } if is_used => {
            if let Some(state) = own(state, settings) {
                out.push(b',');
                write(out, &state.data);
            }
        }
        Item::ToolCall(call) => {
            out.push(b',');
            let mut object = Object::begin(out);
            object.field("type", "function_call");
            object.field("call_id", call.id.as_str());
            object.field("name", &*wire_name(&call.name));
            object.field("arguments", &*arguments(call));
            object.end();
        }
        _ => {}
    }
}

/// The state, if it is this provider's.
fn own<'s>(
    state: &'s Option<ProviderState>,
    settings: &EncodeSettings,
) -> Option<&'s ProviderState> {
    state
        .as_ref()
        .filter(|state| state.provider == settings.provider)
}

fn phase(state: &ProviderState) -> Option<String> {
    #[derive(Deserialize)]
    struct Message {
        phase: String,
    }
    let message: Message = serde_json::from_str(state.data.get()).ok()?;
    Some(message.phase)
}

fn write_result(
    out: &mut Vec<u8>,
    call: &ToolCall,
    result: Option<&ToolResult>,
    settings: &EncodeSettings,
) {
    out.push(b',');
    let mut object = Object::begin(out);
    object.field("type", "function_call_output");
    object.field("call_id", call.id.as_str());
    let text = result.map_or(Cow::Borrowed(NOT_RUN), marked_result_text);
    let images = result
        .into_iter()
        .flat_map(|result| &result.parts)
        .filter(|part| is_image(part));
    // Other servers take text alone here; the pictures follow.
    if settings.is_strict && images.clone().next().is_some() {
        let text = Part::text(text);
        let parts = [&text].into_iter().chain(images);
        list(object.key("output"), parts, write_part);
    } else {
        object.field("output", &*text);
    }
    object.end();
}

/// What an output can't carry: pictures, and results of no call.
fn write_rest_of_results(out: &mut Vec<u8>, step: &Step<'_>, settings: &EncodeSettings) {
    let mut parts = Vec::new();
    for result in step.results() {
        let about = format!("`{}` (call {})", result.name, result.call_id);
        let is_called = step.is_called(result);
        if !is_called {
            let text = marked_result_text(result);
            parts.push(Cow::Owned(Part::text(format!("Result of {about}: {text}"))));
        }
        if is_called && settings.is_strict {
            continue;
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
        write_user(out, parts.iter().map(|part| &**part));
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
    message.field("type", "message");
    message.field("role", "user");
    if parts.clone().any(is_image) {
        let parts = parts.filter(|part| part_text(part) != Some(""));
        list(message.key("content"), parts, write_part);
    } else {
        let text = joined_text(parts);
        let text = if text.is_empty() { NO_TEXT } else { &text };
        message.field("content", text);
    }
    message.end();
}

fn write_part(out: &mut Vec<u8>, part: &Part) {
    let mut object = Object::begin(out);
    match part {
        Part::Image { media_type, data } => {
            object.field("type", "input_image");
            object.field("image_url", &format!("data:{media_type};base64,{data}"));
        }
        other => {
            object.field("type", "input_text");
            object.field("text", part_text(other).unwrap_or_default());
        }
    }
    object.end();
}
