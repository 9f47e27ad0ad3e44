//! Items as messages.

use std::borrow::Cow;
use std::sync::Arc;

use haft_api::{Item, Part, ProviderState, ToolCall};
use haft_engine_http::call_id::short;
use haft_engine_http::content::{
    NO_TEXT, NOT_RUN, arguments, is_image, joined_text, marked_result_text, part_text,
};
use haft_engine_http::history::Written;
use haft_engine_http::json::{Object, list, write};
use haft_engine_http::step::Step;
use haft_engine_http::tool_names::wire_name;

use super::EncodeSettings;

/// Writes the messages of the first step of these items, each after a comma.
pub(super) fn write_step(
    items: &[Arc<Item>],
    out: &mut Vec<u8>,
    settings: &EncodeSettings,
) -> Option<Written> {
    Step::write_first(items, out, |step, out| {
        Messages::of(step).write(out, settings);
    })
}

/// A step, sorted by what the fields of its messages hold.
#[derive(Debug)]
struct Messages<'s, 'a> {
    step: &'s Step<'a>,
    reasoning: Vec<(&'a str, Option<&'a ProviderState>)>,
    text: Vec<&'a str>,
}

impl<'s, 'a> Messages<'s, 'a> {
    fn of(step: &'s Step<'a>) -> Self {
        let (mut reasoning, mut text) = (Vec::new(), Vec::new());
        for item in step.said() {
            match item {
                Item::AssistantMessage { text: said, .. } => text.push(said.as_str()),
                Item::Reasoning { text, state } => reasoning.push((text.as_str(), state.as_ref())),
                _ => {}
            }
        }
        Self {
            step,
            reasoning,
            text,
        }
    }

    /// Writes the step's messages, each after a comma.
    fn write(&self, out: &mut Vec<u8>, settings: &EncodeSettings) {
        if let Some(parts) = self.step.user() {
            write_user(out, parts);
        }
        // Reasoning alone makes no message.
        if !self.text.is_empty() || !self.step.calls().is_empty() {
            self.write_assistant(out, settings);
        }
        for (call, result) in self.step.answered_calls() {
            let content = result.map_or(Cow::Borrowed(NOT_RUN), marked_result_text);
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
        if !self.step.calls().is_empty() {
            list(message.key("tool_calls"), self.step.calls(), |out, call| {
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
        let mut parts = Vec::new();
        for result in self.step.results() {
            let about = format!("`{}` (call {})", result.name, result.call_id);
            if !self.step.is_called(result) {
                let text = marked_result_text(result);
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
        let text = joined_text(parts);
        // Some servers refuse a message of nothing.
        let text = if text.is_empty() { NO_TEXT } else { &text };
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
