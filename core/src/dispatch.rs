//! The way of a round's tool calls, from the model's wish to its result.
//!
//! Per call: known tool → arguments → schema → policy (allow, deny, ask) →
//! workspace, if the effects need one → execute under deadline, cancellation
//! and a panic fence → bound the output → result. Every call gets exactly one
//! result, whatever its siblings do.

mod batch;
mod call;
mod model;
mod output;
mod plan;
mod schema;
pub(crate) mod toolset;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use haft_api::{
    CallId, Effects, ExtensionId, OutputChannel, PolicyContributor, PolicyMode, Result, ThreadId,
    ToolCall, ToolOutput, ToolResult, TurnId, async_trait,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub(crate) use model::{RoundModel, ended as model_call_ended};
pub(crate) use output::{Bounds, private_folder};
pub(crate) use toolset::ToolSet;

use crate::moment::Moment;
use crate::workspace::Workspace;

/// Where a round's calls leave their traces. The thread's log is one; a run of
/// tools without a thread has another.
#[async_trait]
pub(crate) trait Journal: Send + Sync + 'static {
    /// Before a call runs. If it has side effects, that it does is durable when
    /// this returns.
    async fn starting(&self, call: &ToolCall, side_effects: bool) -> Result<()>;

    /// Results, durable when this returns.
    async fn ended(&self, results: Vec<ToolResult>) -> Result<()>;

    /// Output of a running call.
    fn progress(&self, call: &CallId, channel: OutputChannel, text: String);

    /// Asks whether a call may run. Pending until somebody answers.
    async fn ask(&self, call: &ToolCall, reason: String) -> Result<bool>;

    /// Has a call answered from outside. Pending until somebody does.
    async fn answer_outside(&self, call: &ToolCall) -> Result<ToolOutput>;
}

/// What a round's calls are run with.
#[derive(Clone)]
pub(crate) struct Round {
    pub(crate) thread: ThreadId,
    pub(crate) turn: TurnId,
    pub(crate) mode: PolicyMode,
    pub(crate) policies: Arc<[Arc<dyn PolicyContributor>]>,
    pub(crate) tools: Arc<ToolSet>,
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) cancel: CancellationToken,
    /// When running tools are cut off.
    pub(crate) deadline: Option<Moment>,
    pub(crate) limits: Limits,
    /// What the calls may ask; nothing without a turn.
    pub(crate) model: Option<Arc<dyn RoundModel>>,
}

/// Limits of single calls.
#[derive(Clone)]
pub(crate) struct Limits {
    pub(crate) tool_timeout: Duration,
    pub(crate) cancel_grace: Duration,
    pub(crate) parallel_calls: usize,
    pub(crate) output: Bounds,
}

/// Runs a round's calls and has every result in the journal when it returns.
///
/// # Errors
/// Only what the journal fails with: a call's own failure is its result.
pub(crate) async fn run(round: Round, calls: Vec<ToolCall>) -> Result<()> {
    let (results, arrived) = mpsc::unbounded_channel();
    let round = Arc::new(round);
    let mut lanes: FuturesUnordered<_> = plan::lanes(&round, calls.clone(), &results)
        .into_iter()
        .collect();
    // Lanes and the writing of results are polled side by side: a lane may hold
    // what the writing waits for.
    let over = CancellationToken::new();
    let mut writing = std::pin::pin!(write(&round, calls, arrived, over.clone()));
    loop {
        tokio::select! {
            written = &mut writing => return written,
            lane = lanes.next(), if !lanes.is_empty() => lane.unwrap_or(Ok(()))?,
        }
        if lanes.is_empty() {
            over.cancel();
        }
    }
}

/// Writes results as they come, in groups, until it is over and none is left;
/// then those of calls that got none.
async fn write(
    round: &Round,
    mut missing: Vec<ToolCall>,
    mut arrived: mpsc::UnboundedReceiver<ToolResult>,
    over: CancellationToken,
) -> Result<()> {
    loop {
        let mut ended = Vec::new();
        // A source may hold on to its batch's outcomes for ever, so the
        // channel's end says nothing.
        tokio::select! {
            biased;
            _ = arrived.recv_many(&mut ended, 256) => {}
            () = over.cancelled() => break,
        }
        // The first result of a call counts.
        ended.retain(|result: &ToolResult| {
            let open = missing.iter().position(|call| call.id == result.call_id);
            open.map(|index| missing.swap_remove(index)).is_some()
        });
        if !ended.is_empty() {
            round.journal.ended(ended).await?;
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let dropped = missing
        .iter()
        .map(|call| call::error(call, "the call was dropped"))
        .collect();
    round.journal.ended(dropped).await
}

/// Sends a result to the round's loop.
type Results = mpsc::UnboundedSender<ToolResult>;

fn send(results: &Results, result: ToolResult) {
    // The loop is gone only when the round is being torn down.
    results.send(result).ok();
}

/// A call's way through policy, in words for the model if it ends there.
async fn permitted(
    round: &Round,
    call: &ToolCall,
    effects: Effects,
    extension: Option<&ExtensionId>,
) -> Result<std::result::Result<(), String>> {
    match crate::policy::decide(round, call, effects, extension).await {
        haft_api::Decision::Allow => Ok(Ok(())),
        haft_api::Decision::Deny { reason } => Ok(Err(format!("denied: {reason}"))),
        haft_api::Decision::Ask { reason } => {
            let asked = round.journal.ask(call, reason);
            tokio::select! {
                answer = asked => Ok(match answer {
                    Ok(true) => Ok(()),
                    Ok(false) => Err("denied: the user did not approve this call".to_owned()),
                    Err(error) => return Err(error),
                }),
                () = round.cancel.cancelled() => Ok(Err(call::NOT_STARTED.to_owned())),
                () = Moment::passed(round.deadline) => {
                    Ok(Err("not started: nobody approved it before the turn's deadline".to_owned()))
                }
            }
        }
    }
}
