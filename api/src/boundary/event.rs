//! Events over the boundary.
//!
//! Raw JSON can't be read through serde's tagged enums (they buffer), so an
//! event is read in two steps: all fields that any event has, then the event.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use super::message::{has_image, item_parts, item_parts_mut, put_images, read_raw, take_images};
use super::wire::PublishArgs;
use crate::context::OutputChannel;
use crate::engine::Usage;
use crate::error::{Error, ErrorData, ErrorKind, Result};
use crate::event::{Event, EventBody};
use crate::id::{CallId, ExtensionId, RequestId, ThreadId, TurnId};
use crate::item::{Item, Part};

fn parts_of(body: &EventBody) -> &[Part] {
    match body {
        EventBody::ItemAppended { item } => item_parts(item),
        EventBody::ToolCompleted { parts, .. } => parts,
        _ => &[],
    }
}

fn parts_of_mut(body: &mut EventBody) -> &mut [Part] {
    match body {
        EventBody::ItemAppended { item } => item_parts_mut(Arc::make_mut(item)),
        EventBody::ToolCompleted { parts, .. } => parts,
        _ => &mut [],
    }
}

/// An event as it travels; the data of its pictures go to the end of `blob`.
///
/// # Errors
/// If it can't be written as JSON.
pub fn write_event(event: &Event, blob: &mut Vec<u8>) -> Result<PublishArgs> {
    let raw = |event: &Event| {
        to_raw_value(event).map_err(|e| {
            Error::new(ErrorKind::InvalidInput, format!("can't be sent: {e}")).source(e)
        })
    };
    if !has_image(parts_of(&event.body)) {
        let (event, images) = (raw(event)?, Vec::new());
        return Ok(PublishArgs { event, images });
    }
    let mut event = event.clone();
    let images = take_images(parts_of_mut(&mut event.body), blob);
    let event = raw(&event)?;
    Ok(PublishArgs { event, images })
}

/// The event again; `None` for one of a kind that isn't known here.
///
/// # Errors
/// [`ErrorKind::Corrupt`] if it isn't one.
pub(super) fn read_event(arguments: &PublishArgs, blob: &[u8]) -> Result<Option<Event>> {
    let fields: EventFields = read_raw(&arguments.event)?;
    let (seq, thread, turn, at) = (
        fields.seq,
        fields.thread.clone(),
        fields.turn.clone(),
        fields.at,
    );
    let Some(mut body) = body(fields)? else {
        return Ok(None);
    };
    put_images(parts_of_mut(&mut body), &arguments.images, blob)?;
    Ok(Some(Event::new(seq, thread, turn, at, body)))
}

/// Every field that any event has.
#[derive(Deserialize)]
struct EventFields {
    seq: u64,
    thread: ThreadId,
    turn: Option<TurnId>,
    at: u64,
    r#type: String,
    parent: Option<ThreadId>,
    engine: Option<ExtensionId>,
    model: Option<String>,
    item: Option<Arc<Item>>,
    text: Option<String>,
    call_id: Option<CallId>,
    name: Option<String>,
    channel: Option<OutputChannel>,
    is_error: Option<bool>,
    parts: Option<Vec<Part>>,
    request_id: Option<RequestId>,
    arguments: Option<Box<RawValue>>,
    reason: Option<String>,
    approved: Option<bool>,
    round: Option<Usage>,
    turn_total: Option<Usage>,
    attempt: Option<u32>,
    delay_ms: Option<u64>,
    tokens: Option<u64>,
    window: Option<u64>,
    fields: Option<Vec<String>>,
    from: Option<u64>,
    to: Option<u64>,
    usage: Option<Usage>,
    error: Option<ErrorData>,
}

fn body(fields: EventFields) -> Result<Option<EventBody>> {
    fn field<T>(owner: &str, name: &str, value: Option<T>) -> Result<T> {
        value.ok_or_else(|| {
            Error::new(ErrorKind::Corrupt, "an event lacks a field")
                .context("event", owner)
                .context("field", name)
        })
    }
    let owner = &*fields.r#type;
    macro_rules! body {
        ($variant:ident { $($name:ident),* $(,)? } $($optional:ident),*) => {
            EventBody::$variant {
                $($name: field(owner, stringify!($name), fields.$name)?,)*
                $($optional: fields.$optional,)*
            }
        };
    }
    Ok(Some(match owner {
        "thread.created" => body!(ThreadCreated {} parent),
        "turn.started" => body!(TurnStarted { engine } model),
        "item.appended" => body!(ItemAppended { item }),
        "message.delta" => body!(MessageDelta { text }),
        "reasoning.delta" => body!(ReasoningDelta { text }),
        "tool.started" => body!(ToolStarted { call_id, name }),
        "tool.progress" => body!(ToolProgress {
            call_id,
            channel,
            text
        }),
        "tool.completed" => body!(ToolCompleted {
            call_id,
            name,
            is_error,
            parts
        }),
        "approval.requested" => body!(ApprovalRequested {
            request_id,
            call_id,
            name,
            arguments,
            reason,
        }),
        "approval.resolved" => body!(ApprovalResolved {
            request_id,
            approved
        }),
        "external_call.requested" => body!(ExternalCallRequested {
            request_id,
            call_id,
            name,
            arguments,
        }),
        "usage" => body!(Usage { round, turn_total }),
        "engine.retry" => body!(EngineRetry {
            attempt,
            delay_ms,
            error
        }),
        "compaction.started" => body!(CompactionStarted {} tokens, window),
        "thread.updated" => body!(ThreadUpdated { fields }),
        "lagged" => body!(Lagged { from, to }),
        "turn.completed" => body!(TurnCompleted { usage }),
        "turn.failed" => body!(TurnFailed { error, usage }),
        "turn.interrupted" => body!(TurnInterrupted { usage }),
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests;
