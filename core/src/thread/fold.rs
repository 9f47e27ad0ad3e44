//! From a log's records to what a thread is.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use haft_api::{
    CallId, Diagnostic, DiagnosticCode, ExtensionId, Item, Part, PolicyMode, Record, RequestId,
    Result, ToolCall, ToolResult, TurnId, Usage,
};

use super::ModelUsage;
use super::history::{Place, ThreadHistory};
use super::records::{CallText, Parsed, Served, ThreadRecord, TurnStatus};

/// Kinds that stores write for themselves.
const STORE_KINDS: [&str; 4] = ["header", "metadata", "repair", "checkpoint"];

/// What a thread's records come to.
pub(crate) struct Folded {
    pub(crate) history: ThreadHistory,
    /// The number the next event gets.
    pub(crate) next_event: u64,
    /// The number the next record gets, as far as was read.
    pub(crate) next_seq: u64,
    /// The turn that began and didn't end.
    pub(crate) unfinished: Option<UnfinishedTurn>,
    /// How the last turn that ended did.
    pub(crate) last_status: Option<TurnStatus>,
    /// Tokens of all turns.
    pub(crate) usage: Usage,
    /// Tokens of all rounds, by who answered them.
    pub(crate) served: BTreeMap<Served, Usage>,
    /// The size of what a model is shown, as the last round counted it.
    pub(crate) measured: Option<Measured>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// A turn that is under way, or was when its process ended.
#[derive(Debug, Clone)]
pub(crate) struct UnfinishedTurn {
    pub(crate) turn: TurnId,
    pub(crate) engine: ExtensionId,
    pub(crate) model: Option<String>,
    pub(crate) mode: PolicyMode,
    pub(crate) usage: Usage,
    /// Calls with side effects that had begun.
    pub(crate) started: HashSet<CallId>,
    /// Approvals by request: the call, what it was about, and the answer.
    pub(crate) approvals: BTreeMap<RequestId, Approval>,
}

/// How many tokens the first items of what a model is shown are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Measured {
    pub(crate) tokens: u64,
    pub(crate) items: usize,
}

/// A question and, once there is one, its answer.
#[derive(Debug, Clone)]
pub(crate) struct Approval {
    pub(crate) call_id: CallId,
    pub(crate) reason: String,
    pub(crate) call: CallText,
    pub(crate) approved: Option<bool>,
}

impl UnfinishedTurn {
    fn new(turn: TurnId, engine: ExtensionId, model: Option<String>, mode: PolicyMode) -> Self {
        Self {
            turn,
            engine,
            model,
            mode,
            usage: Usage::default(),
            started: HashSet::new(),
            approvals: BTreeMap::new(),
        }
    }

    /// The result of a call that a crash left without one.
    pub(crate) fn lost_result(&self, call: &ToolCall) -> Arc<Item> {
        let text = if self.started.contains(&call.id) {
            "interrupted: the process ended while this call was running; its outcome is unknown"
        } else {
            "interrupted: the process ended before this call had a result"
        };
        error_result(call, text)
    }
}

/// A result that says why there is no real one.
pub(crate) fn error_result(call: &ToolCall, text: impl Into<String>) -> Arc<Item> {
    Arc::new(Item::ToolResult(ToolResult {
        call_id: call.id.clone(),
        name: call.name.clone(),
        is_error: true,
        parts: vec![Part::text(text)],
    }))
}

impl Folded {
    pub(crate) fn new() -> Self {
        Self {
            history: ThreadHistory::new(),
            next_event: 0,
            next_seq: 0,
            unfinished: None,
            last_status: None,
            usage: Usage::default(),
            served: BTreeMap::new(),
            measured: None,
            diagnostics: Vec::new(),
        }
    }

    /// Takes a record that was read from the store. Never fails: what doesn't
    /// fit is left out and reported.
    pub(crate) fn read(&mut self, record: &Record) {
        self.next_seq = record.seq + 1;
        if record.seq == 0 {
            // The header stands for `thread.created`.
            self.next_event = self.next_event.max(1);
        }
        match ThreadRecord::decode(record) {
            Ok(Some(Parsed {
                first_event,
                turn,
                record: parsed,
            })) => {
                let after = first_event + parsed.event_count();
                self.next_event = self.next_event.max(after);
                self.make_room(&parsed, record.seq);
                if let Err(error) = self.apply(&parsed, turn.as_ref(), record.seq) {
                    self.report(
                        DiagnosticCode::RepairedHistory,
                        record.seq,
                        error.to_string(),
                    );
                }
            }
            Ok(None) if STORE_KINDS.contains(&record.kind.as_str()) => {}
            Ok(None) => self.report(
                DiagnosticCode::UnknownKind,
                record.seq,
                format!(
                    "a record of the kind `{}`, which this version doesn't know",
                    record.kind
                ),
            ),
            Err(error) => self.report(DiagnosticCode::DamagedRecord, record.seq, error.to_string()),
        }
    }

