//! The body around the messages.

use std::sync::Arc;

use haft_api::{EngineRequest, Error, ErrorKind, Result, ToolChoice, ToolSpec};
use haft_engine_http::json::{Object, list, write};
use haft_engine_http::tool_names::wire_name;
use haft_engine_http::{history, schema};
use serde_json::json;

use super::messages::write_step;
use super::response_format::ResponseFormat;
use super::{EncodeSettings, Encoded};

/// The body of a request.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] for a number that JSON can't carry.
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
    head.field("stream_options", &json!({ "include_usage": true }));
    head.options(request)?;
    head.tools(request);
    if let Some(wanted) = &request.output_schema {
        head.field("response_format", &ResponseFormat::new(wanted));
    }
    for (key, value) in &settings.extra_body {
        if !value.is_null() {
            head.object.field(key, value);
        }
    }
    head.object.key("messages");
    body.push(b'[');
    let instructions = &*request.instructions;
    if !instructions.is_empty() {
        let mut message = Object::begin(&mut body);
        message.field("role", "system");
        message.field("content", instructions);
        message.end();
    }
    let items_encoded = history::append(&mut body, request, settings, b"]}", |items, out| {
        write_step(items, out, settings)
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
    fn is_own(&self, key: &str) -> bool {
        !self.settings.extra_body.contains_key(key)
    }

    fn field(&mut self, key: &str, value: &(impl serde::Serialize + ?Sized)) {
        if self.is_own(key) {
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
            let field = self.settings.max_tokens_field.clone();
            self.field(&field, &most);
        }
        if let Some(effort) = &options.reasoning_effort {
            self.field("reasoning_effort", effort);
        }
        if !options.stop.is_empty() {
            self.field("stop", &options.stop);
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
                &json!({ "type": "function", "function": { "name": wire_name(name) } }),
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
    let mut function = Object::begin(object.key("function"));
    function.field("name", &*wire_name(tool.name.as_str()));
    if !tool.description.is_empty() {
        function.field("description", &tool.description);
    }
    let parameters = schema::parameters(&tool.input_schema);
    write(function.key("parameters"), &parameters);
    function.end();
    object.end();
}
