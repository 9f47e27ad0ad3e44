//! A stream's bytes, as events of the runtime.
//!
//! An answer is a list of items, each of which is added, comes in pieces, and is
//! done. What servers make of it differs; the rules here are what all of them
//! can be read by:
//!
//! - The turn is finished only at the end of the stream, and only if the server
//!   said how the response ended.
//! - [`items`] tells whose a piece is: ids change on the way, indexes are
//!   missing, items are never added, or never done.
//! - What is told whole when something is done adds what the pieces didn't
//!   have. An answer that has its items at the end alone, or that isn't a stream
//!   at all, is read from there.
//! - Calls decide, not the status. A response that is incomplete, or that ends
//!   within a call's arguments, gives no call at all.
//! - The last usage counts; unknown events are skipped; `"error": null` is no
//!   error. A second response in the stream begins the answer anew.

mod event;
mod items;
mod output;

use haft_api::{EngineEvent, Error, ErrorKind, FinishReason, Result, Usage};
use haft_engine_http::events::{self, EventDecoder, EventRules};
use haft_engine_http::tool_names::ToolNames;
use haft_engine_http::{SseEvent, failure};

use event::{Ended, Event, Response};
use items::{Kind, Piece};
use output::Output;

/// Decodes the stream of one Responses answer. Does no I/O.
///
/// ```
/// use haft_api::{EngineEvent, FinishReason};
/// use haft_ext_engine_openai::ResponsesDecoder;
///
/// let mut decoder = ResponsesDecoder::default();
/// let mut events = Vec::new();
/// decoder.push(b"data: {\"type\":\"response.output_text.delta\",\"delta\":\"hi\"}\n\n", &mut events)?;
/// decoder.push(b"data: {\"type\":\"response.completed\",\"response\":{}}\n\n", &mut events)?;
/// decoder.finish(&mut events)?;
/// assert_eq!(events, [
///     EngineEvent::TextDelta { text: "hi".into() },
///     EngineEvent::Finished { reason: FinishReason::End },
/// ]);
/// # Ok::<(), haft_api::Error>(())
/// ```
pub type ResponsesDecoder = EventDecoder<ResponsesRules>;

/// How Responses is read, and what has been said so far.
#[derive(Debug, Clone, Default)]
pub struct ResponsesRules {
    output: Output,
    usage: Option<Usage>,
    ended: Option<Ended>,
    done: bool,
    progress: u64,
}

impl ResponsesRules {
    /// Rules that give tools their own names back and mark provider state as
    /// that of `provider`.
    pub(crate) fn new(names: ToolNames, provider: String) -> Self {
        Self {
            output: Output::new(names, provider),
            ..Self::default()
        }
    }

    /// What a response object says, wherever it stands.
    fn take_response(&mut self, response: &Response<'_>) {
        if let Some(usage) = response.usage() {
            self.usage = Some(usage);
        }
    }

    /// The response's end, whatever its event is called.
    fn end(
        &mut self,
        verb: &str,
        response: &Response<'_>,
        events: &mut Vec<EngineEvent>,
    ) -> Result<()> {
        self.take_response(response);
        match response.ended(verb) {
            Ended::Failed => return Err(response.failure()),
            ended => self.ended = Some(ended),
        }
        self.progress += 1;
        self.output.complete(response.output(), events)
    }

    fn begin(&mut self, response: &Response<'_>, events: &mut Vec<EngineEvent>) {
        self.ended = None;
        self.output.restart(events);
        self.take_response(response);
    }

