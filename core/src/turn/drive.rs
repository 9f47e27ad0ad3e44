//! The turn loop: stream a round, run its calls, persist, publish, repeat.

use std::sync::Arc;

use futures::FutureExt;
use haft_api::{
    Durability, EngineRequest, Error, ErrorKind, FinishReason, InferenceEngine, Item, NoticeLevel,
    Part, Result, ToolCall, ToolChoice, Usage, panic_message,
};

use super::assemble::{Block, Round};
use super::model::{self, TurnModel};
use super::start::Occupied;
use super::stream::{self, StreamEnd};
use super::{ActiveTurn, Times, TurnEnd, TurnRequest};
use crate::dispatch::{self, RoundModel, ToolSet};
use crate::moment::Moment;
use crate::thread::records::{Served, ThreadRecord, turn_end};
use crate::thread::{Inner, ThreadJournal, TurnStatus};

/// What a turn is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// To answer.
    Answer,
    /// To shorten what the model is shown.
    Compact,
}

/// A turn under way.
pub(super) struct Driver {
    pub(super) thread: Arc<Inner>,
    pub(super) active: Arc<ActiveTurn>,
    pub(super) engine: Arc<dyn InferenceEngine>,
    pub(super) request: TurnRequest,
    pub(super) times: Times,
    pub(super) usage: Usage,
    pub(super) work: Work,
    /// How often the model has refused the round at hand for its size.
    pub(super) overflows: u8,
}

/// How the loop ended, and what is to be written together with the turn's end.
pub(super) struct Ending {
    status: TurnStatus,
    error: Option<Error>,
    records: Vec<ThreadRecord>,
}

impl Ending {
    pub(super) fn completed(records: Vec<ThreadRecord>) -> Self {
        Self {
            status: TurnStatus::Completed,
            error: None,
            records,
        }
    }

    pub(super) fn failed(error: Error, records: Vec<ThreadRecord>) -> Self {
        Self {
            status: TurnStatus::Failed,
            error: Some(error),
            records,
        }
    }

    pub(super) fn interrupted(records: Vec<ThreadRecord>) -> Self {
        Self {
            status: TurnStatus::Interrupted,
            error: None,
            records,
        }
    }
}

/// What a round came to.
pub(super) enum Next {
    Again,
    /// The same round once more, of a shorter history.
    Same,
    Over(Ending),
}

impl Driver {
    /// Runs the turn to its one end.
    pub(super) async fn run(mut self, place: Occupied) -> TurnEnd {
        let work = async {
            match self.work {
                Work::Answer => self.rounds().await,
                Work::Compact => self.compact_as_asked().await,
            }
        };
        let looped = std::panic::AssertUnwindSafe(work).catch_unwind().await;
        let ending = match looped {
            Ok(Ok(ending)) => ending,
            Ok(Err(error)) => Ending::failed(error, Vec::new()),
            Err(panic) => {
                let error = Error::new(ErrorKind::Unexpected, panic_message(&*panic));
                Ending::failed(error.operation("turn"), Vec::new())
            }
        };
        self.end(ending, place).await
    }

    /// # Errors
    /// What the store fails with.
    async fn rounds(&mut self) -> Result<Ending> {
        let (tools, problems) = self.thread.shared.turn_tools().await;
        self.report(&problems).await?;
        let tools = Arc::new(tools);
        let mut round = 0;
        loop {
            let open: Vec<_> = self
                .thread
                .log
                .lock()
                .await
                .folded
                .history
                .open_calls()
                .cloned()
                .collect();
            if !open.is_empty() {
                self.dispatch(&tools, open).await?;
            }
            if self.active.cancel.is_cancelled() {
                return Ok(Ending::interrupted(Vec::new()));
            }
            if round >= self.thread.shared.options.max_rounds {
                let error = Error::new(ErrorKind::Timeout, "the turn took too many rounds")
                    .context("rounds", round)
                    .context("thread", &self.thread.id);
                return Ok(Ending::failed(error, Vec::new()));
            }
            match self.round(&tools, round).await? {
                Next::Again => round += 1,
                Next::Same => {}
                Next::Over(ending) => return Ok(ending),
            }
        }
    }

    /// Writes down what kept tools out of the turn.
    async fn report(&self, problems: &[Error]) -> Result<()> {
        let notices: Vec<_> = problems
            .iter()
            .map(|problem| notice(NoticeLevel::Warning, "tool_left_out", problem.to_string()))
            .collect();
        if notices.is_empty() {
            Ok(())
        } else {
            self.append(&notices, Durability::Buffered).await
        }
    }

    pub(super) async fn append(
        &self,
        records: &[ThreadRecord],
        durability: Durability,
    ) -> Result<()> {
        let mut log = self.thread.log.lock().await;
        self.thread
            .append(&mut log, Some(&self.active.id), records, durability)
            .await
    }

