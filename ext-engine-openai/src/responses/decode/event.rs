//! The shape of a stream's events. What servers don't agree on stays raw until
//! it is needed.

use std::borrow::Cow;

use haft_api::{Error, ErrorKind, FinishReason, Result, Usage};
use haft_engine_http::raw::{self, Kind};
use haft_engine_http::{events, failure};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::chat::decode::usage;

#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow, default)]
    r#type: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    output_index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    item_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content_index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    summary_index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) delta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) refusal: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) call_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) part: Option<&'a RawValue>,
    #[serde(borrow, default)]
    response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    code: Option<&'a RawValue>,
    #[serde(borrow, default)]
    object: Option<&'a RawValue>,
}

impl<'a> Event<'a> {
    /// The event with the name it came under, where it doesn't say its type.
    pub(super) fn named(mut self, name: &'a [u8]) -> Self {
        if self.r#type.as_deref().is_none_or(str::is_empty) {
            self.r#type = std::str::from_utf8(name).ok().map(Cow::Borrowed);
        }
        self
    }

    fn type_name(&self) -> &str {
        self.r#type.as_deref().unwrap_or_default()
    }

    /// What the event is about, and what became of it. What is about the
    /// response itself has no subject.
    pub(super) fn subject(&self) -> (&str, &str) {
        let Some(rest) = self.type_name().strip_prefix("response.") else {
            return ("?", "?");
        };
        rest.rsplit_once('.').unwrap_or(("", rest))
    }

    /// Whether it tells of something that the model did, and doesn't just keep
    /// the connection alive.
    pub(super) fn is_of_a_model(&self) -> bool {
        let (subject, _) = self.subject();
        !subject.is_empty() && subject != "?"
    }

    /// Whether the value isn't an event, but a whole response.
    pub(super) fn is_response(&self) -> bool {
        self.object.and_then(raw::string).as_deref() == Some("response")
    }

    /// The error that the event tells of, if it does. `text` is the event's.
    pub(super) fn error(&self, text: &str) -> Option<Error> {
        let own = self.error.and_then(error_of);
        if own.is_some() && !self.is_response() {
            return own;
        }
        let is_error = self.type_name() == "error"
            && (self
                .message
                .or(self.code)
                .is_some_and(|m| raw::kind(m) != Kind::Null));
        // Some servers refuse in words of their own.
        let is_refusal = self.type_name().is_empty()
            && self.object.is_none()
            && self.message.is_some()
            && self.code.is_some();
        (is_error || is_refusal)
            .then(|| failure::from_event(text.as_bytes()))
            .flatten()
    }

    /// The item's place in the answer, as far as the event gives it.
    pub(super) fn output_index(&self) -> Option<u64> {
        self.output_index.and_then(raw::number)
    }

    /// The item's id; `None` if it is empty.
    pub(super) fn item_id(&self) -> Option<Cow<'a, str>> {
        self.item_id
            .and_then(raw::string)
            .filter(|id| !id.is_empty())
    }

    /// Which part of the item it is about.
    pub(super) fn part_index(&self) -> u64 {
        self.content_index
            .or(self.summary_index)
            .and_then(raw::number)
            .unwrap_or(0)
    }

    /// The response that the event tells of.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] for one of an unknown shape.
    pub(super) fn response(&self) -> Result<Option<Response<'a>>> {
        match self.response.filter(|r| raw::kind(r) == Kind::Object) {
            Some(response) => serde_json::from_str(response.get())
                .map(Some)
                .map_err(|why| events::invalid(response.get().as_bytes(), why)),
            None => Ok(None),
        }
    }
}

fn error_of(raw: &RawValue) -> Option<Error> {
    match serde_json::from_str::<Value>(raw.get()) {
        Ok(error) => failure::from_stream(&error),
        // Valid JSON that no value can hold, such as half a surrogate pair.
        Err(_) => failure::from_stream(&Value::String(raw.get().to_owned())),
    }
}

