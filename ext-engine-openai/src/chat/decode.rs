//! A stream's bytes, as events of the runtime.
//!
//! Servers differ widely in what they send under the name of Chat Completions;
//! the rules here are what all of them can be read by:
//!
//! - The turn is finished only at the end of the stream, and only if the server
//!   said that it was: by a finish reason or by `[DONE]`.
//! - The last usage counts.
//! - Calls are put together by [`calls`]; whether there were any decides, not
//!   the finish reason. A stream that was cut off by the output limit, or
//!   within a call's arguments, gives no call at all.
//! - Unknown fields and events are skipped; `"error": null` is no error.
//! - A refusal, which stands apart from the text, is the reason of the end.

mod calls;
mod chunk;
mod reasoning;
pub(crate) mod usage;

use haft_api::{EngineEvent, Error, ErrorKind, FinishReason, ProviderState, Result, Usage};
use haft_engine_http::events::{self, EventDecoder, EventRules};
use haft_engine_http::tool_names::ToolNames;
use haft_engine_http::{SseEvent, failure};
use serde_json::value::RawValue;

use calls::{Calls, Fragment};
use chunk::{Choice, Chunk, Delta, Said};
use reasoning::ReasoningDetails;

/// Decodes the stream of one Chat Completions answer. Does no I/O.
///
/// ```
/// use haft_api::{EngineEvent, FinishReason};
/// use haft_ext_engine_openai::ChatDecoder;
///
/// let mut decoder = ChatDecoder::default();
/// let mut events = Vec::new();
/// decoder.push(b"data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n", &mut events)?;
/// decoder.push(b"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n", &mut events)?;
/// decoder.finish(&mut events)?;
/// assert_eq!(events, [
///     EngineEvent::TextDelta { text: "hi".into() },
///     EngineEvent::Finished { reason: FinishReason::End },
/// ]);
/// # Ok::<(), haft_api::Error>(())
/// ```
pub type ChatDecoder = EventDecoder<ChatRules>;

/// How Chat Completions is read, and what has been said so far.
#[derive(Debug, Clone, Default)]
pub struct ChatRules {
    names: ToolNames,
    provider: String,
    calls: Calls,
    details: ReasoningDetails,
    usage: Option<Usage>,
    finish_reason: Option<String>,
    /// Why the model said nothing, in its own words.
    refusal: String,
    /// The choice that is followed, where the server gives several.
    choice: Option<u64>,
    done: bool,
    progress: u64,
}

impl ChatRules {
    /// Rules that give tools their own names back and mark provider state as
    /// that of `provider`.
    pub(crate) fn new(names: ToolNames, provider: &str) -> Self {
        Self {
            names,
            provider: provider.to_owned(),
            ..Self::default()
        }
    }
}

impl EventRules for ChatRules {
    fn take(&mut self, event: SseEvent<'_>, events: &mut Vec<EngineEvent>) -> Result<()> {
        let data = event.data.trim_ascii();
        if data == b"[DONE]" {
            self.done = true;
            return Ok(());
        }
        if event.name == b"error" {
            return failure::from_event(data).map_or(Ok(()), Err);
        }
        // Checked once as a whole, text is read faster than bytes are.
        let chunk = match std::str::from_utf8(data) {
            Ok(text) => serde_json::from_str(text).map_err(|e| e.to_string()),
            Err(e) => Err(e.to_string()),
        };
        let chunk: Chunk<'_> = match chunk {
            Ok(chunk) => chunk,
            Err(why) => return events::unreadable(event, why),
        };
        if let Some(error) = chunk.error() {
            return Err(error);
        }
        if let Some(usage) = chunk.usage() {
            self.usage = Some(usage);
        }
        for choice in chunk.choices.into_iter().flat_map(|few| few.0).flatten() {
            self.take_choice(choice, events)?;
        }
        Ok(())
    }

    fn finish(&mut self, events: &mut Vec<EngineEvent>) -> Result<()> {
        let reason = self.finish_reason.as_deref();
        if reason.is_none() && !self.done {
            return Err(events::broken_off());
        }
        let reason = match reason.map(Ended::of) {
            Some(Ended::Failed(word)) => {
                return Err(Error::new(
                    ErrorKind::Unavailable,
                    format!("the server gave up on the answer (finish reason `{word}`)"),
                ));
            }
            Some(Ended::Cut(reason)) => reason,
            // A refusal stands apart from the answer's text, and ends it.
            _ if !self.refusal.is_empty() => {
                FinishReason::Other(format!("refusal: {}", failure::quote(&self.refusal)))
            }
            _ if self.calls.cut_off() => FinishReason::Length,
            // Calls decide, whatever the word is.
            _ if !self.calls.is_empty() => FinishReason::ToolCalls,
            Some(Ended::Well(reason)) => reason,
            None => FinishReason::End,
        };
        self.end_reasoning(events);
        if reason == FinishReason::ToolCalls {
            for call in self.calls.take() {
                let state = call.state.map(|data| ProviderState {
                    provider: self.provider.clone(),
                    data,
                });
                events.push(EngineEvent::Call(haft_api::EngineToolCall {
                    id: call.id,
                    name: self.names.original(&call.name).to_owned(),
                    arguments: call.arguments,
                    state,
                }));
            }
        }
        events.extend(self.usage.take().map(EngineEvent::Usage));
        events.push(EngineEvent::Finished { reason });
        Ok(())
    }

    fn take_usage(&mut self) -> Option<Usage> {
        self.usage.take()
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn has_ended(&self) -> bool {
        self.finish_reason.is_some()
    }

    fn progress(&self) -> u64 {
        self.progress
    }
}

