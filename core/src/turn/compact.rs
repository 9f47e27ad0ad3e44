//! Compaction: what no longer fits a model's window is shown to it as a summary.
//!
//! The size is what the provider counted for the last round, and a guess for
//! what has come since. What was summarised stays in the log.

use std::sync::Arc;

use haft_api::{
    Durability, EngineMemo, EngineRequest, Error, ErrorKind, EventBody, History, Item, NoticeLevel,
    Part, Result, ToolChoice, Usage,
};

use super::drive::{Driver, Ending, Next, notice};
use super::stream::{self, StreamEnd};
use super::summary::{self, Cut};
use crate::moment::Moment;
use crate::thread::fold::Measured;
use crate::thread::history::fresh_generation;
use crate::thread::records::ThreadRecord;

/// Bytes of text to a token, where nothing better is known.
const BYTES_PER_TOKEN: f64 = 4.0;
/// How often a round that doesn't fit is made smaller before it is given up.
const TRIES: u8 = 2;
/// No window is so small that less would fill it: below, nobody is asked for
/// its size.
const NEVER_TOO_MUCH: u64 = 1_000;

/// What a compaction came to.
enum Compacted {
    Done,
    /// There is nothing to summarise.
    Nothing,
    Failed(Error),
    Interrupted,
}

/// How hard a history is to be shortened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measure {
    /// In good time.
    Early,
    /// The model has refused it this many times.
    Refused(u8),
    /// Somebody asked for it.
    Asked,
}

impl Measure {
    /// Parts of the window that are kept, and that a transcript may fill.
    fn shares(self) -> (f64, f64) {
        match self {
            Self::Early | Self::Asked => (0.2, 0.5),
            Self::Refused(0 | 1) => (0.1, 0.4),
            Self::Refused(_) => (0.0, 0.15),
        }
    }
}

impl Driver {
    /// Shortens what the model is shown if the next round might not fit.
    ///
    /// # Errors
    /// What the store fails with.
    pub(super) async fn keep_within_window(&mut self) -> Result<Option<Ending>> {
        let share = self.thread.shared.options.compact_at;
        if share <= 0.0 {
            return Ok(None);
        }
        let Some(tokens) = self.estimate().await.filter(|t| *t >= NEVER_TOO_MUCH) else {
            return Ok(None);
        };
        let Some(window) = self.window().await else {
            return Ok(None);
        };
        let answer = self.request.options.max_output_tokens.unwrap_or(0);
        let limit = (window as f64 * share).min(window.saturating_sub(answer) as f64);
        if (tokens as f64) < limit {
            return Ok(None);
        }
        match self.compact(Measure::Early, Some(tokens)).await? {
            Compacted::Done | Compacted::Nothing => Ok(None),
            Compacted::Interrupted => Ok(Some(Ending::interrupted(Vec::new()))),
            Compacted::Failed(error) => {
                // It may fit all the same.
                let text = format!("the conversation couldn't be summarised: {error}");
                let record = notice(NoticeLevel::Warning, "compaction_failed", text);
                self.append(&[record], Durability::Buffered).await?;
                Ok(None)
            }
        }
    }

    /// What follows when the model has refused a round for its size.
    ///
    /// # Errors
    /// What the store fails with.
    pub(super) async fn overflowed(&mut self, usage: Usage, error: Error) -> Result<Next> {
        self.overflows += 1;
        let records: Vec<_> = self.account(usage, None).into_iter().collect();
        let fail = |error: Error| Ok(Next::Over(Ending::failed(error, Vec::new())));
        if !records.is_empty() {
            self.append(&records, Durability::Buffered).await?;
        }
        if self.overflows > TRIES {
            return fail(error.context("compactions tried", TRIES));
        }
        match self.compact(Measure::Refused(self.overflows), None).await? {
            Compacted::Done => Ok(Next::Same),
            Compacted::Nothing => fail(error),
            Compacted::Interrupted => Ok(Next::Over(Ending::interrupted(Vec::new()))),
            Compacted::Failed(why) => fail(error.context("compaction", why)),
        }
    }

    /// Shortens what the model is shown because somebody asked for it.
    ///
    /// # Errors
    /// What the store fails with.
    pub(super) async fn compact_as_asked(&mut self) -> Result<Ending> {
        let tokens = self.estimate().await;
        Ok(match self.compact(Measure::Asked, tokens).await? {
            Compacted::Done => Ending::completed(Vec::new()),
            Compacted::Interrupted => Ending::interrupted(Vec::new()),
            Compacted::Failed(error) => Ending::failed(error, Vec::new()),
            Compacted::Nothing => {
                let text = "there is nothing to summarise yet";
                let record = notice(NoticeLevel::Info, "compaction", text);
                Ending::completed(vec![record])
            }
        })
    }

    /// About how many tokens the next round would begin with, if a round of
    /// this history was counted before.
    async fn estimate(&self) -> Option<u64> {
        let log = self.thread.log.lock().await;
        let Measured { tokens, items } = log.folded.measured?;
        let since = log.folded.history.shown().items().get(items..)?;
        let bytes: usize = since.iter().map(|item| summary::item_bytes(item)).sum();
        Some(tokens.saturating_add((bytes as f64 / BYTES_PER_TOKEN) as u64))
    }

