//! A request's history, as the bytes of its body.
//!
//! The same request is the same bytes, and a longer history extends a shorter
//! one's: everything else stands before the messages, which come last. What was
//! made of a thread's old items is kept in the request's memo, so that a round
//! costs its new items and a copy.

mod body;
mod messages;
mod response_format;

pub(crate) use body::encode;

use std::borrow::Cow;

/// What the encoding depends on besides the request.
#[derive(Clone, PartialEq)]
pub(crate) struct EncodeSettings {
    /// Whose provider state is sent back.
    pub(crate) provider: String,
    /// The field for the most tokens of output.
    pub(crate) max_tokens_field: Cow<'static, str>,
    /// The field of an assistant message for its reasoning, if it is wanted.
    pub(crate) reasoning_field: Option<Cow<'static, str>>,
    /// Whether calls' ids are nine letters and digits.
    pub(crate) short_call_ids: bool,
    /// Further fields of the body.
    pub(crate) extra_body: serde_json::Map<String, serde_json::Value>,
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

#[cfg(test)]
mod tests;
