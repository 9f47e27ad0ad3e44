//! The records of a thread's log, and the events that stand for them.

use std::sync::Arc;

use haft_api::{
    CallId, ErrorData, EventBody, ExtensionId, Item, NewRecord, PolicyMode, Record, RequestId,
    Result, ToolResult, TurnId, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnStatus {
    /// As it should.
    Completed,
    /// With an error.
    Failed,
    /// It was interrupted.
    Interrupted,
}

/// What the runtime writes into a thread's log. In the log each stands as its
/// kind and a JSON object of its fields, with `e`, the number of its first
/// event, and `turn` beside them.
#[derive(Debug, Clone)]
pub(crate) enum ThreadRecord {
    TurnStarted {
        engine: ExtensionId,
        model: Option<String>,
        mode: PolicyMode,
    },
    Item(Arc<Item>),
    /// Calls with side effects that are about to run: after a crash their
    /// outcome is unknown.
    ToolStarted {
        call_ids: Vec<CallId>,
    },
    ApprovalRequested {
        request_id: RequestId,
        call_id: CallId,
        reason: String,
        call: CallText,
    },
    ApprovalResolved {
        request_id: RequestId,
        approved: bool,
    },
    Usage {
        round: Usage,
        turn_total: Usage,
        /// Who was paid for it, where it isn't as the turn began.
        served: Option<Served>,
        /// The tool call that asked the model, if it wasn't the turn itself.
        call: Option<CallId>,
    },
    /// Items up to the record `through` are shown to a model as `summary` only.
    Compacted {
        summary: Arc<Item>,
        through: u64,
    },
    TurnEnded {
        status: TurnStatus,
        error: Option<ErrorData>,
        usage: Usage,
    },
    /// A turn that a crash cut off: the results that had to be made up.
    TurnRecovered {
        results: Vec<Arc<Item>>,
        usage: Usage,
    },
}

/// The engine and the model that answered a round.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Served {
    pub(crate) engine: ExtensionId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
}

/// What an approval is about, as far as it is shown.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CallText {
    pub(crate) name: String,
    pub(crate) arguments: Box<RawValue>,
}

/// The fields of every kind in one: raw JSON can't be read through flattened or
/// tagged types.
#[derive(Default, Serialize, Deserialize)]
struct Fields {
    e: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    turn: Option<TurnId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    engine: Option<ExtensionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mode: Option<PolicyMode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    item: Option<Arc<Item>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    call_ids: Option<Vec<CallId>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request_id: Option<RequestId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    call_id: Option<CallId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    call: Option<CallText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    approved: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    round: Option<Usage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<TurnStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<ErrorData>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    results: Option<Vec<Arc<Item>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    served: Option<Served>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    through: Option<u64>,
}

/// Those of an item.
#[derive(Deserialize)]
struct ItemFields {
    e: u64,
    #[serde(default)]
    turn: Option<TurnId>,
    item: Arc<Item>,
}

/// A record of the runtime's, read back.
pub(crate) struct Parsed {
    pub(crate) first_event: u64,
    pub(crate) turn: Option<TurnId>,
    pub(crate) record: ThreadRecord,
}

