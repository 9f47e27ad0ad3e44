//! What a conversation is made of.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind, Result};
use crate::id::CallId;

/// One piece of content in a message or a tool result.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", try_from = "PartFields")]
#[non_exhaustive]
pub enum Part {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    Image {
        /// Its media type, such as `image/png`.
        media_type: String,
        /// Its bytes in standard base64 (RFC 4648, section 4).
        data: String,
    },
    /// A structured value.
    Json {
        /// The value, byte for byte as it was given.
        value: Box<RawValue>,
    },
}

impl Part {
    /// A part of plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// The text, if this is a part of text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            _ => None,
        }
    }
}

impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text { text: a }, Self::Text { text: b }) => a == b,
            (
                Self::Image {
                    media_type: a,
                    data: x,
                },
                Self::Image {
                    media_type: b,
                    data: y,
                },
            ) => a == b && x == y,
            (Self::Json { value: a }, Self::Json { value: b }) => a.get() == b.get(),
            _ => false,
        }
    }
}

/// What a provider needs back with an item, untouched: a signature, encrypted
/// reasoning. Only the engine of the same provider reads it; any other uses the
/// item's portable form and leaves this out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProviderState {
    /// Whose state this is, such as `anthropic` or `openai`.
    pub provider: String,
    /// The state, byte for byte.
    pub data: Box<RawValue>,
}

impl PartialEq for ProviderState {
    fn eq(&self, other: &Self) -> bool {
        self.provider == other.provider && self.data.get() == other.data.get()
    }
}

/// A model's wish to run a tool, as it stands in the history.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolCall {
    /// Unique in its thread; repaired by the runtime where a model gave none or
    /// one twice.
    pub id: CallId,
    /// The tool's name as the model wrote it. It may name no tool at all, so it
    /// is text, not a [`ToolName`](crate::ToolName).
    pub name: String,
    /// The arguments: a JSON object, or (where the model wrote no valid JSON
    /// object) a JSON string with the text it did write.
    pub arguments: Box<RawValue>,
    /// What the provider needs back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ProviderState>,
}

impl PartialEq for ToolCall {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
            && self.name == other.name
            && self.arguments.get() == other.arguments.get()
            && self.state == other.state
    }
}

impl ToolCall {
    /// The arguments as a JSON object's text, or `None` if the model's text was
    /// none.
    pub fn arguments_object(&self) -> Option<&str> {
        let text = self.arguments.get();
        text.starts_with('{').then_some(text)
    }

    /// Reads the arguments into a type of the tool's own.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`], with the position, if they don't fit.
    pub fn parse<T: serde::de::DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(self.arguments.get()).map_err(|e| {
            Error::new(
                ErrorKind::InvalidInput,
                format!("the arguments don't fit: {e}"),
            )
            .context("tool", &self.name)
        })
    }
}

/// What came of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call this answers.
    pub call_id: CallId,
    /// The name that was called.
    pub name: String,
    /// True if the model should take it as a failure.
    pub is_error: bool,
    /// What the model reads. Never empty, and no text part in it is empty.
    pub parts: Vec<Part>,
}

impl ToolResult {
    /// All text of the result, parts joined by line breaks.
    pub fn text(&self) -> String {
        join_text(&self.parts)
    }
}

/// All text parts of a list, joined by line breaks.
pub fn join_text(parts: &[Part]) -> String {
    parts
        .iter()
        .filter_map(Part::as_text)
        .collect::<Vec<_>>()
        .join("\n")
}

/// How a notice should be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeLevel {
    /// Good to know.
    Info,
    /// Something didn't go as wished; the turn goes on.
    Warning,
    /// Something failed.
    Error,
}

/// One element of a thread's history.
///
/// Stored and printed as JSON with a `type` of `user_message`,
/// `assistant_message`, `reasoning`, `tool_call`, `tool_result` or `notice`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", try_from = "ItemFields")]
#[non_exhaustive]
pub enum Item {
    /// What the user said.
    UserMessage {
        /// The content; never empty.
        parts: Vec<Part>,
    },
    /// What the model said.
    AssistantMessage {
        /// The text; never empty.
        text: String,
        /// What the provider needs back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<ProviderState>,
    },
    /// What the model thought, as far as its provider shows it.
    Reasoning {
        /// The readable part. May be empty where only `state` carries it.
        text: String,
        /// What the provider needs back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<ProviderState>,
    },
    /// A tool the model wants run.
    ToolCall(ToolCall),
    /// What came of it.
    ToolResult(ToolResult),
    /// A word from the runtime to the reader of the thread. Models don't see it.
    Notice {
        /// How it should be taken.
        level: NoticeLevel,
        /// One stable word for programs, such as `interrupted` or `compaction`.
        code: String,
        /// The text for people.
        text: String,
    },
}

impl Item {
    /// A user's message of plain text.
    pub fn user(text: impl Into<String>) -> Self {
        Self::UserMessage {
            parts: vec![Part::text(text)],
        }
    }