/// How a response ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ended {
    /// The model had said all.
    Well,
    /// Something cut it off: none of its calls can be trusted.
    Cut(FinishReason),
    /// The server broke down.
    Failed,
}

#[derive(Deserialize, Default)]
pub(super) struct Response<'a> {
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    incomplete_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    output: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct IncompleteDetails<'a> {
    #[serde(borrow, default)]
    reason: Option<&'a RawValue>,
}

impl<'a> Response<'a> {
    pub(super) fn status(&self) -> Option<Cow<'a, str>> {
        self.status.and_then(raw::string)
    }

    pub(super) fn usage(&self) -> Option<Usage> {
        self.usage.and_then(usage::parse)
    }

    /// How it ended, by the event's verb and its own status: the worse of both.
    pub(super) fn ended(&self, verb: &str) -> Ended {
        let status = self.status();
        let is = |word: &str| verb == word || status.as_deref() == Some(word);
        if is("failed") || is("cancelled") || self.error.and_then(error_of).is_some() {
            return Ended::Failed;
        }
        let reason = self.incomplete_reason();
        if !is("incomplete") && reason.is_none() {
            return Ended::Well;
        }
        Ended::Cut(match reason.as_deref() {
            None | Some("max_output_tokens" | "max_tokens" | "length") => FinishReason::Length,
            Some("content_filter") => FinishReason::ContentFilter,
            Some(other) => FinishReason::Other(other.to_owned()),
        })
    }

    fn incomplete_reason(&self) -> Option<Cow<'a, str>> {
        let details: IncompleteDetails<'a> =
            serde_json::from_str(self.incomplete_details?.get()).ok()?;
        details
            .reason
            .and_then(raw::string)
            .filter(|r| !r.is_empty())
    }

    /// The error of a response that failed.
    pub(super) fn failure(&self) -> Error {
        self.error.and_then(error_of).unwrap_or_else(|| {
            let status = self.status();
            Error::new(
                ErrorKind::Unavailable,
                format!(
                    "the server gave up on the answer (status `{}`)",
                    status.as_deref().unwrap_or("failed")
                ),
            )
        })
    }

    /// The items, as far as they are told.
    pub(super) fn output(&self) -> Vec<&'a RawValue> {
        self.output
            .and_then(|output| serde_json::from_str(output.get()).ok())
            .unwrap_or_default()
    }
}

/// An item of the answer.
#[derive(Deserialize)]
pub(super) struct Item<'a> {
    #[serde(borrow, default)]
    pub(super) r#type: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) call_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) summary: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) encrypted_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) phase: Option<&'a RawValue>,
}

impl<'a> Item<'a> {
    pub(super) fn read(raw: &'a RawValue) -> Result<Self> {
        raw::shaped(raw, "an item")
    }
}

/// A part of an item's content.
#[derive(Deserialize)]
pub(super) struct Part<'a> {
    #[serde(borrow, default)]
    pub(super) r#type: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) refusal: Option<&'a RawValue>,
}

impl Part<'_> {
    pub(super) fn is(&self, name: &str) -> bool {
        self.r#type.and_then(raw::string).as_deref() == Some(name)
    }
}

/// The parts of a list; what is no list has none.
pub(super) fn parts<'a>(list: Option<&'a RawValue>) -> Vec<Part<'a>> {
    list.filter(|list| raw::kind(list) == Kind::List)
        .and_then(|list| serde_json::from_str(list.get()).ok())
        .unwrap_or_default()
}

/// A text, or any other value as it is written; `None` for nothing.
pub(super) fn text_or_value<'a>(value: Option<&'a RawValue>) -> Option<Cow<'a, str>> {
    value.and_then(|value| match raw::kind(value) {
        Kind::Null => None,
        Kind::String => raw::string(value),
        _ => Some(Cow::Borrowed(value.get())),
    })
}