impl ThreadRecord {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::TurnStarted { .. } => "turn_started",
            Self::Item(_) => "item",
            Self::ToolStarted { .. } => "tool_started",
            Self::ApprovalRequested { .. } => "approval_requested",
            Self::ApprovalResolved { .. } => "approval_resolved",
            Self::Usage { .. } => "usage",
            Self::Compacted { .. } => "compacted",
            Self::TurnEnded { .. } => "turn_ended",
            Self::TurnRecovered { .. } => "turn_recovered",
        }
    }

    /// The record as it goes into the log.
    pub(crate) fn encode(&self, first_event: u64, turn: Option<&TurnId>) -> Result<NewRecord> {
        let mut fields = Fields {
            e: first_event,
            turn: turn.cloned(),
            ..Fields::default()
        };
        match self.clone() {
            Self::TurnStarted {
                engine,
                model,
                mode,
            } => {
                fields.engine = Some(engine);
                fields.model = model;
                fields.mode = Some(mode);
            }
            Self::Item(item) => fields.item = Some(item),
            Self::ToolStarted { call_ids } => fields.call_ids = Some(call_ids),
            Self::ApprovalRequested {
                request_id,
                call_id,
                reason,
                call,
            } => {
                fields.request_id = Some(request_id);
                fields.call_id = Some(call_id);
                fields.reason = Some(reason);
                fields.call = Some(call);
            }
            Self::ApprovalResolved {
                request_id,
                approved,
            } => {
                fields.request_id = Some(request_id);
                fields.approved = Some(approved);
            }
            Self::Usage {
                round,
                turn_total,
                served,
                call,
            } => {
                fields.round = Some(round);
                fields.usage = Some(turn_total);
                fields.served = served;
                fields.call_id = call;
            }
            Self::Compacted { summary, through } => {
                fields.item = Some(summary);
                fields.through = Some(through);
            }
            Self::TurnEnded {
                status,
                error,
                usage,
            } => {
                fields.status = Some(status);
                fields.error = error;
                fields.usage = Some(usage);
            }
            Self::TurnRecovered { results, usage } => {
                fields.results = Some(results);
                fields.usage = Some(usage);
            }
        }
        NewRecord::new(self.kind(), &fields)
    }

    /// Reads a record back; `None` if it isn't one of the runtime's, or lacks
    /// what its kind needs.
    pub(crate) fn decode(record: &Record) -> Result<Option<Parsed>> {
        const KINDS: [&str; 8] = [
            "turn_started",
            "tool_started",
            "approval_requested",
            "approval_resolved",
            "usage",
            "compacted",
            "turn_ended",
            "turn_recovered",
        ];
        if record.kind == "item" {
            // Nearly all records are; they aren't worth the fields of all kinds.
            let ItemFields { e, turn, item } = record.parse()?;
            return Ok(Some(Parsed {
                first_event: e,
                turn,
                record: Self::Item(item),
            }));
        }
        if !KINDS.contains(&record.kind.as_str()) {
            return Ok(None);
        }
        let fields: Fields = record.parse()?;
        let (first_event, turn) = (fields.e, fields.turn.clone());
        let parsed = Self::from_fields(&record.kind, fields).ok_or_else(|| {
            haft_api::Error::new(
                haft_api::ErrorKind::Corrupt,
                "a field that the record's kind needs is missing",
            )
            .context("record", record.seq)
            .context("kind", &record.kind)
        })?;
        Ok(Some(Parsed {
            first_event,
            turn,
            record: parsed,
        }))
    }

    fn from_fields(kind: &str, f: Fields) -> Option<Self> {
        Some(match kind {
            "turn_started" => Self::TurnStarted {
                engine: f.engine?,
                model: f.model,
                mode: f.mode?,
            },
            "tool_started" => Self::ToolStarted {
                call_ids: f.call_ids?,
            },
            "approval_requested" => Self::ApprovalRequested {
                request_id: f.request_id?,
                call_id: f.call_id?,
                reason: f.reason?,
                call: f.call?,
            },
            "approval_resolved" => Self::ApprovalResolved {
                request_id: f.request_id?,
                approved: f.approved?,
            },
            "usage" => Self::Usage {
                round: f.round?,
                turn_total: f.usage?,
                served: f.served,
                call: f.call_id,
            },
            "compacted" => Self::Compacted {
                summary: f.item?,
                through: f.through?,
            },
            "turn_ended" => Self::TurnEnded {
                status: f.status?,
                error: f.error,
                usage: f.usage?,
            },
            "turn_recovered" => Self::TurnRecovered {
                results: f.results?,
                usage: f.usage?,
            },
            _ => return None,
        })
    }

    /// The items it adds to the history.
    pub(crate) fn items(&self) -> &[Arc<Item>] {
        match self {
            Self::Item(item) => std::slice::from_ref(item),
            Self::TurnRecovered { results, .. } => results,
            _ => &[],
        }
    }

    /// How many events tell of it.
    pub(crate) fn event_count(&self) -> u64 {
        let of_item = |item: &Item| 1 + u64::from(matches!(item, Item::ToolResult(_)));
        match self {
            Self::ToolStarted { .. } | Self::Compacted { .. } => 0,
            Self::Item(item) => of_item(item),
            Self::TurnRecovered { results, .. } => {
                1 + results.iter().map(|item| of_item(item)).sum::<u64>()
            }
            Self::TurnStarted { .. }
            | Self::ApprovalRequested { .. }
            | Self::ApprovalResolved { .. }
            | Self::Usage { .. }
            | Self::TurnEnded { .. } => 1,
        }
    }

    /// The events that tell of it, in order. The same when it is written and
    /// when it is read back, which is what makes a refill exact.
    pub(crate) fn events(&self) -> Vec<EventBody> {
        match self.clone() {
            Self::TurnStarted { engine, model, .. } => {
                vec![EventBody::TurnStarted { engine, model }]
            }
            Self::Item(item) => item_events(item),
            Self::ToolStarted { .. } | Self::Compacted { .. } => Vec::new(),
            Self::ApprovalRequested {
                request_id,
                call_id,
                reason,
                call,
            } => {
                vec![EventBody::ApprovalRequested {
                    request_id,
                    call_id,
                    name: call.name,
                    arguments: call.arguments,
                    reason,
                }]
            }
            Self::ApprovalResolved {
                request_id,
                approved,
            } => {
                vec![EventBody::ApprovalResolved {
                    request_id,
                    approved,
                }]
            }
            Self::Usage {
                round, turn_total, ..
            } => vec![EventBody::Usage { round, turn_total }],
            Self::TurnEnded {
                status,
                error,
                usage,
            } => vec![turn_end(status, error, usage)],
            Self::TurnRecovered { results, usage } => {
                let mut events: Vec<_> = results.into_iter().flat_map(item_events).collect();
                events.push(EventBody::TurnInterrupted { usage });
                events
            }
        }
    }
}

