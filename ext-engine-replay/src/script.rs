//! The script's grammar.

use std::path::Path;

use haft_api::{EngineToolCall, Error, ErrorKind, FinishReason, Result, Usage};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;

/// The types of events, as they are written.
const EVENT_TYPES: [&str; 9] = [
    "text",
    "reasoning",
    "call",
    "usage",
    "sleep",
    "stall",
    "error",
    "cut",
    "stop",
];

/// The kinds of errors that a mistyped one is compared with.
const ERROR_KINDS: [ErrorKind; 13] = [
    ErrorKind::Unsupported,
    ErrorKind::NotFound,
    ErrorKind::AlreadyExists,
    ErrorKind::InvalidInput,
    ErrorKind::Denied,
    ErrorKind::Busy,
    ErrorKind::RateLimited,
    ErrorKind::ContextOverflow,
    ErrorKind::Timeout,
    ErrorKind::Cancelled,
    ErrorKind::Unavailable,
    ErrorKind::Corrupt,
    ErrorKind::Unexpected,
];

/// A parsed script: one [`Round`] a line.
///
/// A line is `{"events": [ … ]}`; blank lines are skipped. Each event is an
/// object with a `type` and the fields of the [`ScriptEvent`] of that name, and
/// no others.
///
/// ```
/// use haft_ext_engine_replay::{Script, ScriptEvent};
///
/// let script = Script::parse(r#"{"events":[{"type":"text","text":"hi"}]}"#)?;
/// assert_eq!(script.rounds()[0].events, [ScriptEvent::Text { text: "hi".into() }]);
///
/// let wrong = Script::parse(r#"{"events":[{"type":"txet","text":"hi"}]}"#).unwrap_err();
/// assert!(wrong.to_string().contains("did you mean `text`?"));
/// # Ok::<(), haft_api::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Script {
    rounds: Vec<Round>,
}

/// One line of a script: what the model says in one round.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Round {
    /// The line's number in its file, from 1.
    pub line: usize,
    /// The events, in order. The reason that a [`ScriptEvent::Stop`] names is
    /// given at the end of the round, wherever it stands; what follows a
    /// stall, an error or a cut is never played.
    pub events: Vec<ScriptEvent>,
}

/// One event of a script.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ScriptEvent {
    /// `text`: a piece of the answer.
    Text {
        /// The piece.
        text: String,
    },
    /// `reasoning`: a piece of reasoning.
    Reasoning {
        /// The piece.
        text: String,
    },
    /// `call`: a tool call, with `id`, `name` and `arguments`. The id may be left
    /// out, empty or used twice, the arguments broken: all of it reaches the
    /// runtime as it is. A string's content is the arguments' text; any other
    /// JSON is taken as it is written; left out it is the empty text.
    Call(EngineToolCall),
    /// `usage`: tokens used, with `input`, `output` and `cached`.
    Usage(Usage),
    /// `sleep`: waits.
    Sleep {
        /// How long, in milliseconds.
        ms: u64,
    },
    /// `stall`: says nothing for ever.
    Stall,
    /// `error`: fails. As a round's first event it refuses the round, later it
    /// breaks the stream off.
    Error {
        /// Its kind.
        kind: ErrorKind,
        /// Its message.
        message: String,
        /// How long the other side asks to wait, in milliseconds.
        retry_after_ms: Option<u64>,
    },
    /// `cut`: the stream ends with no completion.
    Cut,
    /// `stop`: why the round ends.
    Stop {
        /// The reason.
        reason: FinishReason,
    },
}

impl Script {
    /// Reads a script's text.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] with the number of the line (context `line`)
    /// and of the event, what is wrong with it, and the nearest known type.
    pub fn parse(text: &str) -> Result<Self> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut rounds = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let number = index + 1;
            let events = parse_line(line).map_err(|message| {
                Error::new(ErrorKind::InvalidInput, message).context("line", number)
            })?;
            rounds.push(Round {
                line: number,
                events,
            });
        }
        Ok(Self { rounds })
    }

    /// Reads a script's file.
    ///
    /// # Errors
    /// What reading the file says, and as [`parse`](Self::parse); both name the
    /// file.
    pub async fn load(path: &Path) -> Result<Self> {
        let name_file = |e: Error| e.operation("read script").context("file", path.display());
        let bytes = tokio::fs::read(path)
            .await
            .map_err(|e| name_file(Error::io(e, "the script can't be read")))?;
        let text = String::from_utf8(bytes).map_err(|e| {
            let error = Error::new(ErrorKind::InvalidInput, "the script isn't UTF-8 text");
            name_file(error.source(e.utf8_error()))
        })?;
        Self::parse(&text).map_err(name_file)
    }

    /// The rounds, in order.
    pub fn rounds(&self) -> &[Round] {
        &self.rounds
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    events: Vec<Box<RawValue>>,
}

