//! Requests for a long thread.

use std::hint::black_box;
use std::sync::Arc;

use haft_api::{
    CallId, EngineRequest, ExtensionId, History, Item, Part, ThreadId, ToolCall, ToolResult,
    TurnId, raw_json,
};
use haft_bench::{Pair, Result};
use haft_ext_engine_anthropic::{AnthropicConfig, AnthropicEngine};
use haft_ext_engine_openai::{OpenAiConfig, OpenAiEngine, Wire};

const ITEMS: usize = 10_000;

/// What is on the wire is no matter here.
const NOWHERE: &str = "http://127.0.0.1:9/v1";

/// A round: a call, its result of a few lines, a word to the user, who answers.
fn request() -> Result<EngineRequest> {
    let mut items = Vec::with_capacity(ITEMS);
    for number in 0..ITEMS / 4 {
        let id = CallId::new(format!("call_{number}"))?;
        items.push(Item::user(format!("And what is in file {number}?")));
        items.push(Item::ToolCall(ToolCall {
            id: id.clone(),
            name: "read_file".to_owned(),
            arguments: raw_json(format!("{{\"path\":\"src/file_{number}.rs\"}}"))?,
            state: None,
        }));
        items.push(Item::ToolResult(ToolResult {
            call_id: id,
            name: "read_file".to_owned(),
            is_error: false,
            parts: vec![Part::text(
                "fn main() {\n    println!(\"hello\");\n}\n".repeat(8),
            )],
        }));
        items.push(Item::assistant("It says hello, as the others do."));
    }
    items.push(Item::user("And now?"));
    Ok(EngineRequest::new(
        ThreadId::new("t")?,
        TurnId::new("u")?,
        History::new(1, items.into_iter().map(Arc::new).collect()),
    ))
}

/// The body, made with what earlier rounds left; the floor copies its bytes.
fn body(make: impl Fn(&EngineRequest) -> haft_api::Result<Vec<u8>> + 'static) -> Result<Pair> {
    let request = request()?;
    let bytes = make(&request)?;
    Pair::of_operations(
        move || Ok(make(black_box(&request))?),
        move || Ok(black_box(&bytes).clone()),
    )
}

fn openai(wire: Wire) -> Result<Pair> {
    let mut config = OpenAiConfig::new(NOWHERE);
    config.wire = Some(wire);
    let engine = OpenAiEngine::new(ExtensionId::new("bench")?, config)?;
    body(move |request| engine.body(request, "m"))
}

pub(crate) fn chat() -> Result<Pair> {
    openai(Wire::Chat)
}

pub(crate) fn responses() -> Result<Pair> {
    openai(Wire::Responses)
}

pub(crate) fn messages() -> Result<Pair> {
    let config = AnthropicConfig::new(NOWHERE);
    let engine = AnthropicEngine::new(ExtensionId::new("bench")?, config)?;
    body(move |request| engine.body(request, "m"))
}
