//! Which calls of a round run beside each other, and which one after another.
//!
//! Calls that touch nothing run at once. Calls on the workspace keep the order
//! in which the model wrote them, except that neighbours which only read run
//! together. Each tool source gets all of its calls as one batch.

use std::pin::Pin;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use haft_api::{Result, ToolCall, ToolSource};
use tokio::sync::watch;

use super::toolset::{Target, ToolEntry};
use super::{Results, Round, batch, call, permitted, send};
use crate::thread::arguments;

/// A call that names a tool and fits its schema.
#[derive(Clone)]
pub(crate) struct Planned {
    pub(crate) call: ToolCall,
    pub(crate) entry: ToolEntry,
}

/// What policy said of a call, once it has.
type Verdict = watch::Receiver<Option<std::result::Result<(), String>>>;

type Lane = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// A planned call and the place where policy's word will stand.
struct Waiting {
    planned: Planned,
    verdict: Verdict,
}

/// Sorts the calls into lanes that run beside each other. Calls that can't run
/// at all get their results at once.
pub(super) fn lanes(round: &Arc<Round>, calls: Vec<ToolCall>, results: &Results) -> Vec<Lane> {
    let mut lanes: Vec<Lane> = Vec::new();
    let mut beside = Vec::new();
    let mut ordered = Vec::new();
    let mut batches: Vec<(Arc<dyn ToolSource>, Vec<Waiting>)> = Vec::new();
    for call in calls {
        let planned = match resolve(round, call) {
            Ok(planned) => planned,
            Err((call, complaint)) => {
                send(results, call::error(&call, complaint));
                continue;
            }
        };
        let (decided, verdict) = watch::channel(None);
        let (asking, asked) = (Arc::clone(round), planned.clone());
        lanes.push(Box::pin(async move {
            let (effects, extension) = (asked.entry.effects(), asked.entry.extension.as_ref());
            let word = permitted(&asking, &asked.call, effects, extension).await?;
            decided.send_replace(Some(word));
            Ok(())
        }));
        let target = planned.entry.target.clone();
        let runs_beside = planned.entry.runs_beside_others();
        let waiting = Waiting { planned, verdict };
        match target {
            Target::Source(source) => {
                match batches
                    .iter_mut()
                    .find(|(known, _)| Arc::ptr_eq(known, &source))
                {
                    Some((_, batch)) => batch.push(waiting),
                    None => batches.push((source, vec![waiting])),
                }
            }
            Target::External => beside.push(waiting),
            Target::Tool(_) if runs_beside => beside.push(waiting),
            Target::Tool(_) => ordered.push(waiting),
        }
    }
    for (source, batch) in batches {
        lanes.push(batch_lane(
            Arc::clone(round),
            source,
            batch,
            results.clone(),
        ));
    }
    lanes.push(together(Arc::clone(round), beside, results.clone()));
    lanes.push(in_order(Arc::clone(round), ordered, results.clone()));
    lanes
}

fn resolve(round: &Round, call: ToolCall) -> std::result::Result<Planned, (ToolCall, String)> {
    let Some(entry) = round.tools.get(&call.name) else {
        let complaint = round.tools.unknown(&call.name);
        return Err((call, complaint));
    };
    let complaint =
        arguments::complaint(&call.arguments).or_else(|| entry.complaint(call.arguments.get()));
    match complaint {
        Some(complaint) => Err((call, complaint)),
        None => Ok(Planned {
            call,
            entry: entry.clone(),
        }),
    }
}

/// Policy's word on a call; a result is sent if it isn't to run.
async fn cleared(waiting: Waiting, results: &Results) -> Option<Planned> {
    let Waiting {
        planned,
        mut verdict,
    } = waiting;
    let word = verdict
        .wait_for(Option::is_some)
        .await
        .map(|word| word.clone());
    match word {
        Ok(Some(Ok(()))) => Some(planned),
        Ok(Some(Err(reason))) => {
            send(results, call::error(&planned.call, reason));
            None
        }
        // The lane that decides ended early: the round is being torn down.
        Ok(None) | Err(_) => None,
    }
}

async fn one(round: Arc<Round>, waiting: Waiting, results: Results) -> Result<()> {
    if let Some(planned) = cleared(waiting, &results).await {
        let result = call::execute(&round, planned).await?;
        send(&results, result);
    }
    Ok(())
}

fn together(round: Arc<Round>, calls: Vec<Waiting>, results: Results) -> Lane {
    Box::pin(async move {
        let at_once = round.limits.parallel_calls.max(1);
        let mut waiting = calls.into_iter();
        let start = |waiting| one(Arc::clone(&round), waiting, results.clone());
        let mut running: FuturesUnordered<_> = waiting.by_ref().take(at_once).map(start).collect();
        while let Some(ended) = running.next().await {
            ended?;
            if let Some(next) = waiting.next() {
                running.push(one(Arc::clone(&round), next, results.clone()));
            }
        }
        Ok(())
    })
}

fn in_order(round: Arc<Round>, calls: Vec<Waiting>, results: Results) -> Lane {
    Box::pin(async move {
        let mut readers = Vec::new();
        for waiting in calls {
            if waiting.planned.entry.effects().is_read_only() {
                readers.push(waiting);
                continue;
            }
            together(
                Arc::clone(&round),
                std::mem::take(&mut readers),
                results.clone(),
            )
            .await?;
            one(Arc::clone(&round), waiting, results.clone()).await?;
        }
        together(round, readers, results).await
    })
}

fn batch_lane(
    round: Arc<Round>,
    source: Arc<dyn ToolSource>,
    calls: Vec<Waiting>,
    results: Results,
) -> Lane {
    Box::pin(async move {
        let mut planned = Vec::new();
        for waiting in calls {
            planned.extend(cleared(waiting, &results).await);
        }
        if planned.is_empty() {
            Ok(())
        } else {
            batch::run(round, source, planned, results).await
        }
    })
}