    /// A model's message without provider state.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::AssistantMessage {
            text: text.into(),
            state: None,
        }
    }

    /// The item's `type` in JSON.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::UserMessage { .. } => "user_message",
            Self::AssistantMessage { .. } => "assistant_message",
            Self::Reasoning { .. } => "reasoning",
            Self::ToolCall(_) => "tool_call",
            Self::ToolResult(_) => "tool_result",
            Self::Notice { .. } => "notice",
        }
    }
}

/// A JSON value's text, validated: the way to make the raw values that items
/// carry.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] with the position if it isn't JSON.
pub fn raw_json(text: impl Into<String>) -> Result<Box<RawValue>> {
    RawValue::from_string(text.into())
        .map_err(|e| Error::new(ErrorKind::InvalidInput, format!("not valid JSON: {e}")).source(e))
}

/// Every field that any [`Part`] has. Raw JSON can't be read through serde's
/// tagged enums (they buffer), so parts and items are read in two steps.
#[derive(Deserialize)]
struct PartFields {
    r#type: String,
    text: Option<String>,
    media_type: Option<String>,
    data: Option<String>,
    value: Option<Box<RawValue>>,
}

fn field<T>(value: Option<T>, owner: &str, name: &str) -> Result<T, String> {
    value.ok_or_else(|| format!("{owner} has no field `{name}`"))
}

impl TryFrom<PartFields> for Part {
    type Error = String;

    fn try_from(fields: PartFields) -> Result<Self, String> {
        Ok(match fields.r#type.as_str() {
            "text" => Self::Text {
                text: field(fields.text, "text part", "text")?,
            },
            "image" => Self::Image {
                media_type: field(fields.media_type, "image part", "media_type")?,
                data: field(fields.data, "image part", "data")?,
            },
            "json" => Self::Json {
                value: field(fields.value, "json part", "value")?,
            },
            other => return Err(format!("unknown part type `{other}`")),
        })
    }
}

/// Every field that any [`Item`] has; see [`PartFields`].
#[derive(Deserialize)]
struct ItemFields {
    r#type: String,
    parts: Option<Vec<Part>>,
    text: Option<String>,
    state: Option<ProviderState>,
    id: Option<CallId>,
    call_id: Option<CallId>,
    name: Option<String>,
    arguments: Option<Box<RawValue>>,
    is_error: Option<bool>,
    level: Option<NoticeLevel>,
    code: Option<String>,
}

impl TryFrom<ItemFields> for Item {
    type Error = String;

    fn try_from(fields: ItemFields) -> Result<Self, String> {
        let owner = fields.r#type.as_str();
        Ok(match owner {
            "user_message" => Self::UserMessage {
                parts: field(fields.parts, owner, "parts")?,
            },
            "assistant_message" => Self::AssistantMessage {
                text: field(fields.text, owner, "text")?,
                state: fields.state,
            },
            "reasoning" => Self::Reasoning {
                text: field(fields.text, owner, "text")?,
                state: fields.state,
            },
            "tool_call" => Self::ToolCall(ToolCall {
                id: field(fields.id, owner, "id")?,
                name: field(fields.name, owner, "name")?,
                arguments: field(fields.arguments, owner, "arguments")?,
                state: fields.state,
            }),
            "tool_result" => Self::ToolResult(ToolResult {
                call_id: field(fields.call_id, owner, "call_id")?,
                name: field(fields.name, owner, "name")?,
                is_error: field(fields.is_error, owner, "is_error")?,
                parts: field(fields.parts, owner, "parts")?,
            }),
            "notice" => Self::Notice {
                level: field(fields.level, owner, "level")?,
                code: field(fields.code, owner, "code")?,
                text: field(fields.text, owner, "text")?,
            },
            other => return Err(format!("unknown item type `{other}`")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_keep_raw_json_byte_for_byte() {
        let check = |json: &str| {
            let item: Item = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&item).unwrap(), json);
        };
        check(r#"{"type":"user_message","parts":[{"type":"text","text":"hi"}]}"#);
        check(
            r#"{"type":"user_message","parts":[{"type":"image","media_type":"image/png","data":"AA=="}]}"#,
        );
        check(
            r#"{"type":"assistant_message","text":"x","state":{"provider":"p","data":{"b":1.0, "a":2}}}"#,
        );
        check(r#"{"type":"reasoning","text":""}"#);
        check(
            r#"{"type":"tool_call","id":"c1","name":"add","arguments":{"a":10000000000000000000000, "b":1.50}}"#,
        );
        check(r#"{"type":"tool_call","id":"c1","name":"add","arguments":"{\"a\":"}"#);
        check(
            r#"{"type":"tool_result","call_id":"c1","name":"add","is_error":false,"parts":[{"type":"json","value":{"z":1,"a":[1.0]}}]}"#,
        );
        check(r#"{"type":"notice","level":"warning","code":"x","text":"y"}"#);
    }

    #[test]
    fn a_missing_field_or_unknown_type_is_named() {
        let check = |json: &str, word: &str| {
            let error = serde_json::from_str::<Item>(json).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        };
        check(r#"{"type":"tool_call","id":"c1","name":"x"}"#, "arguments");
        check(r#"{"type":"dream"}"#, "dream");
        check(
            r#"{"type":"user_message","parts":[{"type":"smell"}]}"#,
            "smell",
        );
    }
}