    /// One model call and what follows from it, up to the calls' dispatch.
    async fn round(&mut self, tools: &ToolSet, round: u32) -> Result<Next> {
        let said: Vec<_> = user_messages(self.active.take_steering()).collect();
        if !said.is_empty() {
            self.append(&said, Durability::Barrier).await?;
        }
        if let Some(ending) = self.keep_within_window().await? {
            return Ok(Next::Over(ending));
        }
        let request = self.engine_request(tools, round).await?;
        let last = request.tool_choice == ToolChoice::None;
        let hub = Some(&self.thread.hub);
        let cancel = &self.active.cancel;
        match stream::run(&self.engine, request, hub, cancel, self.times.end).await {
            StreamEnd::Interrupted { kept, usage } => {
                let records = self.broken_off(kept, usage);
                Ok(Next::Over(Ending::interrupted(records)))
            }
            StreamEnd::Broken { kept, usage, error }
                if kept.is_empty() && error.kind() == ErrorKind::ContextOverflow =>
            {
                self.overflowed(usage, error.context("thread", &self.thread.id))
                    .await
            }
            StreamEnd::Broken { kept, usage, error } => {
                let error = error.context("thread", &self.thread.id);
                let records = self.broken_off(kept, usage);
                Ok(Next::Over(Ending::failed(error, records)))
            }
            StreamEnd::Finished(finished) => self.finished(finished, last).await,
        }
    }

    async fn engine_request(&self, tools: &ToolSet, round: u32) -> Result<EngineRequest> {
        let history = self
            .thread
            .log
            .lock()
            .await
            .folded
            .history
            .settled()
            .cloned();
        let history = history.ok_or_else(|| {
            Error::new(ErrorKind::Unexpected, "a call has no result yet")
                .context("thread", &self.thread.id)
        })?;
        let mut request =
            EngineRequest::new(self.thread.id.clone(), self.active.id.clone(), history);
        request.round = round;
        request.model = self.request.model.clone();
        request.instructions = Arc::from(self.request.instructions.as_str());
        request.tools = tools.specs();
        request.options = self.request.options.clone();
        request.deadline = self.times.end.map(Moment::deadline);
        request.memo = self.thread.memo(self.engine.id());
        if let Some(schema) = &self.request.output_schema {
            request.output_schema = Some(Arc::from(haft_api::raw_json(schema.clone())?));
        }
        if self.times.tools.is_some_and(Moment::is_past) {
            // The time for tools is over: what is left is for the answer.
            request.tool_choice = ToolChoice::None;
        }
        Ok(request)
    }

    /// The records of a round that broke off.
    fn broken_off(&mut self, kept: Vec<Item>, usage: Usage) -> Vec<ThreadRecord> {
        let mut records: Vec<_> = kept
            .into_iter()
            .map(|item| ThreadRecord::Item(Arc::new(item)))
            .collect();
        records.extend(self.account(usage, None));
        records
    }

    /// Who is paid for a round.
    pub(super) async fn served(&self, said: Option<Served>) -> Option<Served> {
        let named = self.request.model.as_deref();
        model::served(&self.thread.shared, &self.engine, named, said).await
    }

    pub(super) fn account(&mut self, round: Usage, served: Option<Served>) -> Option<ThreadRecord> {
        self.usage.add(round);
        let turn_total = self.usage;
        (!round.is_empty()).then_some(ThreadRecord::Usage {
            round,
            turn_total,
            served,
            call: None,
        })
    }

    async fn finished(&mut self, round: Round, last: bool) -> Result<Next> {
        let Round {
            blocks,
            usage,
            served,
            reason,
        } = round;
        self.overflows = 0;
        let served = self.served(served).await;
        let cut = matches!(reason, FinishReason::Length | FinishReason::ContentFilter);
        let calls = blocks
            .iter()
            .filter(|block| matches!(block, Block::Call(_)))
            .count();
        let mut records = self.records(blocks, !cut && !last).await;
        records.extend(self.account(usage, served));
        records.extend(early_end(&reason));
        if calls > 0 && (cut || last) {
            let why = if cut {
                "the model's answer was cut off in the middle of its tool calls; none was run"
            } else {
                "the turn's time for tools was over, and the model asked for more"
            };
            let kind = if cut {
                ErrorKind::Unavailable
            } else {
                ErrorKind::Timeout
            };
            let error = Error::new(kind, why)
                .permanent()
                .context("thread", &self.thread.id);
            return Ok(Next::Over(Ending::failed(error, records)));
        }
        if calls == 0 && self.active.close_steering_if_empty() {
            return Ok(Next::Over(Ending::completed(records)));
        }
        if !records.is_empty() {
            let shown = shown_text(&records);
            self.append(&records, Durability::Barrier)
                .await
                .map_err(|e| not_stored(e, &shown))?;
        }
        Ok(Next::Again)
    }

    /// A round's items, its calls among them if they are to run.
    async fn records(&self, blocks: Vec<Block>, with_calls: bool) -> Vec<ThreadRecord> {
        let calls = blocks.iter().filter_map(|block| match block {
            Block::Call(call) if with_calls => Some(call.clone()),
            _ => None,
        });
        let admitted = self
            .thread
            .log
            .lock()
            .await
            .folded
            .history
            .admit(calls.collect());
        let mut admitted = admitted.into_iter();
        blocks
            .into_iter()
            .filter_map(|block| match block {
                Block::Item(item) => Some(item),
                Block::Call(_) => admitted.next().map(Item::ToolCall),
            })
            .map(|item| ThreadRecord::Item(Arc::new(item)))
            .collect()
    }

