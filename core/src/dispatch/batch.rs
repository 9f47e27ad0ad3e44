//! A tool source's batch: one call into the source, one outcome per slot.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use haft_api::{
    BatchCall, BatchOutcomes, CallId, Error, ErrorKind, Result, ToolOutput, ToolResult, ToolSource,
};
use tokio::sync::Notify;

use super::call::{self, Ended, Running, Task};
use super::plan::Planned;
use super::{Results, Round, send};
use crate::guard;
use crate::moment::Moment;
use crate::workspace::Access;

/// The slots of a batch. A slot leaves the map when it is filled.
struct Slots {
    open: Mutex<BTreeMap<CallId, Running>>,
    results: Results,
    /// Under a lease results wait for its release, which may still turn them
    /// into errors; without one they go out at once.
    held: Option<Mutex<Vec<ToolResult>>>,
    filled: Notify,
}

impl Slots {
    fn open(&self) -> std::sync::MutexGuard<'_, BTreeMap<CallId, Running>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fill(&self, call: &CallId, ended: Ended) -> bool {
        let Some(running) = self.open().remove(call) else {
            return false;
        };
        let result = running.result(ended);
        match &self.held {
            Some(held) => held
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(result),
            None => send(&self.results, result),
        }
        self.filled.notify_one();
        true
    }

    /// Sends what was held, once the lease is released or wasn't.
    fn let_go(&self, released: &Result<()>) {
        let Some(held) = &self.held else { return };
        let held = std::mem::take(&mut *held.lock().unwrap_or_else(PoisonError::into_inner));
        for result in held {
            send(&self.results, call::after_release(result, released));
        }
    }

    fn fill_all(&self, mut ended: impl FnMut() -> Ended) {
        let ids: Vec<_> = self.open().keys().cloned().collect();
        for id in ids {
            self.fill(&id, ended());
        }
    }

    /// The slot whose own time is over first.
    fn next_due(&self) -> Option<(CallId, Moment)> {
        let open = self.open();
        let due = open.iter().map(|(id, running)| (id.clone(), running.own));
        due.min_by_key(|(_, own)| *own)
    }
}

impl BatchOutcomes for Slots {
    fn complete(&self, call: &CallId, outcome: Result<ToolOutput>) -> bool {
        self.fill(call, Ended::Returned(outcome))
    }
}

/// Runs a batch until every slot is filled.
///
/// # Errors
/// Only what the journal fails with.
pub(super) async fn run(
    round: Arc<Round>,
    source: Arc<dyn ToolSource>,
    planned: Vec<Planned>,
    results: Results,
) -> Result<()> {
    if round.cancel.is_cancelled() {
        for Planned { call, .. } in planned {
            send(&results, call::error(&call, call::NOT_STARTED));
        }
        return Ok(());
    }
    // One hold on the workspace serves the batch: as tight as its tightest call.
    let tightest = planned
        .iter()
        .filter(|planned| planned.entry.effects().needs_workspace())
        .min_by_key(|planned| planned.entry.effects().is_read_only());
    let held = match tightest {
        Some(planned) => call::access(&round, &planned.entry).await,
        None => Ok(None),
    };
    let (access, refusal) = match held {
        Ok(access) => (access, None),
        Err(refusal) => (None, Some(refusal)),
    };
    let mut calls = Vec::new();
    let mut open = BTreeMap::new();
    for Planned { call, entry } in planned {
        let needs = entry.effects().needs_workspace();
        if let Some(refusal) = refusal.as_ref().filter(|_| needs) {
            send(&results, call::error(&call, refusal));
            continue;
        }
        round
            .journal
            .starting(&call, !entry.effects().is_read_only())
            .await?;
        let running = Running::new(&round, call.clone(), &entry);
        let context = running.context(&round, access.as_ref().filter(|_| needs));
        open.insert(call.id.clone(), running);
        calls.push(BatchCall { call, context });
    }
    if !calls.is_empty() {
        let held = access
            .as_ref()
            .is_some_and(Access::is_leased)
            .then(Mutex::default);
        let slots = Arc::new(Slots {
            open: Mutex::new(open),
            results,
            held,
            filled: Notify::new(),
        });
        let outcomes = Arc::clone(&slots) as Arc<dyn BatchOutcomes>;
        let id = source.id().clone();
        let task = Task(tokio::spawn(async move {
            guard::future(id.as_str(), source.call_batch(calls, outcomes)).await
        }));
        supervise(&round, &slots, access.as_ref(), task).await;
        let released = match access {
            Some(access) => access.release().await,
            None => Ok(()),
        };
        slots.let_go(&released);
        return Ok(());
    }
    if let Some(access) = access {
        // Nothing ran under it.
        access.release().await.ok();
    }
    Ok(())
}

async fn supervise(
    round: &Round,
    slots: &Slots,
    access: Option<&Access>,
    mut task: Task<Result<()>>,
) {
    let lost = async {
        match access {
            Some(access) => access.lost().await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(lost);
    while let Some((due, own)) = slots.next_due() {
        tokio::select! {
            biased;
            joined = &mut task.0 => {
                let outcome = joined.unwrap_or_else(|error| {
                    Err(Error::new(ErrorKind::Unexpected, error.to_string()))
                });
                let data = match outcome {
                    Ok(()) => Error::new(ErrorKind::Unexpected, "the source dropped this call"),
                    Err(error) => error,
                }
                .to_data();
                slots.fill_all(|| Ended::Returned(Err(data.clone().into())));
                return;
            }
            () = slots.filled.notified() => {}
            () = round.cancel.cancelled() => slots.fill_all(|| Ended::Aborted),
            reason = &mut lost => slots.fill_all(|| Ended::LeaseLost(reason.clone())),
            () = Moment::passed(round.deadline) => slots.fill_all(|| Ended::CutOff),
            () = Moment::passed(Some(own)) => {
                let limit = slots.open().get(&due).map(|running| running.limit);
                slots.fill(&due, Ended::TimedOut(limit.unwrap_or_default()));
            }
        }
    }
    task.cancel(round.limits.cancel_grace).await;
}
