//! Threads made of conversations that were had elsewhere.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use haft_api::{
    Durability, EngineToolCall, Error, ErrorKind, ExtensionId, Item, Part, PolicyMode, Result,
    ToolCall, ToolResult, TurnId, Usage,
};

use super::{Runtime, ThreadOptions};
use crate::thread::records::{Served, ThreadRecord};
use crate::thread::{Thread, TurnStatus, fold};
use crate::turn::{summary_message, turn_id};

/// A piece of a conversation that was had elsewhere.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Piece {
    /// The model that speaks from now on.
    Model(String),
    /// What the user said.
    User(Vec<Part>),
    /// What the model said.
    Assistant(String),
    /// What the model thought.
    Reasoning(String),
    /// A tool the model wanted run.
    Call {
        /// Its id there; may be empty or used twice.
        id: String,
        /// The tool's name.
        name: String,
        /// The arguments' text as the model wrote it.
        arguments: String,
    },
    /// What came of a call. May stand anywhere behind it.
    Result {
        /// The call's id.
        call_id: String,
        /// Whether it failed.
        is_error: bool,
        /// What the model read; may be empty.
        parts: Vec<Part>,
    },
    /// Tokens that a round used.
    Usage(Usage),
    /// What the model was shown from here on in place of what came before.
    Summary {
        /// The summary.
        text: String,
        /// How many of the pieces just before this one it was still shown.
        kept: usize,
    },
}

/// What had to be made up, or left out, for a valid thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportReport {
    /// Calls without a result, which got one that says so.
    pub calls_without_result: usize,
    /// Results without a call, which were left out.
    pub results_without_call: usize,
}

impl Runtime {
    /// Creates a thread of a conversation that was had elsewhere, valid whatever
    /// the pieces are like: each call gets its result, ids of its own where they
    /// weren't unique, empty texts are left out. `engine` names where it was
    /// had; each message of the user begins a turn.
    ///
    /// Nothing of it is left if this fails. If the future is dropped, what was
    /// written so far stays.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if there is no message in it; as
    /// [`create_thread`](Self::create_thread); what the store fails with.
    pub async fn import_thread(
        &self,
        options: ThreadOptions,
        engine: &ExtensionId,
        pieces: Vec<Piece>,
    ) -> Result<(Thread, ImportReport)> {
        let spoken = |piece: &Piece| matches!(piece, Piece::User(_) | Piece::Assistant(_));
        if !pieces.iter().any(spoken) {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "the conversation to import has no message",
            )
            .context("from", engine));
        }
        let thread = self.create_thread(options).await?;
        let mut import = Import {
            thread: &thread,
            engine,
            model: None,
            turn: None,
            results: results(&pieces),
            calls: Vec::new(),
            report: ImportReport::default(),
        };
        let written = import.all(pieces).await;
        let report = import.report;
        match written {
            Ok(()) => Ok((thread, report)),
            Err(error) => {
                let id = thread.id().clone();
                drop(thread);
                // The first error is the one that matters.
                self.delete_thread(&id).await.ok();
                Err(error.operation("import").context("from", engine))
            }
        }
    }
}

type Results = HashMap<String, VecDeque<(bool, Vec<Part>)>>;

/// The results by call, each id's in order.
fn results(pieces: &[Piece]) -> Results {
    let mut all = Results::new();
    for piece in pieces {
        if let Piece::Result {
            call_id,
            is_error,
            parts,
        } = piece
        {
            let queue = all.entry(call_id.clone()).or_default();
            queue.push_back((*is_error, parts.clone()));
        }
    }
    all
}

struct Import<'i> {
    thread: &'i Thread,
    engine: &'i ExtensionId,
    model: Option<String>,
    /// The turn that is open, and its tokens.
    turn: Option<(TurnId, Usage)>,
    results: Results,
    /// The calls of the round at hand, not written yet.
    calls: Vec<EngineToolCall>,
    report: ImportReport,
}

