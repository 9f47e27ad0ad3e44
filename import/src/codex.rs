//! Codex rollouts.
//!
//! Each line is an envelope (`type`, `payload`); what the model was shown are
//! the payloads of `response_item`, in the form of OpenAI's Responses API. The
//! first rollouts had the items without an envelope.

use haft_api::Usage;
use haft_core::Piece;
use serde_json::Value;

use crate::blocks::{arguments, parts, text};
use crate::lines::Line;
use crate::losses::Losses;
use crate::{Format, Imported, owned, text_of};

/// How what Codex tells the model of itself begins, in the user's name.
const OWN_WORDS: [&str; 6] = [
    "<environment_context>",
    "<user_instructions>",
    "<permissions instructions>",
    "<turn_aborted>",
    "<INSTRUCTIONS>",
    "# AGENTS.md instructions",
];

pub(crate) fn read(lines: Vec<Line>, losses: &mut Losses) -> Imported {
    let mut imported = Imported::new(Format::Codex);
    for Line { number, value } in lines {
        let payload = value.get("payload").unwrap_or(&value);
        match text_of(&value, "type") {
            Some("session_meta") => about(&mut imported, payload),
            // The first line of the first rollouts.
            None if value.get("id").is_some() => about(&mut imported, &value),
            Some("turn_context") => {
                let model = owned(payload, "model");
                imported.pieces.extend(model.map(Piece::Model));
            }
            Some("compacted") => {
                let summary = owned(payload, "message").filter(|text| !text.trim().is_empty());
                match summary {
                    Some(text) => imported.pieces.push(Piece::Summary { text, kept: 0 }),
                    None => losses.add(number, "a compaction that only its server can read"),
                }
            }
            Some("event_msg") => event(&mut imported, payload),
            Some("response_item") => item(&mut imported, payload, number, losses),
            Some(_) if value.get("payload").is_none() => {
                item(&mut imported, &value, number, losses);
            }
            _ => {}
        }
    }
    imported
}

fn about(imported: &mut Imported, meta: &Value) {
    imported.id = imported.id.take().or_else(|| owned(meta, "id"));
    imported.workspace = imported.workspace.take().or_else(|| owned(meta, "cwd"));
}

/// What the program noted for itself: of that only the tokens count.
fn event(imported: &mut Imported, payload: &Value) {
    if text_of(payload, "type") != Some("token_count") {
        return;
    }
    let last = payload.pointer("/info/last_token_usage");
    let count = |name: &str| last.and_then(|last| last.get(name)).and_then(Value::as_u64);
    let usage = Usage {
        input: count("input_tokens"),
        cached: count("cached_input_tokens"),
        cache_write: None,
        output: count("output_tokens"),
        reasoning: count("reasoning_output_tokens"),
    };
    if !usage.is_empty() {
        imported.pieces.push(Piece::Usage(usage));
    }
}

fn item(imported: &mut Imported, item: &Value, line: usize, losses: &mut Losses) {
    let pieces = &mut imported.pieces;
    let id = || {
        owned(item, "call_id")
            .or_else(|| owned(item, "id"))
            .unwrap_or_default()
    };
    match text_of(item, "type").unwrap_or_default() {
        "message" => message(pieces, item, line, losses),
        "reasoning" => {
            let shown: Vec<_> = ["summary", "content"]
                .iter()
                .filter_map(|name| item.get(*name)?.as_array())
                .flatten()
                .filter_map(|block| text_of(block, "text"))
                .filter(|text| !text.trim().is_empty())
                .collect();
            if item.get("encrypted_content").is_some_and(|e| !e.is_null()) {
                losses.add(line, "encrypted reasoning was left out");
            }
            if !shown.is_empty() {
                pieces.push(Piece::Reasoning(shown.join("\n\n")));
            }
        }
        "function_call" => pieces.push(Piece::Call {
            id: id(),
            name: owned(item, "name").unwrap_or_default(),
            arguments: arguments(item.get("arguments")),
        }),
        "custom_tool_call" => pieces.push(Piece::Call {
            id: id(),
            name: owned(item, "name").unwrap_or_default(),
            arguments: arguments(item.get("input")),
        }),
        "local_shell_call" => pieces.push(Piece::Call {
            id: id(),
            name: "shell".to_owned(),
            arguments: arguments(item.get("action")),
        }),
        "function_call_output" | "custom_tool_call_output" => {
            let output = item.get("output").unwrap_or(&Value::Null);
            // A text, the blocks of a content, or either within an object.
            let content = output.get("content").unwrap_or(output);
            pieces.push(Piece::Result {
                call_id: id(),
                is_error: output.get("success") == Some(&Value::Bool(false)),
                parts: parts(content, line, losses),
            });
        }
        "ghost_snapshot" => {}
        other => losses.add(line, format!("an item of the kind `{other}` was left out")),
    }
}

fn message(pieces: &mut Vec<Piece>, item: &Value, line: usize, losses: &mut Losses) {
    let content = item.get("content").unwrap_or(&Value::Null);
    match text_of(item, "role") {
        Some("assistant") => {
            let said = text(content);
            if !said.trim().is_empty() {
                pieces.push(Piece::Assistant(said));
            }
        }
        Some("user") => {
            let said = text(content);
            if OWN_WORDS
                .iter()
                .any(|own| said.trim_start().starts_with(own))
            {
                losses.add(line, "what the program told the model was left out");
                return;
            }
            let parts = parts(content, line, losses);
            if !parts.is_empty() {
                pieces.push(Piece::User(parts));
            }
        }
        _ => losses.add(line, "what the program told the model was left out"),
    }
}
