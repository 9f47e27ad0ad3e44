//! The turn's model, for the tool call that is being driven.

use std::rc::Rc;

use haft_api::{Error, ErrorKind, ModelAnswer, ModelRequest};
use rquickjs::{Ctx, Function, Object};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::begun;
use crate::native::Native;
use crate::worker::{Raised, Settled};

/// A request, as `model.js` says it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    instructions: String,
    prompt: String,
    #[serde(default)]
    temperature: Option<f64>,
    #[serde(default)]
    max_output_tokens: Option<f64>,
    stop: Vec<String>,
    #[serde(default)]
    output_schema: Option<Box<RawValue>>,
}

impl Asked {
    fn request(self) -> Result<ModelRequest, Raised> {
        let mut request = ModelRequest::text(self.prompt).instructions(self.instructions);
        request.options.temperature = self.temperature;
        request.options.max_output_tokens = self.max_output_tokens.map(tokens).transpose()?;
        request.options.stop = self.stop;
        request.output_schema = self.output_schema;
        Ok(request)
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the bounds are checked"
)]
fn tokens(number: f64) -> Result<u64, Raised> {
    match number >= 1.0 && number <= f64::from(u32::MAX) {
        true => Ok(number as u64),
        false => Err(Raised::new(
            "RangeError",
            "`maxTokens` must be a positive number",
        )),
    }
}

pub(super) fn equip<'js>(
    ctx: &Ctx<'js>,
    table: &Object<'js>,
    native: &Rc<Native>,
) -> rquickjs::Result<()> {
    let host = Rc::clone(native);
    let generate = move |ctx: Ctx<'js>, request: String| {
        let operation = begin(&host, &request);
        begun(&ctx, operation)
    };
    table.set("generate", Function::new(ctx.clone(), generate)?)
}

fn begin(host: &Native, request: &str) -> Result<u64, Raised> {
    let granted = host.setup.grants.check_model();
    granted.map_err(|words| Raised::new("NotAllowedError", words))?;
    let asked: Asked =
        serde_json::from_str(request).map_err(|e| Raised::new("TypeError", e.to_string()))?;
    let request = asked.request()?;
    let facts = host.facts().ok_or_else(|| {
        let words = "only the tool calls of a turn have a model, while they last";
        Raised::new("NotSupportedError", words)
    })?;
    let model = facts.context.model().map_err(|e| raised(&e))?.clone();
    host.operation(async move {
        let answer = model.generate(request).await.map_err(|e| raised(&e))?;
        Ok(Settled::Json(told(&answer)))
    })
}

fn told(answer: &ModelAnswer) -> String {
    serde_json::json!({
        "text": answer.text,
        "finishReason": answer.reason,
        "usage": answer.usage,
        "engine": answer.engine,
        "model": answer.model,
    })
    .to_string()
}

fn raised(error: &Error) -> Raised {
    let name = match error.kind() {
        ErrorKind::Unsupported => "NotSupportedError",
        ErrorKind::Denied => "NotAllowedError",
        ErrorKind::Cancelled => "AbortError",
        ErrorKind::Timeout => "TimeoutError",
        ErrorKind::InvalidInput => "TypeError",
        _ => "Error",
    };
    Raised::new(name, error.to_string())
}
