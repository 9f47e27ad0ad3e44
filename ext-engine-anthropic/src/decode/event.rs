//! The shape of a stream's events. What servers don't agree on stays raw until
//! it is needed.

use std::borrow::Cow;

use haft_api::{Error, Result};
use haft_engine_http::raw::{self, Kind};
use haft_engine_http::{events, failure};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow, default)]
    r#type: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) content_block: Option<&'a RawValue>,
    #[serde(borrow, default)]
    delta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    code: Option<&'a RawValue>,
}

impl<'a> Event<'a> {
    /// The event with the name it came under, where it doesn't say its type.
    pub(super) fn named(mut self, name: &'a [u8]) -> Self {
        if self.r#type.as_deref().is_none_or(str::is_empty) {
            self.r#type = std::str::from_utf8(name).ok().map(Cow::Borrowed);
        }
        self
    }

    pub(super) fn type_name(&self) -> &str {
        self.r#type.as_deref().unwrap_or_default()
    }

    /// The error that the event tells of, if it does. `text` is the event's.
    pub(super) fn error(&self, text: &str) -> Option<Error> {
        if let Some(error) = self.error {
            let said = match serde_json::from_str::<Value>(error.get()) {
                Ok(error) => failure::from_stream(&error),
                // Valid JSON that no value can hold, such as half a surrogate pair.
                Err(_) => failure::from_stream(&Value::String(error.get().to_owned())),
            };
            if said.is_some() {
                return said;
            }
        }
        let says = self.message.is_some_and(|m| raw::kind(m) == Kind::String);
        let is_error = says && (self.type_name() == "error" || self.code.is_some());
        is_error
            .then(|| failure::from_event(text.as_bytes()))
            .flatten()
    }

    /// The block's place in the message, as far as the event gives it.
    pub(super) fn index(&self) -> Option<u64> {
        self.index.and_then(raw::number)
    }

    pub(super) fn message(&self) -> Result<Option<Message<'a>>> {
        object(self.message)
    }

    pub(super) fn block_delta(&self) -> Result<Option<BlockDelta<'a>>> {
        object(self.delta)
    }

    pub(super) fn message_delta(&self) -> Result<Option<Message<'a>>> {
        object(self.delta)
    }
}

/// An object's shape; `None` for what is no object.
fn object<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Result<Option<T>> {
    match raw.filter(|raw| raw::kind(raw) == Kind::Object) {
        Some(raw) => serde_json::from_str(raw.get())
            .map(Some)
            .map_err(|why| events::invalid(raw.get().as_bytes(), why)),
        None => Ok(None),
    }
}

/// A message, or what changes of it.
#[derive(Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    stop_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    stop_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct StopDetails<'a> {
    #[serde(borrow, default)]
    explanation: Option<&'a RawValue>,
}

impl<'a> Message<'a> {
    pub(super) fn content(&self) -> Result<Vec<&'a RawValue>> {
        match self.content.filter(|c| raw::kind(c) == Kind::List) {
            Some(content) => raw::shaped(content, "a message's content"),
            None => Ok(Vec::new()),
        }
    }

    pub(super) fn stop_reason(&self) -> Option<String> {
        text(self.stop_reason)
    }

    pub(super) fn explanation(&self) -> Option<String> {
        let details: StopDetails<'a> = serde_json::from_str(self.stop_details?.get()).ok()?;
        text(details.explanation)
    }
}

/// A text; `None` if it is empty.
fn text(raw: Option<&RawValue>) -> Option<String> {
    let text = raw.and_then(raw::string)?;
    (!text.is_empty()).then(|| text.into_owned())
}

/// A block as it starts.
#[derive(Deserialize)]
pub(super) struct ContentBlock<'a> {
    #[serde(borrow, default)]
    pub(super) r#type: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) thinking: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) signature: Option<&'a RawValue>,
}

/// A piece of a block. What it is shows in its fields.
#[derive(Deserialize)]
pub(super) struct BlockDelta<'a> {
    #[serde(borrow, default)]
    pub(super) text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) thinking: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) signature: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) partial_json: Option<&'a RawValue>,
}