    /// The tokens that fit, if anybody knows; asked once in a runtime.
    async fn window(&self) -> Option<u64> {
        let shared = &self.thread.shared;
        let model = self.request.model.as_deref();
        shared.model(&self.engine, model).await?.context_tokens
    }

    /// Summarises the older part of what the model is shown.
    async fn compact(&mut self, measure: Measure, tokens: Option<u64>) -> Result<Compacted> {
        let window = self.window().await;
        let (history, measured) = {
            let log = self.thread.log.lock().await;
            let Some(history) = log.folded.history.settled().cloned() else {
                return Ok(Compacted::Nothing);
            };
            (history, log.folded.measured)
        };
        let bytes: usize = history.items().iter().map(|i| summary::item_bytes(i)).sum();
        let room = match window {
            Some(window) => window as f64 * bytes_per_token(&history, measured),
            None => bytes as f64,
        };
        // Less must come of it, however much would fit.
        let room = match measure {
            Measure::Early => room,
            Measure::Asked => room.min(bytes as f64 * 2.0),
            Measure::Refused(_) => room.min(bytes as f64),
        };
        let (keep, transcript) = measure.shares();
        let cut = summary::cut(
            history.items(),
            (room * keep) as usize,
            (room * transcript) as usize,
        );
        let Some(cut) = cut else {
            return Ok(Compacted::Nothing);
        };
        let kept: usize = history.items()[cut.keep..]
            .iter()
            .map(|item| summary::item_bytes(item))
            .sum();
        drop(history);
        // Not in every round for the little that has come since the last time.
        if measure == Measure::Early && (bytes - kept) * 10 < bytes {
            return Ok(Compacted::Nothing);
        }
        let begun = EventBody::CompactionStarted { tokens, window };
        self.thread.hub.publish(Some(self.active.id.clone()), begun);
        let request = self.summary_request(&cut, window)?;
        let cancel = &self.active.cancel;
        let end = stream::run(&self.engine, request, None, cancel, self.times.end).await;
        let (usage, round) = match end {
            StreamEnd::Finished(round) => (round.usage, Ok(round)),
            StreamEnd::Broken { usage, error, .. } => (usage, Err(Compacted::Failed(error))),
            StreamEnd::Interrupted { usage, .. } => (usage, Err(Compacted::Interrupted)),
        };
        let served = round.as_ref().ok().and_then(|round| round.served.clone());
        let served = self.served(served).await;
        let mut records: Vec<_> = self.account(usage, served).into_iter().collect();
        let notes = round.map(|round| round.text());
        let outcome = match notes {
            Ok(notes) if notes.trim().is_empty() => Compacted::Failed(Error::new(
                ErrorKind::Unavailable,
                "the model wrote no summary",
            )),
            Ok(notes) => {
                let notes = summary::clipped(&notes, ((room * 0.25) as usize).max(2_000));
                records.extend(self.compacted(&cut, &notes, tokens).await);
                Compacted::Done
            }
            Err(outcome) => outcome,
        };
        if !records.is_empty() {
            self.append(&records, Durability::Barrier).await?;
        }
        Ok(outcome)
    }

    /// The request that asks for the summary: text only, so that every model
    /// can read it, and of a size that fits.
    fn summary_request(&self, cut: &Cut, window: Option<u64>) -> Result<EngineRequest> {
        let words = window.map_or(1_000, |window| (window / 20).clamp(100, 1_500));
        let question = Item::user(summary::question(&cut.transcript, words));
        let history = History::new(fresh_generation(), vec![Arc::new(question)]);
        let (thread, turn) = (self.thread.id.clone(), self.active.id.clone());
        let mut request = EngineRequest::new(thread, turn, history);
        request.model = self.request.model.clone();
        request.instructions = Arc::from(summary::INSTRUCTIONS);
        request.tool_choice = ToolChoice::None;
        request.options.temperature = self.request.options.temperature;
        request.deadline = self.times.end.map(Moment::deadline);
        request.memo = EngineMemo::new();
        Ok(request)
    }

    async fn compacted(&self, cut: &Cut, notes: &str, tokens: Option<u64>) -> Vec<ThreadRecord> {
        let through = {
            let log = self.thread.log.lock().await;
            log.folded.history.left_out(cut.keep)
        };
        // At least one item is left out, so there is such a record.
        let Some(through) = through else {
            return Vec::new();
        };
        let text = summary::message(notes, cut.request.as_deref());
        let size = tokens.map_or(String::new(), |t| format!(", of about {t} tokens in all,"));
        let told = format!(
            "the earlier part of the conversation{size} is shown to the model as a summary from \
             now on"
        );
        vec![
            ThreadRecord::Compacted {
                summary: Arc::new(Item::UserMessage {
                    parts: vec![Part::text(text)],
                }),
                through,
            },
            notice(NoticeLevel::Info, "compaction", told),
        ]
    }
}

/// How many bytes a token was in what was counted.
fn bytes_per_token(history: &History, measured: Option<Measured>) -> f64 {
    let counted = measured.and_then(|m| Some((history.items().get(..m.items)?, m.tokens)));
    match counted {
        Some((items, tokens)) if tokens > 0 => {
            let bytes: usize = items.iter().map(|item| summary::item_bytes(item)).sum();
            (bytes as f64 / tokens as f64).clamp(1.0, BYTES_PER_TOKEN)
        }
        _ => BYTES_PER_TOKEN,
    }
}