    /// Takes a record that was just written.
    ///
    /// # Errors
    /// If the history can't take its items; see
    /// [`ThreadHistory::check`](ThreadHistory::check).
    pub(crate) fn apply(
        &mut self,
        record: &ThreadRecord,
        turn: Option<&TurnId>,
        seq: u64,
    ) -> Result<()> {
        for item in record.items() {
            self.history.push(
                Arc::clone(item),
                Place {
                    seq,
                    turn: turn.cloned(),
                },
            )?;
        }
        match record {
            ThreadRecord::TurnStarted {
                engine,
                model,
                mode,
            } => {
                if let Some(turn) = turn {
                    self.unfinished = Some(UnfinishedTurn::new(
                        turn.clone(),
                        engine.clone(),
                        model.clone(),
                        *mode,
                    ));
                }
            }
            ThreadRecord::TurnEnded { status, usage, .. } => self.end(*status, *usage),
            ThreadRecord::TurnRecovered { usage, .. } => self.end(TurnStatus::Interrupted, *usage),
            ThreadRecord::Item(_) => {}
            ThreadRecord::ToolStarted { call_ids } => {
                if let Some(unfinished) = &mut self.unfinished {
                    unfinished.started.extend(call_ids.iter().cloned());
                }
            }
            ThreadRecord::ApprovalRequested {
                request_id,
                call_id,
                reason,
                call,
            } => {
                if let Some(unfinished) = &mut self.unfinished {
                    let approval = Approval {
                        call_id: call_id.clone(),
                        reason: reason.clone(),
                        call: call.clone(),
                        approved: None,
                    };
                    unfinished.approvals.insert(request_id.clone(), approval);
                }
            }
            ThreadRecord::ApprovalResolved {
                request_id,
                approved,
            } => {
                let approval = self.unfinished.as_mut().map(|u| &mut u.approvals);
                if let Some(approval) = approval.and_then(|all| all.get_mut(request_id)) {
                    approval.approved = Some(*approved);
                }
            }
            ThreadRecord::Usage {
                round,
                turn_total,
                served,
                call,
            } => {
                // A tool's request says nothing of the history's size.
                if call.is_none() {
                    self.measure(*round);
                }
                self.used(*round, *turn_total, served.clone());
            }
            ThreadRecord::Compacted { summary, through } => {
                self.history.compact(Arc::clone(summary), *through);
                self.measured = None;
            }
        }
        Ok(())
    }

    /// Tokens by who answered.
    pub(crate) fn model_usage(&self) -> Vec<ModelUsage> {
        let all = self.served.iter().map(|(served, usage)| ModelUsage {
            engine: served.engine.clone(),
            model: served.model.clone(),
            usage: *usage,
        });
        all.collect()
    }

    fn measure(&mut self, round: Usage) {
        self.measured = round.input.map(|input| Measured {
            tokens: input.saturating_add(round.output.unwrap_or(0)),
            items: self.history.shown().items().len(),
        });
    }

    fn used(&mut self, round: Usage, turn_total: Usage, served: Option<Served>) {
        let Some(unfinished) = &mut self.unfinished else {
            return;
        };
        unfinished.usage = turn_total;
        let served = served.unwrap_or_else(|| Served {
            engine: unfinished.engine.clone(),
            model: unfinished.model.clone(),
        });
        self.served.entry(served).or_default().add(round);
    }

    fn end(&mut self, status: TurnStatus, usage: Usage) {
        self.unfinished = None;
        self.last_status = Some(status);
        self.usage.add(usage);
    }

    /// Makes up the results that damage to the log took away, where the record
    /// at hand can't follow open calls.
    fn make_room(&mut self, record: &ThreadRecord, seq: u64) {
        self.begin_with_user(record, seq);
        if self.history.open_calls().next().is_none() {
            return;
        }
        let follows_results = match record {
            ThreadRecord::TurnStarted { .. }
            | ThreadRecord::TurnEnded { .. }
            | ThreadRecord::Compacted { .. } => true,
            ThreadRecord::Item(item) => self.history.check([&**item]).is_err(),
            _ => false,
        };
        if !follows_results {
            return;
        }
        let lost: Vec<_> = self.history.open_calls().cloned().collect();
        for call in lost {
            let result = error_result(&call, "interrupted: the result of this call was lost");
            let place = Place { seq, turn: None };
            if self.history.push(result, place).is_ok() {
                let message = format!("the result of the call `{}` is missing", call.id);
                self.report(DiagnosticCode::RepairedHistory, seq, message);
            }
        }
    }

