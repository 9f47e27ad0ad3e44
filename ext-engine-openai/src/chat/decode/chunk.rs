//! The shape of a stream's chunks. Fields that servers don't agree on stay raw
//! until they are needed.

use std::fmt;
use std::marker::PhantomData;

use haft_api::{Error, Result, Usage};
use haft_engine_http::failure;
use haft_engine_http::raw::{self, Kind};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::calls::Fragment;
use super::usage;

#[derive(Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(super) choices: Option<Few<Option<Choice<'a>>>>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    x_groq: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    // An error may be the chunk itself.
    #[serde(borrow, default)]
    object: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    detail: Option<&'a RawValue>,
    #[serde(borrow, default)]
    code: Option<&'a RawValue>,
    #[serde(borrow, default)]
    r#type: Option<&'a RawValue>,
}

/// A list that nearly always has one element, and room for no more at first: a
/// list's usual beginning would be kilobytes here.
pub(super) struct Few<T>(pub(super) Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Few<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Elements<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Elements<T> {
            type Value = Few<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<Few<T>, S::Error> {
                let mut few = Vec::with_capacity(1);
                while let Some(element) = list.next_element()? {
                    few.push(element);
                }
                Ok(Few(few))
            }
        }
        from.deserialize_seq(Elements(PhantomData))
    }
}

#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(borrow, default)]
    index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    pub(super) message: Option<Delta<'a>>,
    #[serde(borrow, default)]
    finish_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow, default)]
    thinking: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) reasoning_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_calls: Option<&'a RawValue>,
    #[serde(borrow, default)]
    function_call: Option<&'a RawValue>,
}

/// What a delta says.
#[derive(Default)]
pub(super) struct Said {
    pub(super) reasoning: String,
    pub(super) text: String,
    pub(super) refusal: String,
}

#[derive(Deserialize)]
struct CallDelta<'a> {
    #[serde(borrow, default)]
    index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    function: Option<FunctionDelta<'a>>,
    #[serde(borrow, default)]
    extra_content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct FunctionDelta<'a> {
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

/// A piece of content that is a list.
#[derive(Deserialize)]
struct ContentPart<'a> {
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow, default)]
    thinking: Option<&'a RawValue>,
}

impl Chunk<'_> {
    /// The error that the chunk tells of, if it does.
    pub(super) fn error(&self) -> Option<Error> {
        if let Some(error) = self.error.and_then(error_of) {
            return Some(error);
        }
        if self.choices.is_some() {
            return None;
        }
        let says_error =
            |field: Option<&RawValue>| field.and_then(raw::string).as_deref() == Some("error");
        let says_something = self.message.or(self.detail);
        let is_error = says_error(self.object)
            || says_error(self.r#type)
            || (says_something.is_some() && (self.code.is_some() || self.detail.is_some()));
        if !is_error {
            return None;
        }
        let mut whole = serde_json::Map::new();
        for (key, value) in [
            ("message", says_something),
            ("code", self.code),
            ("type", self.r#type),
        ] {
            if let Some(value) = value.and_then(parse) {
                whole.insert(key.to_owned(), value);
            }
        }
        failure::from_stream(&Value::Object(whole))
    }

    pub(super) fn usage(&self) -> Option<Usage> {
        self.usage
            .and_then(usage::parse)
            .or_else(|| self.x_groq.and_then(usage::parse_groq))
    }
}

/// A value that is small and seldom there.
fn parse(raw: &RawValue) -> Option<Value> {
    serde_json::from_str(raw.get()).ok()
}

fn error_of(raw: &RawValue) -> Option<Error> {
    match parse(raw) {
        Some(error) => failure::from_stream(&error),
        // Valid JSON that no value can hold, such as half a surrogate pair.
        None => failure::from_stream(&Value::String(raw.get().to_owned())),
    }
}

impl Choice<'_> {
    pub(super) fn index(&self) -> u64 {
        self.index.and_then(raw::number).unwrap_or(0)
    }

    pub(super) fn error(&self) -> Option<Error> {
        self.error.and_then(error_of)
    }

    pub(super) fn finish_reason(&self) -> Option<String> {
        let reason = self.finish_reason.and_then(raw::string)?;
        (!reason.is_empty()).then(|| reason.into_owned())
    }
}

