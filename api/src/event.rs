//! Events: what a runtime tells about its threads.

use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::context::OutputChannel;
use crate::engine::Usage;
use crate::error::ErrorData;
use crate::id::{CallId, ExtensionId, RequestId, ThreadId, TurnId};
use crate::item::{Item, Part};

/// Something that happened on a thread.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Event {
    /// Its number, rising by one from event to event of a thread.
    pub seq: u64,
    /// The thread.
    pub thread: ThreadId,
    /// The turn, if it belongs to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// When, in milliseconds since the Unix epoch.
    pub at: u64,
    /// What happened; in JSON its fields stand beside the others.
    #[serde(flatten)]
    pub body: EventBody,
}

impl Event {
    /// An event.
    pub fn new(seq: u64, thread: ThreadId, turn: Option<TurnId>, at: u64, body: EventBody) -> Self {
        Self {
            seq,
            thread,
            turn,
            at,
            body,
        }
    }
}

/// What happened.
///
/// Lifecycle, items and approvals are *lossless*: every subscriber gets each of
/// them, and what they speak of is in the store before they are published.
/// Deltas and progress are *lossy*: a subscriber that is too slow for them gets
/// one [`Lagged`](Self::Lagged) in their place.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type")]
#[non_exhaustive]
pub enum EventBody {
    /// A thread came into being.
    #[serde(rename = "thread.created")]
    ThreadCreated {
        /// The thread it is a fork of.
        #[serde(skip_serializing_if = "Option::is_none")]
        parent: Option<ThreadId>,
    },
    /// A turn began.
    #[serde(rename = "turn.started")]
    TurnStarted {
        /// The engine that will answer.
        engine: ExtensionId,
        /// The model, if one was named.
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// An item is in the store.
    #[serde(rename = "item.appended")]
    ItemAppended {
        /// The item.
        item: Arc<Item>,
    },
    /// A piece of the answer. Lossy.
    #[serde(rename = "message.delta")]
    MessageDelta {
        /// The piece.
        text: String,
    },
    /// A piece of reasoning. Lossy.
    #[serde(rename = "reasoning.delta")]
    ReasoningDelta {
        /// The piece.
        text: String,
    },
    /// A tool begins to run.
    #[serde(rename = "tool.started")]
    ToolStarted {
        /// The call.
        call_id: CallId,
        /// The tool.
        name: String,
    },
    /// Output of a running tool. Lossy.
    #[serde(rename = "tool.progress")]
    ToolProgress {
        /// The call.
        call_id: CallId,
        /// Which of its streams.
        channel: OutputChannel,
        /// The output, made valid UTF-8.
        text: String,
    },
    /// A tool has ended, and its result is in the store.
    #[serde(rename = "tool.completed")]
    ToolCompleted {
        /// The call.
        call_id: CallId,
        /// The tool.
        name: String,
        /// Whether it failed.
        is_error: bool,
        /// What the model reads.
        parts: Vec<Part>,
    },
    /// Somebody has to decide whether a call may run.
    #[serde(rename = "approval.requested")]
    ApprovalRequested {
        /// What the answer has to name.
        request_id: RequestId,
        /// The call.
        call_id: CallId,
        /// The tool.
        name: String,
        /// The arguments.
        arguments: Box<RawValue>,
        /// Why it is asked.
        reason: String,
    },
    /// It was decided.
    #[serde(rename = "approval.resolved")]
    ApprovalResolved {
        /// The request.
        request_id: RequestId,
        /// Whether the call may run.
        approved: bool,
    },
    /// An external tool was called: somebody outside has to answer.
    #[serde(rename = "external_call.requested")]
    ExternalCallRequested {
        /// What the answer has to name.
        request_id: RequestId,
        /// The call.
        call_id: CallId,
        /// The tool.
        name: String,
        /// The arguments.
        arguments: Box<RawValue>,
    },
    /// Tokens of a round.
    #[serde(rename = "usage")]
    Usage {
        /// This round's.
        round: Usage,
        /// The turn's so far.
        turn_total: Usage,
    },
    /// The engine failed in a way that may pass; the round is tried again.
    #[serde(rename = "engine.retry")]
    EngineRetry {
        /// Which try failed, from 1.
        attempt: u32,
        /// How long it waits before the next, in milliseconds.
        delay_ms: u64,
        /// What failed.
        error: ErrorData,
    },
    /// The history is getting long for the model: its earlier part is about to
    /// be summarised.
    #[serde(rename = "compaction.started")]
    CompactionStarted {
        /// About how many tokens it is, if anybody counted.
        #[serde(skip_serializing_if = "Option::is_none")]
        tokens: Option<u64>,
        /// The tokens that fit, if anybody knows.
        #[serde(skip_serializing_if = "Option::is_none")]
        window: Option<u64>,
    },
    /// The thread's title or another of its metadata changed.
    #[serde(rename = "thread.updated")]
    ThreadUpdated {
        /// The names of what changed.
        fields: Vec<String>,
    },
    /// Lossy events were left out for this subscriber. It stands where the
    /// first of them would, with that one's number.
    #[serde(rename = "lagged")]
    Lagged {
        /// The number of the first event left out.
        from: u64,
        /// The number of the last event left out.
        to: u64,
    },
    /// The turn ended as it should.
    #[serde(rename = "turn.completed")]
    TurnCompleted {
        /// Tokens of all its rounds.
        usage: Usage,
    },
    /// The turn ended with an error.
    #[serde(rename = "turn.failed")]
    TurnFailed {
        /// The error.
        error: ErrorData,
        /// Tokens of all its rounds.
        usage: Usage,
    },
    /// The turn was interrupted.
    #[serde(rename = "turn.interrupted")]
    TurnInterrupted {
        /// Tokens of all its rounds.
        usage: Usage,
    },
}

impl EventBody {
    /// Whether a slow subscriber may miss it.
    pub fn is_lossy(&self) -> bool {
        matches!(
            self,
            Self::MessageDelta { .. } | Self::ReasoningDelta { .. } | Self::ToolProgress { .. }
        )
    }

    /// Whether it is a turn's end.
    pub fn is_turn_end(&self) -> bool {
        matches!(
            self,
            Self::TurnCompleted { .. } | Self::TurnFailed { .. } | Self::TurnInterrupted { .. }
        )
    }
}

/// Gets every event of every thread of a runtime.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use haft_api::*;
///
/// #[derive(Default)]
/// struct TurnCounter(AtomicU64);
///
/// impl EventSink for TurnCounter {
///     fn publish(&self, event: &Event) {
///         if event.body.is_turn_end() {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
///
/// let (sink, thread) = (TurnCounter::default(), ThreadId::new("t")?);
/// let usage = Usage::default();
/// sink.publish(&Event::new(0, thread, None, 0, EventBody::TurnCompleted { usage }));
/// assert_eq!(sink.0.into_inner(), 1);
/// # Ok::<(), Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` isn't an event sink",
    note = "implement `haft_api::EventSink`"
)]
pub trait EventSink: Send + Sync + 'static {
    /// Takes an event. Called in order, on the runtime's own threads, so it
    /// must return at once; a panic is caught and costs that event alone.
    fn publish(&self, event: &Event);
}
