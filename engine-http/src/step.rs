//! A history's steps, of which wires make their messages.

use std::sync::Arc;

use haft_api::{Item, Part, ToolCall, ToolResult};

use crate::history::Written;

/// The items that make one step of the conversation: what the user said, or
/// what the model said in a round with the results of its calls.
#[derive(Debug, Default)]
pub struct Step<'a> {
    user: Option<&'a [Part]>,
    said: Vec<&'a Item>,
    calls: Vec<&'a ToolCall>,
    results: Vec<&'a ToolResult>,
    /// How many items it is made of.
    len: usize,
    /// An item of another step was seen behind it.
    followed: bool,
}

impl<'a> Step<'a> {
    /// The first step of these items; `None` if there is nothing left for the
    /// model to see.
    pub fn at_start_of(items: &'a [Arc<Item>]) -> Option<Self> {
        let mut step = Self::default();
        for item in items {
            if !step.take(item) {
                step.followed = true;
                break;
            }
            step.len += 1;
            if step.is_answered() {
                break;
            }
        }
        let seen = step.user.is_some() || !step.said.is_empty() || !step.results.is_empty();
        (seen || step.followed).then_some(step)
    }

    /// Writes the first step of these items by `write`: what
    /// [`history::append`](crate::history::append) asks for.
    pub fn write_first(
        items: &'a [Arc<Item>],
        out: &mut Vec<u8>,
        write: impl FnOnce(&Self, &mut Vec<u8>),
    ) -> Option<Written> {
        let step = Self::at_start_of(items)?;
        write(&step, out);
        Some(Written {
            items: step.len,
            is_final: step.is_closed(),
        })
    }

    /// Takes an item in, if it belongs to this step.
    fn take(&mut self, item: &'a Item) -> bool {
        match item {
            Item::UserMessage { parts } => {
                if self.user.is_some() || !self.said.is_empty() || !self.results.is_empty() {
                    return false;
                }
                self.user = Some(parts);
            }
            Item::ToolResult(result) => {
                if self.user.is_some() {
                    return false;
                }
                self.results.push(result);
            }
            Item::AssistantMessage { .. } | Item::Reasoning { .. } | Item::ToolCall(_) => {
                if self.user.is_some() || !self.results.is_empty() {
                    return false;
                }
                self.said.push(item);
                if let Item::ToolCall(call) = item {
                    self.calls.push(call);
                }
            }
            // Notices, which aren't for models.
            _ => {}
        }
        true
    }

    /// Whether every call has its result.
    fn is_answered(&self) -> bool {
        !self.calls.is_empty()
            && self.results.len() >= self.calls.len()
            && self.answered_calls().all(|(_, result)| result.is_some())
    }

    /// Whether no further item can belong to it.
    fn is_closed(&self) -> bool {
        self.user.is_some() || self.followed || self.is_answered()
    }

    /// What the user said, if it is the user's step.
    pub fn user(&self) -> Option<&'a [Part]> {
        self.user
    }

    /// What the model said, in its order: messages, reasoning and calls.
    pub fn said(&self) -> &[&'a Item] {
        &self.said
    }

    /// The calls among it.
    pub fn calls(&self) -> &[&'a ToolCall] {
        &self.calls
    }

    /// Each call, and its result if there is one.
    pub fn answered_calls(
        &self,
    ) -> impl Iterator<Item = (&'a ToolCall, Option<&'a ToolResult>)> + '_ {
        self.calls.iter().enumerate().map(|(place, call)| {
            // They come in the order of the calls, but for odd histories.
            let expected = self.results.get(place).filter(|r| r.call_id == call.id);
            let found = expected.or_else(|| self.results.iter().find(|r| r.call_id == call.id));
            (*call, found.copied())
        })
    }

    /// The results, in the order they stand in.
    pub fn results(&self) -> &[&'a ToolResult] {
        &self.results
    }

    /// Whether a result answers one of the step's calls.
    pub fn is_called(&self, result: &ToolResult) -> bool {
        self.calls.iter().any(|call| call.id == result.call_id)
    }
}
