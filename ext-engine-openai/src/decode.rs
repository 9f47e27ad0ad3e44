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
mod usage;

use haft_api::{EngineEvent, Error, ErrorKind, FinishReason, ProviderState, Result, Usage};
use haft_engine_http::tool_names::ToolNames;
use haft_engine_http::{AnswerDecoder, SseDecoder, SseEvent, failure};
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
#[derive(Debug, Clone, Default)]
pub struct ChatDecoder {
    sse: SseDecoder,
    answer: Answer,
}

/// What has been said so far.
#[derive(Debug, Clone, Default)]
struct Answer {
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

impl ChatDecoder {
    /// A decoder that gives tools their own names back and marks provider state
    /// as that of `provider`.
    pub(crate) fn new(names: ToolNames, provider: &str) -> Self {
        Self {
            sse: SseDecoder::new(),
            answer: Answer {
                names,
                provider: provider.to_owned(),
                ..Answer::default()
            },
        }
    }

    /// Takes the next bytes and adds the events that they complete.
    ///
    /// # Errors
    /// What the server says went wrong, with the kind and status that fit, and
    /// [`ErrorKind::Corrupt`] for what isn't the wire at all. The events before
    /// it were added; the decoder is of no further use.
    pub fn push(&mut self, bytes: &[u8], events: &mut Vec<EngineEvent>) -> Result<()> {
        let mut outcome = Ok(());
        let answer = &mut self.answer;
        let sized = self.sse.push(bytes, |event| {
            if outcome.is_ok() {
                outcome = answer.take(event, events);
            }
        });
        let outcome = match (outcome, sized) {
            (Ok(()), Err(_)) => Err(Error::new(
                ErrorKind::Corrupt,
                "the server sent an event of more than 64 MiB",
            )),
            (outcome, _) => outcome,
        };
        self.with_usage(outcome, events)
    }

    /// Ends the stream: adds the calls, the usage and the end.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if the server didn't say that the answer was
    /// whole, and as [`push`](Self::push).
    pub fn finish(&mut self, events: &mut Vec<EngineEvent>) -> Result<()> {
        let mut outcome = Ok(());
        let answer = &mut self.answer;
        let mut last = false;
        self.sse.finish(|event| {
            last = true;
            if outcome.is_ok() {
                outcome = answer.take(event, events);
            }
        });
        // An event that the end of the stream cut off isn't corrupt, but cut off.
        if last && matches!(&outcome, Err(e) if e.kind() == ErrorKind::Corrupt) {
            outcome = Ok(());
        }
        let outcome = outcome.and_then(|()| self.answer.finish(events));
        self.with_usage(outcome, events)
    }

    /// What was used is told of failed answers, too.
    fn with_usage(&mut self, outcome: Result<()>, events: &mut Vec<EngineEvent>) -> Result<()> {
        if outcome.is_err() {
            events.extend(self.answer.usage.take().map(EngineEvent::Usage));
        }
        outcome
    }
}

impl AnswerDecoder for ChatDecoder {
    fn push(&mut self, bytes: &[u8], events: &mut Vec<EngineEvent>) -> Result<()> {
        ChatDecoder::push(self, bytes, events)
    }

    fn finish(&mut self, events: &mut Vec<EngineEvent>) -> Result<()> {
        ChatDecoder::finish(self, events)
    }

    fn whole(&mut self, body: &[u8], events: &mut Vec<EngineEvent>) -> Result<()> {
        // Some wrap a failure's object in a list, and name it as an event would.
        let name: &[u8] = if body.trim_ascii_start().starts_with(b"[") {
            b"error"
        } else {
            b""
        };
        let event = SseEvent { name, data: body };
        let outcome = self
            .answer
            .take(event, events)
            .and_then(|()| self.answer.finish(events));
        self.with_usage(outcome, events)
    }

    fn is_done(&self) -> bool {
        self.answer.done
    }

    fn has_ended(&self) -> bool {
        self.answer.finish_reason.is_some()
    }

    fn progress(&self) -> u64 {
        self.answer.progress
    }
}

impl Answer {
    fn take(&mut self, event: SseEvent<'_>, events: &mut Vec<EngineEvent>) -> Result<()> {
        let data = event.data.trim_ascii();
        if data == b"[DONE]" {
            self.done = true;
            return Ok(());
        }
        if event.name == b"error" {
            let said = serde_json::from_slice(data).unwrap_or_else(|_| {
                serde_json::Value::String(String::from_utf8_lossy(data).into_owned())
            });
            return failure::from_stream(&said).map_or(Ok(()), Err);
        }
        // Checked once as a whole, text is read faster than bytes are.
        let chunk = match std::str::from_utf8(data) {
            Ok(text) => serde_json::from_str(text).map_err(|e| e.to_string()),
            Err(e) => Err(e.to_string()),
        };
        let chunk: Chunk<'_> = match chunk {
            Ok(chunk) => chunk,
            Err(why) => return self.not_a_chunk(event, data, &why),
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

    fn not_a_chunk(&self, event: SseEvent<'_>, data: &[u8], why: &str) -> Result<()> {
        // Servers add events of their own, such as pings.
        let own_event = !event.name.is_empty() && event.name != b"message";
        let no_object = !data.starts_with(b"{");
        let is_json = || serde_json::from_slice::<serde::de::IgnoredAny>(data).is_ok();
        if own_event || data.is_empty() || (no_object && is_json()) {
            return Ok(());
        }
        // It may well be whole the next time.
        Err(Error::new(
            ErrorKind::Corrupt,
            format!(
                "the server sent an event that isn't valid ({why}): {}",
                failure::quote(&String::from_utf8_lossy(data))
            ),
        )
        .temporary())
    }

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

    fn finish(&mut self, events: &mut Vec<EngineEvent>) -> Result<()> {
        let reason = self.finish_reason.as_deref();
        if reason.is_none() && !self.done {
            return Err(Error::new(
                ErrorKind::Unavailable,
                "the answer broke off: the stream ended before the server said that it was whole",
            ));
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