impl ChatRules {
    fn take_choice(&mut self, choice: Choice<'_>, events: &mut Vec<EngineEvent>) -> Result<()> {
        let index = choice.index();
        if *self.choice.get_or_insert(index) != index {
            return Ok(());
        }
        self.progress += 1;
        if let Some(error) = choice.error() {
            return Err(error);
        }
        if let Some(reason) = choice.finish_reason() {
            self.finish_reason = Some(reason);
        }
        // A whole message stands beside the deltas of some servers, and instead
        // of them in an answer that isn't a stream.
        match choice.delta.or(choice.message) {
            Some(delta) => self.take_delta(delta, events),
            None => Ok(()),
        }
    }

    fn take_delta(&mut self, delta: Delta<'_>, events: &mut Vec<EngineEvent>) -> Result<()> {
        if let Some(details) = delta.reasoning_details {
            self.details.add(details);
        }
        let Said {
            reasoning,
            text,
            refusal,
        } = delta.said()?;
        self.refusal.push_str(&refusal);
        if !reasoning.is_empty() {
            events.push(EngineEvent::ReasoningDelta { text: reasoning });
        }
        if !text.is_empty() {
            self.end_reasoning(events);
            events.push(EngineEvent::TextDelta { text });
        }
        for fragment in delta.call_fragments()? {
            self.end_reasoning(events);
            self.take_fragment(fragment, events);
        }
        Ok(())
    }

    fn take_fragment(&mut self, fragment: Fragment<'_>, events: &mut Vec<EngineEvent>) {
        if let Some(added) = self.calls.add(fragment) {
            events.push(EngineEvent::CallDelta {
                index: added.index,
                name: added.name.map(|name| self.names.original(name).to_owned()),
                arguments: added.arguments.to_owned(),
            });
        }
    }

    /// Attaches what the provider needs back to the reasoning that is over.
    fn end_reasoning(&mut self, events: &mut Vec<EngineEvent>) {
        if let Some(data) = self.details.take() {
            events.push(EngineEvent::ReasoningEnd {
                state: Some(ProviderState {
                    provider: self.provider.clone(),
                    data,
                }),
            });
        }
    }
}

/// How an answer ended, by the server's word.
enum Ended<'a> {
    /// The model had said all.
    Well(FinishReason),
    /// Something cut it off: none of its calls can be trusted.
    Cut(FinishReason),
    /// The server broke down.
    Failed(&'a str),
}

impl<'a> Ended<'a> {
    fn of(word: &'a str) -> Self {
        match word.to_ascii_lowercase().as_str() {
            // `tool_calls` and the like without a call: nothing is left to do.
            "stop" | "end" | "end_turn" | "eos" | "eos_token" | "complete" | "completed"
            | "stop_sequence" | "tool_calls" | "tool_call" | "tool_use" | "function_call" => {
                Self::Well(FinishReason::End)
            }
            "length" | "max_tokens" | "max_output_tokens" | "model_length" => {
                Self::Cut(FinishReason::Length)
            }
            "content_filter" | "safety" | "recitation" | "sensitive" => {
                Self::Cut(FinishReason::ContentFilter)
            }
            "error"
            | "abort"
            | "aborted"
            | "cancelled"
            | "insufficient_system_resource"
            | "network_error" => Self::Failed(word),
            _ => Self::Well(FinishReason::Other(word.to_owned())),
        }
    }
}

/// A raw value of its own.
fn own(raw: &RawValue) -> Box<RawValue> {
    raw.to_owned()
}

#[cfg(test)]
mod tests;
