//! The rules, and what it is to break one.

use std::fmt;

/// Whose rules a history must keep to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Wire {
    /// OpenAI's Chat Completions: an assistant's `tool_calls` are followed by a
    /// `tool` message for each before any other; call ids of at most 40.
    OpenAiChat,
    /// OpenAI's Responses: a `function_call_output` for each `function_call`;
    /// call ids of at most 64.
    OpenAiResponses,
    /// Anthropic's Messages: all results of a round open the next user message;
    /// text has to be more than white space; the first message is the user's.
    Anthropic,
}

impl Wire {
    /// Every wire there is a check for.
    pub const ALL: [Self; 3] = [Self::OpenAiChat, Self::OpenAiResponses, Self::Anthropic];

    /// The most characters of a call's id.
    pub(super) fn id_length(self) -> usize {
        match self {
            Self::OpenAiChat => 40,
            Self::OpenAiResponses | Self::Anthropic => 64,
        }
    }

    /// Whether a text of white space counts as empty.
    pub(super) fn refuses_blank_text(self) -> bool {
        self == Self::Anthropic
    }

    /// Whether the conversation has to begin with the user.
    pub(super) fn begins_with_user(self) -> bool {
        self == Self::Anthropic
    }
}

/// The rule that a history breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// Every tool call has a result, before the conversation goes on.
    MissingResult,
    /// No call has two results.
    DuplicateResult,
    /// No result is without an earlier call.
    ResultWithoutCall,
    /// The results of a round come in the order of its calls.
    ResultOrder,
    /// Nothing stands between the results of a round but notices.
    Interleaved,
    /// No two calls of a thread have one id.
    DuplicateCallId,
    /// A call's id fits the wire.
    CallIdShape,
    /// A call's name isn't empty.
    EmptyName,
    /// A result bears its call's name.
    NameMismatch,
    /// No message, result or block is empty.
    EmptyContent,
    /// A call's arguments are a JSON object, or a JSON string of what the model
    /// wrote.
    Arguments,
    /// An image is base64 of a type that models read.
    Image,
    /// A structured value, or a provider's state, is JSON that every parser
    /// takes.
    Json,
    /// The conversation begins with the user.
    FirstItem,
}

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The item's place in the list, from 0; the list's length where something
    /// is missing at the end.
    pub item: usize,
    /// Which rule.
    pub rule: Rule,
    /// The wires whose rule it is.
    pub wires: Vec<Wire>,
    /// What was expected and what is there.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "item {}: {:?}: {}", self.item, self.rule, self.message)?;
        if self.wires.len() < Wire::ALL.len() {
            write!(f, " ({:?} only)", self.wires)?;
        }
        Ok(())
    }
}
