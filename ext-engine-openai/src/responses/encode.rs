//! A request's history, as the bytes of its body.
//!
//! As with the other wire, everything else stands before the items, which come
//! last, so that a longer history extends the bytes of a shorter one. The server
//! keeps nothing (`store` is false): reasoning travels encrypted, and goes back
//! as it came.

mod input;

use std::sync::Arc;

use haft_api::{EngineRequest, Error, ErrorKind, Result, ToolChoice, ToolSpec};
use haft_engine_http::json::{Object, list, write};
use haft_engine_http::tool_names::wire_name;
use haft_engine_http::{history, schema};
use serde_json::{Value, json};

/// What the encoding depends on besides the request.
#[derive(Clone, PartialEq)]
pub(crate) struct EncodeSettings {
    /// Whose provider state is sent back.
    pub(crate) provider: String,
    /// Whether it is OpenAI's own API, or its models at Azure, which refuse what
    /// a model can't do.
    pub(crate) is_strict: bool,
    /// What is asked for of reasoning to show: `auto`, `concise`, `detailed`.
    pub(crate) reasoning_summary: Option<String>,
    /// Further fields of the body.
    pub(crate) extra_body: serde_json::Map<String, Value>,
}

/// A request's body.
#[derive(Debug)]
pub(crate) struct Encoded {
    /// The bytes.
    pub(crate) body: Vec<u8>,
    /// How many items were looked at to make them: those that no memo held.
    #[cfg_attr(not(test), expect(dead_code, reason = "what the tests count by"))]
    pub(crate) items_encoded: usize,
}

/// The body of a request.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] for a number that JSON can't carry, and
/// [`ErrorKind::Unsupported`] for what this wire has no field for.
pub(crate) fn encode(
    request: &EngineRequest,
    model: &str,
    settings: &Arc<EncodeSettings>,
) -> Result<Encoded> {
    let mut body = Vec::new();
    let mut head = Head {
        object: Object::begin(&mut body),
        settings,
    };
    head.field("model", model);
    head.field("stream", &true);
    head.field("store", &false);
    if !settings.is_strict || reasons(model) {
        head.field("include", &["reasoning.encrypted_content"]);
    }
    // One thread's requests share a beginning, and find it where it is kept.
    head.field("prompt_cache_key", request.thread.as_str());
    if !request.instructions.is_empty() {
        head.field("instructions", &*request.instructions);
    }
    head.options(request)?;
    head.tools(request);
    if let Some(wanted) = &request.output_schema {
        let strict = serde_json::from_str(wanted.get()).is_ok_and(|s| schema::is_strict(&s));
        let format = json!({
            "type": "json_schema", "name": "answer", "strict": strict, "schema": &**wanted,
        });
        head.field("text", &json!({ "format": format }));
    }
    for (key, value) in &settings.extra_body {
        if !value.is_null() {
            head.object.field(key, value);
        }
    }
    head.object.key("input");
    body.push(b'[');
    let items_encoded = history::append(&mut body, request, settings, b"]}", |items, out| {
        input::write_step(items, out, settings)
    });
    Ok(Encoded {
        body,
        items_encoded,
    })
}

/// Whether one of OpenAI's models reasons. Those that don't refuse to be asked
/// for encrypted reasoning.
fn reasons(model: &str) -> bool {
    let plain = ["gpt-3", "gpt-4", "chatgpt"];
    !plain.iter().any(|name| model.starts_with(name)) && !model.contains("-chat")
}

/// The fields before the items. Those that the settings name are theirs.
struct Head<'a, 'o> {
    object: Object<'o>,
    settings: &'a EncodeSettings,
}

impl Head<'_, '_> {
    fn field(&mut self, key: &str, value: &(impl serde::Serialize + ?Sized)) {
        if !self.settings.extra_body.contains_key(key) {
            self.object.field(key, value);
        }
    }

    fn options(&mut self, request: &EngineRequest) -> Result<()> {
        let options = &request.options;
        if let Some(temperature) = options.temperature {
            if !temperature.is_finite() {
                return Err(Error::new(
                    ErrorKind::InvalidInput,
                    format!("a temperature of {temperature} can't be sent"),
                ));
            }
            self.field("temperature", &temperature);
        }
        if let Some(most) = options.max_output_tokens {
            self.field("max_output_tokens", &most);
        }
        let mut reasoning = serde_json::Map::new();
        for (key, value) in [
            ("effort", &options.reasoning_effort),
            ("summary", &self.settings.reasoning_summary),
        ] {
            if let Some(value) = value {
                reasoning.insert(key.to_owned(), Value::from(value.as_str()));
            }
        }
        if !reasoning.is_empty() {
            self.field("reasoning", &reasoning);
        }
        if !options.stop.is_empty() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "Responses takes no stop sequences: leave them out, or set `wire = \"chat\"`",
            ));
        }
        Ok(())
    }

    /// The tools. What is said about tools is refused where there are none.
    fn tools(&mut self, request: &EngineRequest) {
        if request.tools.is_empty() {
            return;
        }
        list(self.object.key("tools"), request.tools.iter(), write_tool);
        match &request.tool_choice {
            ToolChoice::Auto => {}
            ToolChoice::Required => self.field("tool_choice", "required"),
            ToolChoice::None => self.field("tool_choice", "none"),
            ToolChoice::Named(name) => self.field(
                "tool_choice",
                &json!({ "type": "function", "name": wire_name(name) }),
            ),
        }
        if let Some(parallel) = request.options.parallel_tool_calls {
            self.field("parallel_tool_calls", &parallel);
        }
    }
}

fn write_tool(out: &mut Vec<u8>, tool: &ToolSpec) {
    let mut object = Object::begin(out);
    object.field("type", "function");
    object.field("name", &*wire_name(tool.name.as_str()));
    if !tool.description.is_empty() {
        object.field("description", &tool.description);
    }
    let parameters = schema::parameters(&tool.input_schema);
    write(object.key("parameters"), &parameters);
    // Without it, this wire takes every schema for a strict one.
    object.field("strict", &false);
    object.end();
}

#[cfg(test)]
mod tests;