impl Import<'_> {
    async fn all(&mut self, pieces: Vec<Piece>) -> Result<()> {
        // The record that each piece begins behind.
        let mut behind = Vec::with_capacity(pieces.len());
        for (at, piece) in pieces.into_iter().enumerate() {
            if !matches!(
                piece,
                Piece::Call { .. } | Piece::Usage(_) | Piece::Result { .. }
            ) {
                self.end_round().await?;
            }
            behind.push(self.next_seq().await.saturating_sub(1));
            match piece {
                Piece::Model(model) => self.model = Some(model),
                Piece::User(parts) => {
                    let parts = shown(parts);
                    if !parts.is_empty() {
                        self.end_turn(Durability::Buffered).await?;
                        self.say(Item::UserMessage { parts }).await?;
                    }
                }
                Piece::Assistant(text) => self.say(Item::assistant(text)).await?,
                Piece::Reasoning(text) => self.say(Item::Reasoning { text, state: None }).await?,
                Piece::Call {
                    id,
                    name,
                    arguments,
                } => self.calls.push(EngineToolCall {
                    id: Some(id),
                    name,
                    arguments,
                    state: None,
                }),
                // They stand behind their calls.
                Piece::Result { .. } => {}
                Piece::Usage(usage) => self.used(usage).await?,
                Piece::Summary { text, kept } => {
                    let through = behind[at.saturating_sub(kept)];
                    let summary = Arc::new(Item::user(summary_message(&text)));
                    self.write(&[ThreadRecord::Compacted { summary, through }])
                        .await?;
                }
            }
        }
        self.end_round().await?;
        self.end_turn(Durability::Barrier).await?;
        let left: usize = self.results.values().map(VecDeque::len).sum();
        self.report.results_without_call = left;
        Ok(())
    }

    async fn next_seq(&self) -> u64 {
        self.thread.inner.log.lock().await.folded.next_seq
    }

    /// Writes an item, in a turn.
    async fn say(&mut self, item: Item) -> Result<()> {
        let blank = match &item {
            Item::AssistantMessage { text, .. } | Item::Reasoning { text, .. } => {
                text.trim().is_empty()
            }
            _ => false,
        };
        if blank {
            return Ok(());
        }
        self.begin_turn(matches!(item, Item::UserMessage { .. }))
            .await?;
        self.write(&[ThreadRecord::Item(Arc::new(item))]).await
    }

    async fn begin_turn(&mut self, with_message: bool) -> Result<()> {
        if self.turn.is_some() {
            return Ok(());
        }
        self.turn = Some((turn_id()?, Usage::default()));
        let mut records = vec![ThreadRecord::TurnStarted {
            engine: self.engine.clone(),
            model: self.model.clone(),
            mode: PolicyMode::default(),
        }];
        if !with_message {
            // No provider takes a conversation that the model begins.
            let lost = Item::user("(what was said before this isn't known)");
            records.push(ThreadRecord::Item(Arc::new(lost)));
        }
        self.write(&records).await
    }

    /// Writes the calls at hand and their results.
    async fn end_round(&mut self) -> Result<()> {
        if self.calls.is_empty() {
            return Ok(());
        }
        self.begin_turn(false).await?;
        let calls = std::mem::take(&mut self.calls);
        let ids: Vec<_> = calls.iter().map(|call| call.id.clone()).collect();
        let admitted = {
            let mut log = self.thread.inner.log.lock().await;
            log.folded.history.admit(calls)
        };
        let mut items: Vec<Arc<Item>> = Vec::new();
        for call in &admitted {
            items.push(Arc::new(Item::ToolCall(call.clone())));
        }
        for (call, id) in admitted.iter().zip(ids) {
            items.push(self.result(call, &id.unwrap_or_default()));
        }
        let records: Vec<_> = items.into_iter().map(ThreadRecord::Item).collect();
        self.write(&records).await
    }

    fn result(&mut self, call: &ToolCall, id: &str) -> Arc<Item> {
        let Some((is_error, parts)) = self.results.get_mut(id).and_then(VecDeque::pop_front) else {
            self.report.calls_without_result += 1;
            let text = "interrupted: the session this was imported from has no result of this call";
            return fold::error_result(call, text);
        };
        let mut parts = shown(parts);
        if parts.is_empty() {
            parts.push(Part::text("(no output)"));
        }
        Arc::new(Item::ToolResult(ToolResult {
            call_id: call.id.clone(),
            name: call.name.clone(),
            is_error,
            parts,
        }))
    }

    async fn used(&mut self, round: Usage) -> Result<()> {
        let Some((_, total)) = &mut self.turn else {
            return Ok(());
        };
        total.add(round);
        let turn_total = *total;
        let served = Served {
            engine: self.engine.clone(),
            model: self.model.clone(),
        };
        self.write(&[ThreadRecord::Usage {
            round,
            turn_total,
            served: Some(served),
            call: None,
        }])
        .await
    }

    async fn end_turn(&mut self, durability: Durability) -> Result<()> {
        let Some((turn, usage)) = self.turn.take() else {
            return Ok(());
        };
        let ended = ThreadRecord::TurnEnded {
            status: TurnStatus::Completed,
            error: None,
            usage,
        };
        self.write_as(Some(turn), vec![ended], durability).await
    }

    async fn write(&self, records: &[ThreadRecord]) -> Result<()> {
        let turn = self.turn.as_ref().map(|(turn, _)| turn.clone());
        self.write_as(turn, records.to_vec(), Durability::Buffered)
            .await
    }

    async fn write_as(
        &self,
        turn: Option<TurnId>,
        records: Vec<ThreadRecord>,
        durability: Durability,
    ) -> Result<()> {
        let written = self.thread.inner.undisturbed(|thread| async move {
            let mut log = thread.log.lock().await;
            thread
                .append(&mut log, turn.as_ref(), &records, durability)
                .await
        });
        written.await
    }
}

/// The parts that have something in them.
fn shown(parts: Vec<Part>) -> Vec<Part> {
    let blank = |part: &Part| part.as_text().is_some_and(|text| text.trim().is_empty());
    parts.into_iter().filter(|part| !blank(part)).collect()
}