fn parse_line(line: &str) -> Result<Vec<ScriptEvent>, String> {
    let Line { events } = serde_json::from_str(line)
        .map_err(|e| format!("not a round, which is an object with a list of `events`: {e}"))?;
    events
        .iter()
        .enumerate()
        .map(|(index, event)| {
            parse_event(event.get()).map_err(|what| format!("event {}: {what}", index + 1))
        })
        .collect()
}

#[derive(Deserialize)]
struct Typed {
    r#type: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TextFields {
    #[serde(rename = "type")]
    _type: IgnoredAny,
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallFields {
    #[serde(rename = "type")]
    _type: IgnoredAny,
    id: Option<String>,
    name: String,
    // Kept raw, so that a model's numbers and spacing are played as written.
    #[serde(default, deserialize_with = "present")]
    arguments: Option<Box<RawValue>>,
}

/// Tells `null` from a field that isn't there.
fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UsageFields {
    #[serde(rename = "type")]
    _type: IgnoredAny,
    input: Option<u64>,
    output: Option<u64>,
    cached: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SleepFields {
    #[serde(rename = "type")]
    _type: IgnoredAny,
    ms: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorFields {
    #[serde(rename = "type")]
    _type: IgnoredAny,
    kind: String,
    message: Option<String>,
    retry_after_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StopFields {
    #[serde(rename = "type")]
    _type: IgnoredAny,
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoFields {
    #[serde(rename = "type")]
    _type: IgnoredAny,
}

fn parse_event(event: &str) -> Result<ScriptEvent, String> {
    let Typed { r#type } = serde_json::from_str(event)
        .map_err(|_| "an event is an object with a `type`, which is a string".to_owned())?;
    Ok(match r#type.as_str() {
        "text" => ScriptEvent::Text {
            text: fields::<TextFields>("text", event)?.text,
        },
        "reasoning" => ScriptEvent::Reasoning {
            text: fields::<TextFields>("reasoning", event)?.text,
        },
        "call" => {
            let call: CallFields = fields("call", event)?;
            ScriptEvent::Call(EngineToolCall {
                id: call.id,
                name: call.name,
                arguments: parse_arguments(call.arguments.as_deref())?,
                state: None,
            })
        }
        "usage" => {
            let usage: UsageFields = fields("usage", event)?;
            ScriptEvent::Usage(Usage {
                input: usage.input,
                output: usage.output,
                cached: usage.cached,
                ..Usage::default()
            })
        }
        "sleep" => ScriptEvent::Sleep {
            ms: fields::<SleepFields>("sleep", event)?.ms,
        },
        "stall" => fields::<NoFields>("stall", event).map(|_| ScriptEvent::Stall)?,
        "error" => {
            let error: ErrorFields = fields("error", event)?;
            ScriptEvent::Error {
                kind: parse_kind(&error.kind)?,
                message: error
                    .message
                    .unwrap_or_else(|| "the script says so".to_owned()),
                retry_after_ms: error.retry_after_ms,
            }
        }
        "cut" => fields::<NoFields>("cut", event).map(|_| ScriptEvent::Cut)?,
        "stop" => ScriptEvent::Stop {
            reason: parse_reason(fields::<StopFields>("stop", event)?.reason),
        },
        other => return Err(unknown("event type", other, &EVENT_TYPES)),
    })
}

fn fields<T: DeserializeOwned>(r#type: &str, event: &str) -> Result<T, String> {
    serde_json::from_str(event).map_err(|e| format!("`{type}`: {e}"))
}

fn parse_kind(text: &str) -> Result<ErrorKind, String> {
    serde_json::from_value(serde_json::Value::String(text.to_owned()))
        .map_err(|_| unknown("error kind", text, &ERROR_KINDS.map(ErrorKind::as_str)))
}

fn parse_reason(word: String) -> FinishReason {
    match word.as_str() {
        // `stop` is what most wires call it.
        "end" | "stop" => FinishReason::End,
        "tool_calls" => FinishReason::ToolCalls,
        "length" => FinishReason::Length,
        "content_filter" => FinishReason::ContentFilter,
        _ => FinishReason::Other(word),
    }
}

/// Says that a word isn't known, and which one may have been meant.
fn unknown(what: &str, word: &str, known: &[&str]) -> String {
    let nearest = known
        .iter()
        .map(|candidate| match word.contains(candidate) {
            // `tool_call` is far from `call` by letters, and yet plainly meant.
            true => (0, candidate),
            false => (strsim::damerau_levenshtein(word, candidate), candidate),
        })
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, candidate)| *distance <= candidate.len().div_ceil(2));
    match nearest {
        Some((_, nearest)) => format!("unknown {what} `{word}`; did you mean `{nearest}`?"),
        None => format!("unknown {what} `{word}`; known are {}", known.join(", ")),
    }
}

fn parse_arguments(json: Option<&RawValue>) -> Result<String, String> {
    match json.map(RawValue::get) {
        None => Ok(String::new()),
        Some(text) if text.starts_with('"') => {
            serde_json::from_str(text).map_err(|e| format!("`call`: {e}"))
        }
        Some(other) => Ok(other.to_owned()),
    }
}

#[cfg(test)]
mod tests;
