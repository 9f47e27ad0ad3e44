//! A request's history, as the bytes of its body.
//!
//! The same request is the same bytes, and a longer history extends a shorter
//! one's: everything else stands before the messages, which come last. The
//! places up to which a prompt is cached are marked where they don't move: at
//! the tools, at the instructions, and for the request as a whole, which is the
//! server's word to mark the last block by itself.

mod messages;
mod options;

use std::sync::Arc;

use haft_api::{EngineRequest, Result, ToolChoice, ToolSpec};
use haft_engine_http::json::{Object, list, write};
use haft_engine_http::tool_names::wire_name;
use haft_engine_http::{history, schema};
use serde::Serialize;
use serde_json::{Value, json};

use crate::models::Traits;

/// What the encoding depends on besides the request.
#[derive(Clone, PartialEq)]
pub(crate) struct EncodeSettings {
    /// Whose provider state is sent back.
    pub(crate) provider: String,
    /// Most tokens of output where a request doesn't say.
    pub(crate) max_tokens: Option<u64>,
    /// Whether the places up to which a prompt is cached are marked.
    pub(crate) cache: bool,
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

/// A mark: what stands before it is worth keeping.
#[derive(Serialize)]
struct CacheControl {
    r#type: &'static str,
}

const CACHED: CacheControl = CacheControl {
    r#type: "ephemeral",
};

/// The body of a request.
///
/// # Errors
/// [`ErrorKind::InvalidInput`](haft_api::ErrorKind::InvalidInput) for a number
/// that JSON can't carry.
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
    head.options(request, Traits::of(model))?;
    if settings.cache {
        head.field("cache_control", &CACHED);
    }
    head.tools(request);
    if !request.instructions.trim().is_empty() {
        head.system(&request.instructions);
    }
    for (key, value) in &settings.extra_body {
        if !value.is_null() {
            head.object.field(key, value);
        }
    }
    head.object.key("messages");
    body.push(b'[');
    let beginning = request.history.items().as_ptr();
    let items_encoded = history::append(&mut body, request, settings, b"]}", |items, out| {
        messages::write_step(items, items.as_ptr() == beginning, out, settings)
    });
    Ok(Encoded {
        body,
        items_encoded,
    })
}

/// The fields before the messages. Those that the settings name are theirs.
struct Head<'a, 'o> {
    object: Object<'o>,
    settings: &'a EncodeSettings,
}

impl Head<'_, '_> {
    fn field(&mut self, key: &str, value: &(impl Serialize + ?Sized)) {
        if !self.settings.extra_body.contains_key(key) {
            self.object.field(key, value);
        }
    }

    fn system(&mut self, instructions: &str) {
        let cache = self.settings.cache;
        list(self.object.key("system"), [instructions], |out, text| {
            let mut block = Object::begin(out);
            block.field("type", "text");
            block.field("text", text);
            if cache {
                block.field("cache_control", &CACHED);
            }
            block.end();
        });
    }

    /// The tools. What is said about tools is refused where there are none.
    fn tools(&mut self, request: &EngineRequest) {
        if request.tools.is_empty() {
            return;
        }
        let last = request.tools.len() - 1;
        let cache = self.settings.cache;
        let tools = request.tools.iter().enumerate();
        list(self.object.key("tools"), tools, |out, (place, tool)| {
            write_tool(out, tool, cache && place == last);
        });
        let mut choice = match &request.tool_choice {
            ToolChoice::Auto => json!({ "type": "auto" }),
            ToolChoice::Required => json!({ "type": "any" }),
            ToolChoice::None => json!({ "type": "none" }),
            ToolChoice::Named(name) => json!({ "type": "tool", "name": wire_name(name) }),
        };
        // Where no tool may be called there is nothing to say about several.
        let parallel = request.options.parallel_tool_calls;
        let parallel = parallel.filter(|_| request.tool_choice != ToolChoice::None);
        if let Some(parallel) = parallel {
            choice["disable_parallel_tool_use"] = Value::Bool(!parallel);
        }
        if request.tool_choice != ToolChoice::Auto || parallel.is_some() {
            self.field("tool_choice", &choice);
        }
    }
}

fn write_tool(out: &mut Vec<u8>, tool: &ToolSpec, is_marked: bool) {
    let mut object = Object::begin(out);
    object.field("name", &*wire_name(tool.name.as_str()));
    if !tool.description.is_empty() {
        object.field("description", &tool.description);
    }
    let parameters = schema::parameters(&tool.input_schema);
    write(object.key("input_schema"), &parameters);
    if is_marked {
        object.field("cache_control", &CACHED);
    }
    object.end();
}

#[cfg(test)]
mod tests;
