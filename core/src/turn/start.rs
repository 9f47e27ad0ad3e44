//! How a turn begins: alone on its thread, after what a crash left was mended.

use std::sync::Arc;

use futures::FutureExt;
use haft_api::{
    Durability, Error, ErrorKind, InferenceEngine, Item, PolicyMode, Result, ToolCall, Usage,
};
use tokio::sync::watch;

use super::drive::{Driver, Work};
use super::{ActiveTurn, Times, Turn, TurnEnd, TurnRequest, turn_id};
use crate::dispatch::ToolSet;
use crate::thread::records::ThreadRecord;
use crate::thread::{Inner, Thread, TurnStatus, fold, lock};

/// What a turn that was prepared goes on with.
struct Begun {
    engine: Arc<dyn InferenceEngine>,
    request: TurnRequest,
    usage: Usage,
    work: Work,
}

impl Thread {
    /// Starts a turn. It is in the store, and runs on its own, when this
    /// returns; what it does is told by [`subscribe`](Self::subscribe)'s events.
    ///
    /// Must be called within a tokio runtime. Dropping the future doesn't stop
    /// a turn that has begun.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] while another turn runs here, or another process has
    /// the thread; [`ErrorKind::NotFound`] for an engine that isn't there;
    /// [`ErrorKind::InvalidInput`] for empty input; what the store fails with.
    pub async fn start_turn(&self, request: TurnRequest) -> Result<Turn> {
        let engine = self.inner.shared.engine(request.engine.as_ref())?;
        self.begin(move |thread, slot| async move {
            thread.recover().await?;
            let started = ThreadRecord::TurnStarted {
                engine: engine.id().clone(),
                model: request.model.clone(),
                mode: request.mode,
            };
            let input = Item::UserMessage {
                parts: request.input.clone(),
            };
            let records = [started, ThreadRecord::Item(Arc::new(input))];
            {
                let mut log = thread.log.lock().await;
                thread
                    .append(&mut log, Some(&slot.id), &records, Durability::Barrier)
                    .await?;
            }
            Ok(Begun {
                engine,
                request,
                usage: Usage::default(),
                work: Work::Answer,
            })
        })
        .await
    }

    /// Summarises the older part of what the model is shown of this thread,
    /// without waiting for it to get too long. All of it stays in the thread.
    /// It is a turn of its own: of `request`, the engine, the model, the options
    /// and the time limit count.
    ///
    /// # Errors
    /// As [`start_turn`](Self::start_turn). That there is nothing to summarise
    /// isn't one.
    pub async fn compact(&self, request: TurnRequest) -> Result<Turn> {
        let engine = self.inner.shared.engine(request.engine.as_ref())?;
        self.begin(move |thread, slot| async move {
            thread.recover().await?;
            let started = ThreadRecord::TurnStarted {
                engine: engine.id().clone(),
                model: request.model.clone(),
                mode: request.mode,
            };
            let mut log = thread.log.lock().await;
            thread
                .append(&mut log, Some(&slot.id), &[started], Durability::Barrier)
                .await?;
            drop(log);
            Ok(Begun {
                engine,
                request,
                usage: Usage::default(),
                work: Work::Compact,
            })
        })
        .await
    }

