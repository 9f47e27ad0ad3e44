//! Claude Code's sessions.
//!
//! Lines are a tree (`uuid`, `parentUuid`); `user` and `assistant` lines hold a
//! message of Anthropic's Messages API each. A model's message is spread over
//! several lines with one `message.id`, results of its first calls between them.

use haft_api::Usage;
use haft_core::Piece;
use serde_json::Value;

use crate::blocks::{arguments, parts, text};
use crate::branch::{Links, newest};
use crate::lines::Line;
use crate::losses::Losses;
use crate::{Format, Imported, owned, text_of};

const LINKS: Links = Links {
    id: "uuid",
    // What follows a summary names what it follows in a field of its own.
    parents: &["logicalParentUuid", "parentUuid"],
};

pub(crate) fn read(lines: Vec<Line>, losses: &mut Losses) -> Imported {
    let mut imported = Imported::new(Format::ClaudeCode);
    for line in &lines {
        let value = &line.value;
        let id = || owned(value, "sessionId");
        imported.id = imported.id.take().or_else(id);
        imported.workspace = imported.workspace.take().or_else(|| owned(value, "cwd"));
        let title = match text_of(value, "type") {
            Some("summary") => owned(value, "summary"),
            Some("custom-title") => owned(value, "customTitle"),
            Some("ai-title") => owned(value, "aiTitle"),
            _ => None,
        };
        // The newest one holds.
        imported.title = title.or(imported.title.take());
    }
    let (own, others): (Vec<_>, Vec<_>) = lines
        .into_iter()
        .partition(|line| line.value.get("isSidechain") != Some(&Value::Bool(true)));
    let first = others.first().map(|line| line.number);
    losses.add_many(first, "a message of a sub-agent was left out", others.len());
    let is_message = |value: &Value| matches!(text_of(value, "type"), Some("user" | "assistant"));
    let mut session = Session::default();
    for Line { number, value } in newest(own, &LINKS, is_message, losses) {
        match text_of(&value, "type") {
            Some("user") => session.user(&value, number, losses),
            Some("assistant") => session.assistant(&value, number, losses),
            _ => {}
        }
    }
    imported.pieces = session.pieces;
    imported
}

#[derive(Default)]
struct Session {
    pieces: Vec<Piece>,
    model: Option<String>,
    /// The model's message under way.
    message: Option<Message>,
}

struct Message {
    id: String,
    /// Where its tokens stand, if it told of any.
    usage: Option<usize>,
    /// Where its next block goes.
    next: usize,
}

impl Session {
    fn user(&mut self, value: &Value, line: usize, losses: &mut Losses) {
        if value.get("isMeta") == Some(&Value::Bool(true)) {
            losses.add(line, "what the program told the model was left out");
            return;
        }
        let content = value.pointer("/message/content").unwrap_or(&Value::Null);
        if value.get("isCompactSummary") == Some(&Value::Bool(true)) {
            self.message = None;
            let text = text(content);
            if !text.trim().is_empty() {
                self.pieces.push(Piece::Summary { text, kept: 0 });
            }
            return;
        }
        let blocks = content.as_array().map_or(&[] as &[Value], Vec::as_slice);
        let is_result = |block: &&Value| text_of(block, "type") == Some("tool_result");
        for block in blocks.iter().filter(is_result) {
            self.pieces.push(Piece::Result {
                call_id: owned(block, "tool_use_id").unwrap_or_default(),
                is_error: block.get("is_error") == Some(&Value::Bool(true)),
                parts: parts(block.get("content").unwrap_or(&Value::Null), line, losses),
            });
        }
        let said = match content {
            Value::Array(blocks) => {
                let rest = blocks.iter().filter(|block| !is_result(block));
                parts(&rest.cloned().collect(), line, losses)
            }
            other => parts(other, line, losses),
        };
        if !said.is_empty() {
            self.message = None;
            self.pieces.push(Piece::User(said));
        }
    }

    fn assistant(&mut self, value: &Value, line: usize, losses: &mut Losses) {
        let Some(message) = value.get("message") else {
            return;
        };
        let model = owned(message, "model");
        if model.as_deref() == Some("<synthetic>") {
            losses.add(
                line,
                "what the program said in the model's name was left out",
            );
            return;
        }
        if model.is_some() && model != self.model {
            self.pieces.extend(model.clone().map(Piece::Model));
            self.model = model;
        }
        let id = owned(message, "id").unwrap_or_default();
        let goes_on = self.message.take_if(|open| !id.is_empty() && open.id == id);
        let mut open = goes_on.unwrap_or_else(|| {
            let at = self.pieces.len();
            let usage = usage(message).map(|usage| self.pieces.push(Piece::Usage(usage)));
            Message {
                id,
                usage: usage.map(|()| at),
                next: self.pieces.len(),
            }
        });
        // The last line of a message knows all of its tokens.
        if let (Some(at), Some(usage)) = (open.usage, usage(message)) {
            self.pieces[at] = Piece::Usage(usage);
        }
        let content = message.get("content").unwrap_or(&Value::Null);
        for piece in said(content, line, losses) {
            self.pieces.insert(open.next, piece);
            open.next += 1;
        }
        self.message = Some(open);
    }
}

/// The blocks of a model's message.
fn said(content: &Value, line: usize, losses: &mut Losses) -> Vec<Piece> {
    let Value::Array(blocks) = content else {
        let said = text(content);
        return match said.trim().is_empty() {
            true => Vec::new(),
            false => vec![Piece::Assistant(said)],
        };
    };
    let mut pieces = Vec::new();
    for block in blocks {
        let full = |name: &str| owned(block, name).filter(|text| !text.trim().is_empty());
        match text_of(block, "type").unwrap_or_default() {
            "text" => pieces.extend(full("text").map(Piece::Assistant)),
            "thinking" => {
                if full("signature").is_some() {
                    losses.add(line, "a signature of reasoning was left out");
                }
                pieces.extend(full("thinking").map(Piece::Reasoning));
            }
            "redacted_thinking" => losses.add(line, "encrypted reasoning was left out"),
            "tool_use" => pieces.push(Piece::Call {
                id: owned(block, "id").unwrap_or_default(),
                name: owned(block, "name").unwrap_or_default(),
                arguments: arguments(block.get("input")),
            }),
            other => losses.add(line, format!("content of the kind `{other}` was left out")),
        }
    }
    pieces
}

fn usage(message: &Value) -> Option<Usage> {
    let usage = message.get("usage")?;
    let count = |name: &str| usage.get(name).and_then(Value::as_u64);
    let (cached, cache_write) = (
        count("cache_read_input_tokens"),
        count("cache_creation_input_tokens"),
    );
    // What was cached isn't part of Anthropic's input.
    let input =
        count("input_tokens").map(|input| input + cached.unwrap_or(0) + cache_write.unwrap_or(0));
    let usage = Usage {
        input,
        cached,
        cache_write,
        output: count("output_tokens"),
        reasoning: None,
    };
    (!usage.is_empty()).then_some(usage)
}