    async fn dispatch(&mut self, tools: &Arc<ToolSet>, calls: Vec<ToolCall>) -> Result<()> {
        let shared = &self.thread.shared;
        let journal = ThreadJournal {
            thread: Arc::clone(&self.thread),
            turn: self.active.id.clone(),
        };
        let model = Arc::new(TurnModel::new(
            Arc::clone(&self.thread),
            self.active.id.clone(),
            Arc::clone(&self.engine),
            self.request.model.clone(),
            self.request.options.clone(),
        ));
        let round = dispatch::Round {
            thread: self.thread.id.clone(),
            turn: self.active.id.clone(),
            mode: self.request.mode,
            policies: shared.policies(),
            tools: Arc::clone(tools),
            workspace: self.thread.workspace(),
            journal: Arc::new(journal),
            cancel: self.active.cancel.clone(),
            deadline: self.times.tools,
            limits: shared.limits(&self.thread.id),
            model: Some(Arc::clone(&model) as Arc<dyn RoundModel>),
        };
        let ran = dispatch::run(round, calls).await;
        // What the calls asked the model is the turn's expense, too.
        model.at_rest().await;
        if let Some(unfinished) = &self.thread.log.lock().await.folded.unfinished {
            self.usage = unfinished.usage;
        }
        ran
    }

    /// Writes the turn's end and tells of it, once.
    async fn end(self, ending: Ending, place: Occupied) -> TurnEnd {
        let Ending {
            mut status,
            error,
            records,
        } = ending;
        let mut error = error.map(|error| error.to_data());
        let mut log = self.thread.log.lock().await;
        let why = match status {
            TurnStatus::Interrupted => "not started: the turn was interrupted",
            _ => "not started: the turn ended before this call could run",
        };
        let mut group = Inner::missing_results(&log.folded, why);
        let shown = shown_text(&records);
        group.extend(records);
        // What was said too late for this turn stands there for the next one.
        group.extend(user_messages(self.active.close_steering()));
        group.push(ThreadRecord::TurnEnded {
            status,
            error: error.clone(),
            usage: self.usage,
        });
        // Whoever hears of the end may start the next turn at once; it waits
        // for the log.
        drop(place);
        let written = self
            .thread
            .append(&mut log, Some(&self.active.id), &group, Durability::Barrier)
            .await;
        let answer = last_answer(&log.folded.history);
        drop(log);
        if let Err(failed) = written {
            status = TurnStatus::Failed;
            // Only the first failure is the cause.
            let cause = error
                .take()
                .unwrap_or_else(|| not_stored(failed, &shown).to_data());
            let body = turn_end(status, Some(cause.clone()), self.usage);
            error = Some(cause);
            self.thread.hub.publish(Some(self.active.id.clone()), body);
        }
        TurnEnd {
            error,
            answer,
            ..TurnEnd::new(status, self.usage)
        }
    }
}

fn user_messages(said: Vec<Vec<Part>>) -> impl Iterator<Item = ThreadRecord> {
    let said = said.into_iter().filter(|parts| !parts.is_empty());
    said.map(|parts| ThreadRecord::Item(Arc::new(Item::UserMessage { parts })))
}

/// Says of an error that something was shown which isn't in the store.
fn not_stored(error: Error, shown: &str) -> Error {
    if shown.is_empty() {
        return error;
    }
    let count = shown.chars().count();
    error.context(
        "not stored",
        format!("{count} characters of the answer that were shown"),
    )
}

fn shown_text(records: &[ThreadRecord]) -> String {
    let items = records.iter().flat_map(ThreadRecord::items);
    items
        .filter_map(|item| match &**item {
            Item::AssistantMessage { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

fn last_answer(history: &crate::thread::history::ThreadHistory) -> String {
    let mut answer = String::new();
    for (item, _) in history.placed().rev() {
        match &**item {
            Item::AssistantMessage { text, .. } => {
                answer = text.clone();
                break;
            }
            Item::UserMessage { .. } => break,
            _ => {}
        }
    }
    answer
}

pub(super) fn notice(level: NoticeLevel, code: &str, text: impl Into<String>) -> ThreadRecord {
    let (code, text) = (code.to_owned(), text.into());
    ThreadRecord::Item(Arc::new(Item::Notice { level, code, text }))
}

/// A word on an answer that didn't end by itself.
fn early_end(reason: &FinishReason) -> Option<ThreadRecord> {
    let (code, text) = match reason {
        FinishReason::Length => (
            "output_limit",
            "the model's output limit cut the answer off".to_owned(),
        ),
        FinishReason::ContentFilter => (
            "content_filter",
            "the provider's content filter cut the answer off".to_owned(),
        ),
        FinishReason::Other(reason) => ("stopped", format!("the model stopped: {reason}")),
        _ => return None,
    };
    Some(notice(NoticeLevel::Warning, code, text))
}
