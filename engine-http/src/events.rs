//! A stream of server-sent events, as an answer.

use std::fmt;

use haft_api::{EngineEvent, Error, ErrorKind, Result, Usage};

use crate::answer::AnswerDecoder;
use crate::failure;
use crate::sse::{SseDecoder, SseEvent};

/// The rules of one wire: what its events say. It is given them one by one and
/// whole.
pub trait EventRules: Send + 'static {
    /// Takes an event, or a whole answer that isn't a stream.
    ///
    /// # Errors
    /// What the server says went wrong, and [`ErrorKind::Corrupt`] for what isn't
    /// the wire at all.
    fn take(&mut self, event: SseEvent<'_>, events: &mut Vec<EngineEvent>) -> Result<()>;

    /// Ends the answer: adds what was held back, the usage, and the end.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if the server didn't say that the answer was
    /// whole.
    fn finish(&mut self, events: &mut Vec<EngineEvent>) -> Result<()>;

    /// What was used so far, if anybody said. It is told of failed answers too.
    fn take_usage(&mut self) -> Option<Usage>;

    /// See [`AnswerDecoder::is_done`].
    fn is_done(&self) -> bool;

    /// See [`AnswerDecoder::has_ended`].
    fn has_ended(&self) -> bool;

    /// See [`AnswerDecoder::progress`].
    fn progress(&self) -> u64;
}

/// An [`AnswerDecoder`] over the rules of a wire.
#[derive(Debug, Clone, Default)]
pub struct EventDecoder<R> {
    sse: SseDecoder,
    rules: R,
}

impl<R> EventDecoder<R> {
    /// A decoder at the start of an answer.
    pub fn new(rules: R) -> Self {
        Self {
            sse: SseDecoder::new(),
            rules,
        }
    }
}

impl<R: EventRules> EventDecoder<R> {
    /// See [`AnswerDecoder::push`].
    ///
    /// # Errors
    /// What the server says went wrong, with the kind and status that fit, and
    /// [`ErrorKind::Corrupt`] for what isn't the wire at all. The events before
    /// it were added; the decoder is of no further use.
    pub fn push(&mut self, bytes: &[u8], events: &mut Vec<EngineEvent>) -> Result<()> {
        let mut outcome = Ok(());
        let rules = &mut self.rules;
        let sized = self.sse.push(bytes, |event| {
            if outcome.is_ok() {
                outcome = rules.take(event, events);
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

    /// See [`AnswerDecoder::finish`].
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if the server didn't say that the answer was
    /// whole, and as [`push`](Self::push).
    pub fn finish(&mut self, events: &mut Vec<EngineEvent>) -> Result<()> {
        let mut outcome = Ok(());
        let rules = &mut self.rules;
        let mut last = false;
        self.sse.finish(|event| {
            last = true;
            if outcome.is_ok() {
                outcome = rules.take(event, events);
            }
        });
        // An event that the end of the stream cut off isn't corrupt, but cut off.
        if last && matches!(&outcome, Err(e) if e.kind() == ErrorKind::Corrupt) {
            outcome = Ok(());
        }
        let outcome = outcome.and_then(|()| self.rules.finish(events));
        self.with_usage(outcome, events)
    }

    /// See [`AnswerDecoder::whole`].
    ///
    /// # Errors
    /// As [`push`](Self::push) and [`finish`](Self::finish).
    pub fn whole(&mut self, body: &[u8], events: &mut Vec<EngineEvent>) -> Result<()> {
        // Some wrap a failure's object in a list, and name it as an event would.
        let name: &[u8] = if body.trim_ascii_start().starts_with(b"[") {
            b"error"
        } else {
            b""
        };
        let event = SseEvent { name, data: body };
        let outcome = self
            .rules
            .take(event, events)
            .and_then(|()| self.rules.finish(events));
        self.with_usage(outcome, events)
    }

    fn with_usage(&mut self, outcome: Result<()>, events: &mut Vec<EngineEvent>) -> Result<()> {
        if outcome.is_err() {
            events.extend(self.rules.take_usage().map(EngineEvent::Usage));
        }
        outcome
    }
}

impl<R: EventRules> AnswerDecoder for EventDecoder<R> {
    fn push(&mut self, bytes: &[u8], events: &mut Vec<EngineEvent>) -> Result<()> {
        self.push(bytes, events)
    }

    fn finish(&mut self, events: &mut Vec<EngineEvent>) -> Result<()> {
        self.finish(events)
    }

    fn whole(&mut self, body: &[u8], events: &mut Vec<EngineEvent>) -> Result<()> {
        self.whole(body, events)
    }

    fn is_done(&self) -> bool {
        self.rules.is_done()
    }

    fn has_ended(&self) -> bool {
        self.rules.has_ended()
    }

    fn progress(&self) -> u64 {
        self.rules.progress()
    }
}

/// The error of an answer that ended before the server said that it was whole.
pub fn broken_off() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the answer broke off: the stream ended before the server said that it was whole",
    )
}

/// What to do about an event's data that can't be read as the wire's: nothing,
/// where a server added an event of its own, such as a ping.
///
/// # Errors
/// [`ErrorKind::Corrupt`], temporary, for data that is no JSON or an object of
/// another shape: it may well be whole the next time.
pub fn unreadable(event: SseEvent<'_>, why: impl fmt::Display) -> Result<()> {
    let data = event.data.trim_ascii();
    let own_event = !event.name.is_empty() && event.name != b"message";
    let no_object = !data.starts_with(b"{");
    let is_json = || serde_json::from_slice::<serde::de::IgnoredAny>(data).is_ok();
    if own_event || data.is_empty() || (no_object && is_json()) {
        return Ok(());
    }
    Err(invalid(data, why))
}

/// The error of an event whose data isn't valid.
pub fn invalid(data: &[u8], why: impl fmt::Display) -> Error {
    let start = &data[..data.len().min(4_000)];
    Error::new(
        ErrorKind::Corrupt,
        format!(
            "the server sent an event that isn't valid ({why}): {}",
            failure::quote(&String::from_utf8_lossy(start))
        ),
    )
    .temporary()
}