    /// No provider takes a conversation that the model begins: where damage took
    /// the first message away, a word stands in its place.
    fn begin_with_user(&mut self, record: &ThreadRecord, seq: u64) {
        let ThreadRecord::Item(item) = record else {
            return;
        };
        let spoken = matches!(
            **item,
            Item::AssistantMessage { .. } | Item::Reasoning { .. } | Item::ToolCall(_)
        );
        let begun = self
            .history
            .placed()
            .any(|(item, _)| !matches!(**item, Item::Notice { .. }));
        if begun || !spoken {
            return;
        }
        let lost = Arc::new(Item::user("(this message was lost)"));
        if self.history.push(lost, Place { seq, turn: None }).is_ok() {
            let message = "the thread's first message is missing".to_owned();
            self.report(DiagnosticCode::RepairedHistory, seq, message);
        }
    }

    fn report(&mut self, code: DiagnosticCode, seq: u64, message: String) {
        let lost = matches!(
            code,
            DiagnosticCode::RepairedHistory | DiagnosticCode::DamagedRecord
        );
        self.diagnostics.push(Diagnostic {
            code,
            lost,
            seq: Some(seq),
            place: None,
            message,
        });
    }

    /// The results that the open calls of an unfinished turn need.
    pub(crate) fn lost_results(&self) -> Vec<Arc<Item>> {
        let Some(unfinished) = &self.unfinished else {
            return Vec::new();
        };
        self.history
            .open_calls()
            .map(|call| unfinished.lost_result(call))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(seq: u64, kind: &str, data: &str) -> Record {
        let data = haft_api::raw_json(data).unwrap();
        Record {
            seq,
            time_ms: 0,
            kind: kind.to_owned(),
            data,
        }
    }

    fn show(folded: &Folded) -> Vec<&'static str> {
        folded
            .history
            .placed()
            .map(|(item, _)| item.type_name())
            .collect()
    }

    const START: &str = r#"{"e":1,"turn":"t1","engine":"x","mode":"ask"}"#;
    const USER: &str = r#"{"e":2,"turn":"t1","item":{"type":"user_message","parts":[{"type":"text","text":"q"}]}}"#;
    const CALL: &str =
        r#"{"e":3,"turn":"t1","item":{"type":"tool_call","id":"c","name":"f","arguments":{}}}"#;

    #[test]
    fn a_turn_that_a_crash_cut_off_is_unfinished_with_open_calls() {
        let mut folded = Folded::new();
        folded.read(&record(0, "header", "{}"));
        folded.read(&record(1, "turn_started", START));
        folded.read(&record(2, "item", USER));
        folded.read(&record(3, "item", CALL));
        assert!(folded.history.settled().is_none());
        let text = |folded: &Folded| match &*folded.lost_results()[0] {
            Item::ToolResult(result) => result.text(),
            other => other.type_name().to_owned(),
        };
        assert!(text(&folded).contains("before this call had a result"));
        folded.read(&record(
            4,
            "tool_started",
            r#"{"e":4,"turn":"t1","call_ids":["c"]}"#,
        ));
        assert!(text(&folded).contains("outcome is unknown"));
        assert_eq!(folded.next_event, 4);
        assert_eq!(folded.next_seq, 5);
    }

    #[test]
    fn a_lost_result_is_made_up_and_reported() {
        let mut folded = Folded::new();
        for (seq, kind, data) in [
            (1, "turn_started", START),
            (2, "item", USER),
            (3, "item", CALL),
            (5, "turn_started", START),
            (6, "item", USER),
        ] {
            folded.read(&record(seq, kind, data));
        }
        assert_eq!(
            show(&folded),
            ["user_message", "tool_call", "tool_result", "user_message"]
        );
        assert_eq!(folded.diagnostics.len(), 1);
        assert!(folded.diagnostics[0].lost);
    }

    #[test]
    fn a_lost_first_message_is_replaced_and_reported() {
        let mut folded = Folded::new();
        folded.read(&record(1, "turn_started", START));
        let answer = r#"{"e":3,"turn":"t1","item":{"type":"assistant_message","text":"a"}}"#;
        folded.read(&record(3, "item", answer));
        assert_eq!(show(&folded), ["user_message", "assistant_message"]);
        assert!(folded.diagnostics[0].lost);
    }

    #[test]
    fn foreign_and_broken_records_cost_only_themselves() {
        let mut folded = Folded::new();
        folded.read(&record(0, "header", "{}"));
        folded.read(&record(1, "from_the_future", "[1]"));
        folded.read(&record(2, "item", r#"{"e":5}"#));
        folded.read(&record(3, "item", r#"{"e":6,"item":{"type":"tool_result","call_id":"z","name":"f","is_error":false,"parts":[{"type":"text","text":"x"}]}}"#));
        folded.read(&record(4, "item", USER));
        assert_eq!(show(&folded), ["user_message"]);
        let codes: Vec<_> = folded.diagnostics.iter().map(|d| d.code).collect();
        use DiagnosticCode::{DamagedRecord, RepairedHistory, UnknownKind};
        assert_eq!(codes, [UnknownKind, DamagedRecord, RepairedHistory]);
    }
}