impl<'a> Delta<'a> {
    /// What the delta says.
    pub(super) fn said(&self) -> Result<Said> {
        let mut said = Said::default();
        // Some servers send the same under two names.
        for field in [self.reasoning_content, self.reasoning, self.thinking] {
            if let Some(field) = field.filter(|_| said.reasoning.is_empty()) {
                add_text(field, &mut said.reasoning)?;
            }
        }
        if let Some(content) = self.content {
            add_content(content, &mut said)?;
        }
        if let Some(refusal) = self.refusal {
            add_text(refusal, &mut said.refusal)?;
        }
        if let Some(details) = self.reasoning_details.filter(|_| said.reasoning.is_empty()) {
            said.reasoning = super::reasoning::text_of(details);
        }
        Ok(said)
    }

    /// The pieces of calls in the delta.
    pub(super) fn call_fragments(&self) -> Result<Vec<Fragment<'a>>> {
        let mut fragments = Vec::new();
        if let Some(calls) = self.tool_calls {
            match raw::kind(calls) {
                Kind::Null => {}
                Kind::Object => fragments.push(fragment(raw::shaped(calls, "a tool call")?)),
                _ => {
                    let calls: Few<Option<CallDelta<'a>>> = raw::shaped(calls, "tool calls")?;
                    fragments.reserve_exact(calls.0.len());
                    fragments.extend(calls.0.into_iter().flatten().map(fragment));
                }
            }
        }
        // What tool calls were before there could be several.
        if let Some(call) = self.function_call.filter(|c| raw::kind(c) != Kind::Null) {
            let function: FunctionDelta<'a> = raw::shaped(call, "a function call")?;
            fragments.push(fragment(CallDelta {
                index: None,
                id: None,
                function: Some(function),
                extra_content: None,
            }));
        }
        Ok(fragments)
    }
}

fn fragment<'a>(call: CallDelta<'a>) -> Fragment<'a> {
    let (name, arguments) = call
        .function
        .map_or((None, None), |function| (function.name, function.arguments));
    Fragment {
        id: call.id.and_then(|id| match raw::kind(id) {
            Kind::Other => Some(id.get().into()),
            _ => raw::string(id),
        }),
        index: call.index.and_then(raw::number),
        name: name.and_then(raw::string),
        arguments: arguments.and_then(|arguments| match raw::kind(arguments) {
            Kind::Null => None,
            Kind::String => raw::string(arguments),
            _ => Some(arguments.get().into()),
        }),
        state: call.extra_content.filter(|e| raw::kind(e) != Kind::Null),
    }
}

fn add_text(raw: &RawValue, to: &mut String) -> Result<()> {
    match raw::kind(raw) {
        Kind::String => to.push_str(&raw::string(raw).unwrap_or_default()),
        Kind::List => {
            for part in raw::shaped::<Vec<&RawValue>>(raw, "a list of text")? {
                add_text(part, to)?;
            }
        }
        Kind::Object => {
            let part: ContentPart<'_> = raw::shaped(raw, "a piece of text")?;
            if let Some(text) = part.text.or(part.thinking) {
                add_text(text, to)?;
            }
        }
        Kind::Null | Kind::Other => {}
    }
    Ok(())
}

fn add_content(content: &RawValue, said: &mut Said) -> Result<()> {
    match raw::kind(content) {
        Kind::List => {
            for part in raw::shaped::<Vec<&RawValue>>(content, "content")? {
                match raw::kind(part) {
                    Kind::Object => add_part(part, said)?,
                    _ => add_text(part, &mut said.text)?,
                }
            }
            Ok(())
        }
        Kind::Object => add_part(content, said),
        _ => add_text(content, &mut said.text),
    }
}

fn add_part(part: &RawValue, said: &mut Said) -> Result<()> {
    let part: ContentPart<'_> = raw::shaped(part, "content")?;
    for (field, to) in [
        (part.thinking, &mut said.reasoning),
        (part.text, &mut said.text),
        (part.refusal, &mut said.refusal),
    ] {
        if let Some(field) = field {
            add_text(field, to)?;
        }
    }
    Ok(())
}
