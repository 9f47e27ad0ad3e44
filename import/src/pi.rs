//! pi's sessions.
//!
//! The first line is the header; since its second version the lines are a tree
//! (`id`, `parentId`). A `compaction` keeps the lines from `firstKeptEntryId` on.

use haft_api::{Part, Usage};
use haft_core::Piece;
use serde_json::Value;

use crate::blocks::{arguments, parts, text};
use crate::branch::{Links, newest};
use crate::lines::Line;
use crate::losses::Losses;
use crate::{Format, Imported, owned, text_of};

const LINKS: Links = Links {
    id: "id",
    parents: &["parentId"],
};

pub(crate) fn read(lines: Vec<Line>, losses: &mut Losses) -> Imported {
    let mut imported = Imported::new(Format::Pi);
    let (headers, entries): (Vec<_>, Vec<_>) = lines
        .into_iter()
        .partition(|line| text_of(&line.value, "type") == Some("session"));
    for Line { value, .. } in headers {
        imported.id = owned(&value, "id").or(imported.id.take());
        imported.workspace = owned(&value, "cwd").or(imported.workspace.take());
        imported
            .pieces
            .extend(owned(&value, "modelId").map(Piece::Model));
    }
    let spoken = |value: &Value| text_of(value, "type") == Some("message");
    // The place of each entry among the pieces, for compactions to name.
    let mut places: Vec<(Option<String>, usize)> = Vec::new();
    for Line { number, value } in newest(entries, &LINKS, spoken, losses) {
        let pieces = &mut imported.pieces;
        places.push((owned(&value, "id"), pieces.len()));
        match text_of(&value, "type").unwrap_or_default() {
            "message" => message(pieces, &value, number, losses),
            "model_change" => pieces.extend(owned(&value, "modelId").map(Piece::Model)),
            "compaction" => {
                let first = owned(&value, "firstKeptEntryId");
                let first = places.iter().find(|(id, _)| id.is_some() && *id == first);
                let kept = first.map_or(0, |(_, at)| pieces.len() - at);
                if let Some(text) = owned(&value, "summary").filter(|t| !t.trim().is_empty()) {
                    pieces.push(Piece::Summary { text, kept });
                }
            }
            "branch_summary" => {
                let summary = owned(&value, "summary").filter(|text| !text.trim().is_empty());
                pieces.extend(summary.map(|text| Piece::User(vec![Part::text(text)])));
            }
            "custom_message" => {
                let parts = parts(value.get("content").unwrap_or(&Value::Null), number, losses);
                if !parts.is_empty() {
                    pieces.push(Piece::User(parts));
                }
            }
            "session_info" => imported.title = owned(&value, "name").or(imported.title.take()),
            "thinking_level_change" | "label" | "ephemeral" => {}
            other => losses.add(
                number,
                format!("an entry of the kind `{other}` was left out"),
            ),
        }
    }
    imported
}

fn message(pieces: &mut Vec<Piece>, value: &Value, line: usize, losses: &mut Losses) {
    let Some(message) = value.get("message") else {
        return;
    };
    let content = message.get("content").unwrap_or(&Value::Null);
    match text_of(message, "role").unwrap_or_default() {
        "user" => {
            let parts = parts(content, line, losses);
            if !parts.is_empty() {
                pieces.push(Piece::User(parts));
            }
        }
        "assistant" => {
            assistant(pieces, content, line, losses);
            pieces.extend(usage(message).map(Piece::Usage));
        }
        "toolResult" => pieces.push(Piece::Result {
            call_id: owned(message, "toolCallId").unwrap_or_default(),
            is_error: message.get("isError") == Some(&Value::Bool(true)),
            parts: parts(content, line, losses),
        }),
        // A command that the user ran, which the model was told of.
        "bashExecution" => {
            let command = text_of(message, "command").unwrap_or_default();
            let output = text_of(message, "output").unwrap_or_default();
            let text = format!("I ran this command:\n{command}\n\nIts output:\n{output}");
            pieces.push(Piece::User(vec![Part::text(text)]));
        }
        other => losses.add(
            line,
            format!("a message of the role `{other}` was left out"),
        ),
    }
}

fn assistant(pieces: &mut Vec<Piece>, content: &Value, line: usize, losses: &mut Losses) {
    let Value::Array(blocks) = content else {
        let said = text(content);
        if !said.trim().is_empty() {
            pieces.push(Piece::Assistant(said));
        }
        return;
    };
    for block in blocks {
        let full = |name: &str| owned(block, name).filter(|text| !text.trim().is_empty());
        match text_of(block, "type").unwrap_or_default() {
            "text" => pieces.extend(full("text").map(Piece::Assistant)),
            "thinking" => {
                if full("thinkingSignature").is_some() {
                    losses.add(line, "a signature of reasoning was left out");
                }
                pieces.extend(full("thinking").map(Piece::Reasoning));
            }
            "toolCall" => pieces.push(Piece::Call {
                id: owned(block, "id").unwrap_or_default(),
                name: owned(block, "name").unwrap_or_default(),
                arguments: arguments(block.get("arguments")),
            }),
            other => losses.add(line, format!("content of the kind `{other}` was left out")),
        }
    }
}

/// pi's own count, in which what was cached isn't part of the input.
fn usage(message: &Value) -> Option<Usage> {
    let usage = message.get("usage")?;
    let count = |name: &str| usage.get(name).and_then(Value::as_u64);
    let (cached, cache_write) = (count("cacheRead"), count("cacheWrite"));
    let input = count("input").map(|input| input + cached.unwrap_or(0) + cache_write.unwrap_or(0));
    let usage = Usage {
        input,
        cached,
        cache_write,
        output: count("output"),
        reasoning: None,
    };
    (!usage.is_empty()).then_some(usage)
}