    /// Goes on with a turn that an earlier process left unfinished. Calls that
    /// had begun and aren't idempotent get a result that says their outcome is
    /// unknown; the others run now, under the answers that were given to their
    /// approvals. `request` brings everything but the input, the engine and the
    /// model, which are the stored turn's.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if no turn is unfinished; else as
    /// [`start_turn`](Self::start_turn).
    pub async fn resume_turn(&self, mut request: TurnRequest) -> Result<Turn> {
        let unfinished = self.inner.log.lock().await.folded.unfinished.clone();
        let unfinished = unfinished.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "no turn of this thread is unfinished")
                .context("thread", self.id())
        })?;
        let engine = self.inner.shared.engine(Some(&unfinished.engine))?;
        request.model = request.model.or_else(|| unfinished.model.clone());
        request.mode = tighter(request.mode, unfinished.mode);
        let id = unfinished.turn.clone();
        let inner = Arc::clone(&self.inner);
        self.begin_as(id, move |thread, slot| async move {
            let (tools, _) = inner.shared.turn_tools().await;
            let mut log = thread.log.lock().await;
            let again = |call: &ToolCall| {
                let idempotent = |name: &str| {
                    ToolSet::get(&tools, name).is_some_and(|entry| entry.effects().idempotent)
                };
                !unfinished.started.contains(&call.id) || idempotent(&call.name)
            };
            let unknown: Vec<_> = log
                .folded
                .history
                .open_calls()
                .filter(|call| !again(call))
                .map(|call| ThreadRecord::Item(unfinished.lost_result(call)))
                .collect();
            if !unknown.is_empty() {
                thread
                    .append(&mut log, Some(&slot.id), &unknown, Durability::Barrier)
                    .await?;
            }
            // Only a compaction begins without a message.
            let mut placed = log.folded.history.placed();
            let spoken = placed.any(|(_, place)| place.turn.as_ref() == Some(&slot.id));
            drop(placed);
            drop(log);
            Ok(Begun {
                engine,
                request,
                usage: unfinished.usage,
                work: if spoken { Work::Answer } else { Work::Compact },
            })
        })
        .await
    }

    async fn begin<F, P>(&self, prepare: P) -> Result<Turn>
    where
        P: FnOnce(Arc<Inner>, Arc<ActiveTurn>) -> F + Send + 'static,
        F: Future<Output = Result<Begun>> + Send,
    {
        self.begin_as(turn_id()?, prepare).await
    }

    /// Takes the thread's one place for a turn, prepares the turn, and sets it
    /// going.
    async fn begin_as<F, P>(&self, id: haft_api::TurnId, prepare: P) -> Result<Turn>
    where
        P: FnOnce(Arc<Inner>, Arc<ActiveTurn>) -> F + Send + 'static,
        F: Future<Output = Result<Begun>> + Send,
    {
        let active = Arc::new(ActiveTurn::new(id.clone()));
        {
            let mut place = lock(&self.inner.active);
            if let Some(running) = &*place {
                return Err(
                    Error::new(ErrorKind::Busy, "another turn runs on this thread")
                        .context("thread", self.id())
                        .context("turn", &running.id),
                );
            }
            *place = Some(Arc::clone(&active));
        }
        let thread = Arc::clone(&self.inner);
        let cancel = active.cancel.clone();
        let (ended, end) = watch::channel(None);
        // A task of its own: whoever starts a turn may go away half-way, the
        // thread's log and its one place must not stay in between.
        let begun = tokio::spawn(async move {
            let place = Occupied(Arc::clone(&thread));
            let prepared =
                std::panic::AssertUnwindSafe(prepare(Arc::clone(&thread), Arc::clone(&active)))
                    .catch_unwind()
                    .await
                    .unwrap_or_else(|panic| {
                        Err(Error::new(
                            ErrorKind::Unexpected,
                            haft_api::panic_message(&*panic),
                        ))
                    });
            let Begun {
                engine,
                request,
                usage,
                work,
            } = prepared?;
            tokio::spawn(async move {
                let times = Times::new(request.time_limit);
                let driver = Driver {
                    thread,
                    active,
                    engine,
                    request,
                    times,
                    usage,
                    work,
                    overflows: 0,
                };
                let end = driver.run(place).await;
                ended.send_replace(Some(end));
            });
            Ok(())
        });
        begun
            .await
            .unwrap_or_else(|error| Err(Error::new(ErrorKind::Unexpected, error.to_string())))?;
        Ok(Turn {
            thread: self.clone(),
            id,
            cancel,
            end,
        })
    }
}

/// The thread's one place for a turn; free again when it is dropped.
pub(super) struct Occupied(Arc<Inner>);

impl Drop for Occupied {
    fn drop(&mut self) {
        *lock(&self.0.active) = None;
    }
}

/// Of two modes the one that allows less.
fn tighter(a: PolicyMode, b: PolicyMode) -> PolicyMode {
    let rank = |mode: PolicyMode| match mode {
        PolicyMode::Plan => 0,
        PolicyMode::Ask => 1,
        PolicyMode::AcceptEdits => 2,
        PolicyMode::Bypass => 3,
    };
    if rank(a) <= rank(b) { a } else { b }
}

impl Inner {
    /// Ends a turn that an earlier process left unfinished, or that a failing
    /// store left open: its calls get results that say so, in one record.
    async fn recover(&self) -> Result<()> {
        let mut log = self.log.lock().await;
        let Some(unfinished) = log.folded.unfinished.clone() else {
            return Ok(());
        };
        let record = ThreadRecord::TurnRecovered {
            results: log.folded.lost_results(),
            usage: unfinished.usage,
        };
        self.append(
            &mut log,
            Some(&unfinished.turn),
            &[record],
            Durability::Barrier,
        )
        .await
    }

    /// The results that calls without one need before a turn can end.
    pub(super) fn missing_results(folded: &fold::Folded, why: &str) -> Vec<ThreadRecord> {
        let open = folded.history.open_calls();
        open.map(|call| ThreadRecord::Item(fold::error_result(call, why)))
            .collect()
    }
}

impl TurnEnd {
    pub(super) fn new(status: TurnStatus, usage: Usage) -> Self {
        Self {
            status,
            error: None,
            usage,
            answer: String::new(),
        }
    }
}