    fn take_event(&mut self, event: &Event<'_>, events: &mut Vec<EngineEvent>) -> Result<()> {
        let output = &mut self.output;
        let said = match event.subject() {
            ("output_item", "added") => output.item(event, false, events)?,
            ("output_item", "done") => output.item(event, true, events)?,
            ("output_text" | "text", "delta") => {
                output.piece(event, Kind::Message, Piece::Delta, events)
            }
            ("output_text" | "text", "done") => {
                output.piece(event, Kind::Message, Piece::Whole, events)
            }
            ("reasoning_summary_text" | "reasoning_summary", "delta") => {
                output.piece(event, Kind::Reasoning, Piece::Delta, events)
            }
            ("reasoning_summary_text" | "reasoning_summary", "done") => {
                output.piece(event, Kind::Reasoning, Piece::Whole, events)
            }
            ("reasoning_text" | "reasoning" | "reasoning_content", "delta") => {
                output.piece(event, Kind::RawReasoning, Piece::Delta, events)
            }
            ("reasoning_text" | "reasoning" | "reasoning_content", "done") => {
                output.piece(event, Kind::RawReasoning, Piece::Whole, events)
            }
            ("function_call_arguments", "delta") => {
                output.piece(event, Kind::Call, Piece::Delta, events)
            }
            ("function_call_arguments", "done") => {
                output.piece(event, Kind::Call, Piece::Whole, events)
            }
            ("refusal", "delta") => output.refusal(event, Piece::Delta),
            ("refusal", "done") => output.refusal(event, Piece::Whole),
            ("content_part", "done") => output.part(event, events)?,
            ("", "created") => {
                if let Some(response) = event.response()? {
                    self.begin(&response, events);
                }
                false
            }
            ("", verb @ ("completed" | "done" | "incomplete" | "failed" | "cancelled")) => {
                let response = event.response()?.unwrap_or_default();
                return self.end(verb, &response, events);
            }
            _ => match event.response() {
                Ok(Some(response)) => {
                    self.take_response(&response);
                    false
                }
                // Of an event that isn't known nothing is expected.
                _ => event.is_of_a_model(),
            },
        };
        self.progress += u64::from(said);
        Ok(())
    }
}

impl EventRules for ResponsesRules {
    fn take(&mut self, event: SseEvent<'_>, events: &mut Vec<EngineEvent>) -> Result<()> {
        let data = event.data.trim_ascii();
        if data == b"[DONE]" {
            self.done = true;
            return Ok(());
        }
        if event.name == b"error" && !data.starts_with(b"{") {
            return failure::from_event(data).map_or(Ok(()), Err);
        }
        // Checked once as a whole, text is read faster than bytes are.
        let text = match std::str::from_utf8(data) {
            Ok(text) => text,
            Err(why) => return events::unreadable(event, why),
        };
        let read: Event<'_> = match serde_json::from_str(text) {
            Ok(read) => read,
            Err(why) => return events::unreadable(event, why),
        };
        let read = read.named(event.name);
        if let Some(error) = read.error(text) {
            return Err(error);
        }
        // A response that isn't an event's, but the answer itself.
        if read.is_response() {
            let response: Response<'_> =
                serde_json::from_str(text).map_err(|why| events::invalid(data, why))?;
            let status = response.status();
            return self.end(status.as_deref().unwrap_or("completed"), &response, events);
        }
        self.take_event(&read, events)
    }

    fn finish(&mut self, events: &mut Vec<EngineEvent>) -> Result<()> {
        let reason = match self.ended.take() {
            None => return Err(events::broken_off()),
            Some(Ended::Failed) => {
                return Err(Error::new(
                    ErrorKind::Unavailable,
                    "the server gave up on the answer",
                ));
            }
            Some(Ended::Cut(reason)) => reason,
            Some(Ended::Well) => self.output.reason(),
        };
        self.output
            .finish(reason == FinishReason::ToolCalls, events);
        events.extend(self.usage.take().map(EngineEvent::Usage));
        events.push(EngineEvent::Finished { reason });
        Ok(())
    }

    fn take_usage(&mut self) -> Option<Usage> {
        self.usage.take()
    }

    fn is_done(&self) -> bool {
        self.done || self.ended.is_some()
    }

    fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    fn progress(&self) -> u64 {
        self.progress
    }
}
