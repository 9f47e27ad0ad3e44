//! Items as messages.

use std::borrow::Cow;
use std::sync::Arc;

use haft_api::{Item, Part, ToolCall, ToolResult};
use haft_engine_http::content::{
    NO_TEXT, NOT_RUN, arguments, is_image, joined_text, part_text, result_text,
};
use haft_engine_http::history::Written;
use haft_engine_http::json::{Object, list, write};
use haft_engine_http::step::Step;
use haft_engine_http::tool_names::wire_name;

use super::EncodeSettings;

/// Stands before a history that doesn't begin with the user, as every message
/// list has to.
const GOES_ON: &str = "(The conversation goes on.)";

/// Writes the messages of the first step of these items, each after a comma.
/// `is_first` says that nothing stands before them.
pub(super) fn write_step(
    items: &[Arc<Item>],
    is_first: bool,
    out: &mut Vec<u8>,
    settings: &EncodeSettings,
) -> Option<Written> {
    Step::write_first(items, out, |step, out| {
        if let Some(parts) = step.user() {
            write_user(out, parts);
            return;
        }
        if is_first {
            write_user(out, &[Part::text(GOES_ON)]);
        }
        write_assistant(out, step, settings);
        write_results(out, step);
    })
}

/// Whether a text is one that the wire takes.
fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

fn write_user(out: &mut Vec<u8>, parts: &[Part]) {
    out.push(b',');
    let mut message = Object::begin(out);
    message.field("role", "user");
    if parts.iter().any(is_image) {
        let parts = parts
            .iter()
            .filter(|part| !part_text(part).is_some_and(is_blank));
        list(message.key("content"), parts, write_part);
    } else {
        let text = joined_text(parts);
        let text = if is_blank(&text) { NO_TEXT } else { &text };
        message.field("content", text);
    }
    message.end();
}

fn write_part(out: &mut Vec<u8>, part: &Part) {
    match part {
        Part::Image { media_type, data } => {
            let mut block = Object::begin(out);
            block.field("type", "image");
            let mut source = Object::begin(block.key("source"));
            source.field("type", "base64");
            source.field("media_type", media_type);
            source.field("data", data);
            source.end();
            block.end();
        }
        other => write_text(out, part_text(other).unwrap_or_default()),
    }
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    let mut block = Object::begin(out);
    block.field("type", "text");
    block.field("text", text);
    block.end();
}

/// Whether an item is one of the message's blocks.
fn is_block(item: &Item, settings: &EncodeSettings) -> bool {
    match item {
        Item::AssistantMessage { text, .. } => !is_blank(text),
        Item::Reasoning { state, .. } => {
            let own = state.as_ref().map(|state| &state.provider);
            own == Some(&settings.provider)
        }
        Item::ToolCall(_) => true,
        _ => false,
    }
}

fn write_assistant(out: &mut Vec<u8>, step: &Step<'_>, settings: &EncodeSettings) {
    let said = step.said().iter();
    let blocks = said.copied().filter(|item| is_block(item, settings));
    // Thinking alone makes no message.
    if !blocks
        .clone()
        .any(|item| !matches!(item, Item::Reasoning { .. }))
    {
        return;
    }
    out.push(b',');
    let mut message = Object::begin(out);
    message.field("role", "assistant");
    list(message.key("content"), blocks, |out, item| match item {
        Item::Reasoning {
            state: Some(state), ..
        } => write(out, &state.data),
        Item::AssistantMessage { text, .. } => write_text(out, text),
        Item::ToolCall(call) => write_call(out, call),
        _ => {}
    });
    message.end();
}

fn write_call(out: &mut Vec<u8>, call: &ToolCall) {
    let mut block = Object::begin(out);
    block.field("type", "tool_use");
    block.field("id", call.id.as_str());
    block.field("name", &*wire_name(&call.name));
    // An object's text already.
    block
        .key("input")
        .extend_from_slice(arguments(call).as_bytes());
    block.end();
}

fn write_results(out: &mut Vec<u8>, step: &Step<'_>) {
    let stray = step
        .results()
        .iter()
        .filter(|result| !step.is_called(result));
    let stray: Vec<_> = stray.collect();
    if step.calls().is_empty() && stray.is_empty() {
        return;
    }
    out.push(b',');
    let mut message = Object::begin(out);
    message.field("role", "user");
    let blocks = message.key("content");
    blocks.push(b'[');
    for (place, (call, result)) in step.answered_calls().enumerate() {
        if place > 0 {
            blocks.push(b',');
        }
        write_result(blocks, call, result);
    }
    for (place, result) in stray.into_iter().enumerate() {
        if place > 0 || !step.calls().is_empty() {
            blocks.push(b',');
        }
        let text = result_text(result);
        let about = format!(
            "Result of `{}` (call {}): {text}",
            result.name, result.call_id
        );
        write_text(blocks, &about);
        for image in result.parts.iter().filter(|part| is_image(part)) {
            blocks.push(b',');
            write_part(blocks, image);
        }
    }
    blocks.push(b']');
    message.end();
}

fn write_result(out: &mut Vec<u8>, call: &ToolCall, result: Option<&ToolResult>) {
    let mut block = Object::begin(out);
    block.field("type", "tool_result");
    block.field("tool_use_id", call.id.as_str());
    let text = result.map_or(Cow::Borrowed(NOT_RUN), result_text);
    let text = if is_blank(&text) {
        Cow::Borrowed("(no output)")
    } else {
        text
    };
    let images = result.into_iter().flat_map(|result| &result.parts);
    let images = images.filter(|part| is_image(part));
    if images.clone().next().is_some() {
        let text = Part::text(text);
        list(
            block.key("content"),
            [&text].into_iter().chain(images),
            write_part,
        );
    } else {
        block.field("content", &*text);
    }
    if result.is_none_or(|result| result.is_error) {
        block.field("is_error", &true);
    }
    block.end();
}
