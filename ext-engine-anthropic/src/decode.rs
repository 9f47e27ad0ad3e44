//! A stream's bytes, as events of the runtime.
//!
//! A message is a list of blocks, each of which starts, comes in pieces, and
//! stops. The rules here are what every server's streams can be read by:
//!
//! - The turn is finished only at the end of the stream, and only if the server
//!   said that the message was whole.
//! - A piece belongs to the latest block at its index, else to the last one. A
//!   block that nothing started is made by its first piece.
//! - A call's input comes in pieces, or whole where its block starts; pieces
//!   win.
//! - Calls decide, not the stop reason. A message that was cut off by a limit,
//!   or within a call's input, gives no call at all.
//! - Of the usage, the last word on each number counts.
//! - Unknown events, blocks and pieces are skipped. A second `message_start`
//!   begins the message anew.

mod blocks;
mod event;
mod usage;

use haft_api::{EngineEvent, Error, ErrorKind, FinishReason, Result, Usage};
use haft_engine_http::events::{self, EventDecoder, EventRules};
use haft_engine_http::tool_names::ToolNames;
use haft_engine_http::{SseEvent, failure};

use blocks::Blocks;
use event::{Event, Message};
use usage::UsageSoFar;

/// Decodes the stream of one Messages answer. Does no I/O.
///
/// ```
/// use haft_api::{EngineEvent, FinishReason};
/// use haft_ext_engine_anthropic::MessagesDecoder;
///
/// let mut decoder = MessagesDecoder::default();
/// let mut events = Vec::new();
/// decoder.push(
///     b"data: {\"type\":\"content_block_delta\",\"index\":0,\
///       \"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n",
///     &mut events,
/// )?;
/// decoder.push(b"data: {\"type\":\"message_stop\"}\n\n", &mut events)?;
/// decoder.finish(&mut events)?;
/// assert_eq!(events, [
///     EngineEvent::TextDelta { text: "hi".into() },
///     EngineEvent::Finished { reason: FinishReason::End },
/// ]);
/// # Ok::<(), haft_api::Error>(())
/// ```
pub type MessagesDecoder = EventDecoder<MessagesRules>;

/// How Messages is read, and what has been said so far.
#[derive(Debug, Clone, Default)]
pub struct MessagesRules {
    blocks: Blocks,
    usage: UsageSoFar,
    started: bool,
    stop_reason: Option<String>,
    /// Why a request was declined, in the server's words.
    explanation: Option<String>,
    stopped: bool,
    done: bool,
    progress: u64,
}

impl MessagesRules {
    /// Rules that give tools their own names back and mark provider state as
    /// that of `provider`.
    pub(crate) fn new(names: ToolNames, provider: String) -> Self {
        Self {
            blocks: Blocks::new(names, provider),
            ..Self::default()
        }
    }

    fn start(&mut self, message: Option<&Message<'_>>, events: &mut Vec<EngineEvent>) {
        if std::mem::replace(&mut self.started, true) || !self.blocks.is_empty() {
            self.blocks.restart(events);
            self.usage = UsageSoFar::default();
            self.stop_reason = None;
            self.explanation = None;
            self.stopped = false;
        }
        if let Some(message) = message {
            self.usage.take(message.usage);
        }
    }

    fn stop_for(&mut self, reason: Option<String>, explanation: Option<String>) {
        self.stop_reason = reason.or(self.stop_reason.take());
        self.explanation = explanation.or(self.explanation.take());
    }

    /// A whole message that isn't a stream.
    fn take_message(&mut self, message: &Message<'_>, events: &mut Vec<EngineEvent>) -> Result<()> {
        self.start(Some(message), events);
        for (index, block) in (0..).zip(message.content()?) {
            self.blocks.start(Some(index), block, events)?;
            self.blocks.stop(Some(index), events);
        }
        self.stop_for(message.stop_reason(), message.explanation());
        self.stopped = true;
        self.progress += 1;
        Ok(())
    }

    fn take_event(&mut self, event: &Event<'_>, events: &mut Vec<EngineEvent>) -> Result<()> {
        match event.type_name() {
            "message_start" => {
                let message = event.message()?;
                self.start(message.as_ref(), events);
            }
            "content_block_start" => {
                if let Some(block) = event.content_block {
                    self.blocks.start(event.index(), block, events)?;
                }
            }
            "content_block_delta" => {
                if let Some(delta) = event.block_delta()? {
                    self.blocks.delta(event.index(), &delta, events);
                }
            }
            "content_block_stop" => self.blocks.stop(event.index(), events),
            "message_delta" => {
                if let Some(delta) = event.message_delta()? {
                    self.stop_for(delta.stop_reason(), delta.explanation());
                    self.usage.take(delta.usage);
                }
                self.usage.take(event.usage);
            }
            "message_stop" => {
                self.usage.take(event.usage);
                self.stopped = true;
            }
            // Pings and what is yet to be invented.
            _ => return Ok(()),
        }
        self.progress += 1;
        Ok(())
    }

    fn reason(&self) -> FinishReason {
        let word = self.stop_reason.as_deref().unwrap_or("end_turn");
        match word {
            "max_tokens" | "model_context_window_exceeded" | "length" => {
                return FinishReason::Length;
            }
            "refusal" => {
                let why = self.explanation.as_deref().unwrap_or("the model declined");
                return FinishReason::Other(format!("refusal: {}", failure::quote(why)));
            }
            "content_filter" | "sensitive" => return FinishReason::ContentFilter,
            _ if self.blocks.cut_off() => return FinishReason::Length,
            _ if self.blocks.has_calls() => return FinishReason::ToolCalls,
            _ => {}
        }
        match word {
            // `tool_use` without a call: nothing is left to do.
            "end_turn" | "stop_sequence" | "stop" | "tool_use" => FinishReason::End,
            other => FinishReason::Other(other.to_owned()),
        }
    }
}

impl EventRules for MessagesRules {
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
        if read.type_name() == "message" {
            let message: Message<'_> =
                serde_json::from_str(text).map_err(|why| events::invalid(data, why))?;
            return self.take_message(&message, events);
        }
        self.take_event(&read, events)
    }

    fn finish(&mut self, events: &mut Vec<EngineEvent>) -> Result<()> {
        if !(self.stopped || self.done && self.stop_reason.is_some()) {
            return Err(events::broken_off());
        }
        if self.stop_reason.as_deref() == Some("error") {
            return Err(Error::new(
                ErrorKind::Unavailable,
                "the server gave up on the answer (stop reason `error`)",
            ));
        }
        self.blocks.stop_all(events);
        let reason = self.reason();
        self.blocks
            .finish(reason == FinishReason::ToolCalls, events);
        events.extend(self.take_usage().map(EngineEvent::Usage));
        events.push(EngineEvent::Finished { reason });
        Ok(())
    }

    fn take_usage(&mut self) -> Option<Usage> {
        let usage = std::mem::take(&mut self.usage).normalised();
        (!usage.is_empty()).then_some(usage)
    }

    fn is_done(&self) -> bool {
        self.done || self.stopped
    }

    fn has_ended(&self) -> bool {
        self.stopped
    }

    fn progress(&self) -> u64 {
        self.progress
    }
}