fn item_events(item: Arc<Item>) -> Vec<EventBody> {
    let completed = match &*item {
        Item::ToolResult(ToolResult {
            call_id,
            name,
            is_error,
            parts,
        }) => Some(EventBody::ToolCompleted {
            call_id: call_id.clone(),
            name: name.clone(),
            is_error: *is_error,
            parts: parts.clone(),
        }),
        _ => None,
    };
    std::iter::once(EventBody::ItemAppended { item })
        .chain(completed)
        .collect()
}

/// The event that ends a turn.
pub(crate) fn turn_end(status: TurnStatus, error: Option<ErrorData>, usage: Usage) -> EventBody {
    match (status, error) {
        (TurnStatus::Completed, _) => EventBody::TurnCompleted { usage },
        (TurnStatus::Interrupted, _) => EventBody::TurnInterrupted { usage },
        (TurnStatus::Failed, Some(error)) => EventBody::TurnFailed { error, usage },
        (TurnStatus::Failed, None) => EventBody::TurnFailed {
            error: haft_api::Error::new(haft_api::ErrorKind::Unexpected, "no error was recorded")
                .to_data(),
            usage,
        },
    }
}

#[cfg(test)]
mod tests {
    use haft_api::{Error, ErrorKind, NoticeLevel, Part, ToolCall, raw_json};

    use super::*;

    #[test]
    fn events_are_counted_as_they_are_told() {
        let call_id = || CallId::new("c").unwrap();
        let result = || {
            Arc::new(Item::ToolResult(ToolResult {
                call_id: call_id(),
                name: "f".to_owned(),
                is_error: false,
                parts: vec![Part::text("x")],
            }))
        };
        let call = Item::ToolCall(ToolCall {
            id: call_id(),
            name: "f".to_owned(),
            arguments: raw_json("{}").unwrap(),
            state: None,
        });
        let notice = Item::Notice {
            level: NoticeLevel::Info,
            code: "c".to_owned(),
            text: "t".to_owned(),
        };
        let usage = Usage::default();
        let failed = Error::new(ErrorKind::Unexpected, "x").to_data();
        let request_id = || RequestId::new("r").unwrap();
        let records = [
            ThreadRecord::TurnStarted {
                engine: ExtensionId::new("e").unwrap(),
                model: None,
                mode: PolicyMode::Ask,
            },
            ThreadRecord::Item(Arc::new(Item::user("q"))),
            ThreadRecord::Item(Arc::new(call)),
            ThreadRecord::Item(result()),
            ThreadRecord::Item(Arc::new(notice)),
            ThreadRecord::ToolStarted {
                call_ids: vec![call_id()],
            },
            ThreadRecord::ApprovalRequested {
                request_id: request_id(),
                call_id: call_id(),
                reason: String::new(),
                call: CallText {
                    name: "f".to_owned(),
                    arguments: raw_json("{}").unwrap(),
                },
            },
            ThreadRecord::ApprovalResolved {
                request_id: request_id(),
                approved: true,
            },
            ThreadRecord::Usage {
                round: usage,
                turn_total: usage,
                served: None,
                call: Some(call_id()),
            },
            ThreadRecord::Compacted {
                summary: Arc::new(Item::user("s")),
                through: 1,
            },
            ThreadRecord::TurnEnded {
                status: TurnStatus::Failed,
                error: Some(failed),
                usage,
            },
            ThreadRecord::TurnRecovered {
                results: vec![result(), result()],
                usage,
            },
        ];
        for record in records {
            let told = record.events().len() as u64;
            assert_eq!(record.event_count(), told, "{record:?}");
        }
    }
}
