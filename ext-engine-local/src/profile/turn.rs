//! The turn that is going on, read from a history.

use std::sync::Arc;

use haft_api::{Item, ToolCall, ToolResult, join_text};

/// The last user message and what came of it so far.
pub(crate) struct CurrentTurn<'a> {
    /// What the user asked for.
    pub(crate) request: String,
    /// The calls since then, each with its result.
    pub(crate) calls: Vec<(&'a ToolCall, Option<&'a ToolResult>)>,
    /// Everything before the request.
    pub(crate) earlier: &'a [Arc<Item>],
}

impl<'a> CurrentTurn<'a> {
    /// `None` if nobody has asked for anything yet.
    pub(crate) fn of(items: &'a [Arc<Item>]) -> Option<Self> {
        let at = items
            .iter()
            .rposition(|item| matches!(**item, Item::UserMessage { .. }))?;
        let Item::UserMessage { parts } = &*items[at] else {
            return None;
        };
        let mut calls: Vec<(&ToolCall, Option<&ToolResult>)> = Vec::new();
        for item in &items[at + 1..] {
            match &**item {
                Item::ToolCall(call) => calls.push((call, None)),
                Item::ToolResult(result) => {
                    if let Some(slot) = calls.iter_mut().find(|(call, _)| call.id == result.call_id)
                    {
                        slot.1 = Some(result);
                    }
                }
                _ => {}
            }
        }
        Some(Self {
            request: join_text(parts).trim().to_owned(),
            calls,
            earlier: &items[..at],
        })
    }

    /// The values of the string arguments of this turn's calls, of one tool or
    /// of all.
    pub(crate) fn used_arguments(&self, tool: Option<&str>) -> Vec<String> {
        self.calls
            .iter()
            .filter(|(call, _)| tool.is_none_or(|tool| tool == call.name))
            .filter_map(|(call, _)| {
                serde_json::from_str::<serde_json::Map<_, serde_json::Value>>(call.arguments.get())
                    .ok()
            })
            .flat_map(|arguments| arguments.into_iter().map(|(_, value)| value))
            .filter_map(|value| value.as_str().map(str::to_owned))
            .collect()
    }

    /// Whether a tool was called in this turn.
    pub(crate) fn has_called(&self, tool: &str) -> bool {
        self.calls.iter().any(|(call, _)| call.name == tool)
    }
}
