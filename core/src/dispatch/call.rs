//! One call's execution.

use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_api::{Error, ExtensionId, Part, Result, ToolCall, ToolContext, ToolOutput, ToolResult};
use tokio::task::JoinHandle;
use tokio_util::sync::DropGuard;

use super::Round;
use super::model::CallModel;
use super::output::Spool;
use super::plan::Planned;
use super::toolset::{Target, ToolEntry};
use crate::guard;
use crate::moment::Moment;
use crate::workspace::Access;

/// What a call is told that an interrupt kept from running.
pub(super) const NOT_STARTED: &str = "not started: the turn was interrupted";

/// A result that is an error.
pub(super) fn error(call: &ToolCall, text: impl Into<String>) -> ToolResult {
    result(call, true, vec![Part::text(text)])
}

fn result(call: &ToolCall, is_error: bool, parts: Vec<Part>) -> ToolResult {
    ToolResult {
        call_id: call.id.clone(),
        name: call.name.clone(),
        is_error,
        parts,
    }
}

/// How a call's execution ended.
pub(super) enum Ended {
    Returned(Result<ToolOutput>),
    Aborted,
    /// The turn's deadline passed.
    CutOff,
    /// The tool's own time was over.
    TimedOut(Duration),
    LeaseLost(String),
}

/// A running call's fixed facts, shared by single calls and batches.
pub(super) struct Running {
    pub(super) call: ToolCall,
    pub(super) spool: Arc<Spool>,
    pub(super) began: Instant,
    pub(super) limit: Duration,
    /// When its own time is over.
    pub(super) own: Moment,
    extension: Option<ExtensionId>,
    /// Cancelled when the call has ended.
    over: DropGuard,
}

impl Running {
    pub(super) fn new(round: &Round, call: ToolCall, entry: &ToolEntry) -> Self {
        let limit = entry
            .spec
            .timeout_ms
            .map_or(round.limits.tool_timeout, Duration::from_millis);
        let mut bounds = round.limits.output.clone();
        if let Some(folder) = &mut bounds.spill {
            folder.push(call.id.as_str());
        }
        let (journal, id) = (Arc::clone(&round.journal), call.id.clone());
        let progress = move |channel, text| journal.progress(&id, channel, text);
        let spool = Arc::new(Spool::new(bounds, Box::new(progress)));
        let own = Moment::after(limit);
        Self {
            call,
            spool,
            began: Instant::now(),
            limit,
            own,
            extension: entry.extension.clone(),
            over: round.cancel.child_token().drop_guard(),
        }
    }

    pub(super) fn context(&self, round: &Arc<Round>, access: Option<&Access>) -> ToolContext {
        let mut context = ToolContext::new(round.thread.clone(), round.turn.clone())
            .with_output(Arc::clone(&self.spool) as Arc<dyn haft_api::OutputSink>);
        let ends = round
            .deadline
            .map_or(self.own, |deadline| deadline.min(self.own));
        context.deadline = Some(ends.deadline());
        context.turn_deadline = round.deadline.map(Moment::deadline);
        if let Some(model) = &round.model {
            context = context.with_model(Arc::new(CallModel::new(
                Arc::clone(round),
                Arc::clone(model),
                self.call.id.clone(),
                self.extension.clone(),
                ends,
                self.over.token().clone(),
            )));
        }
        match access {
            Some(access) => context.with_workspace(Arc::clone(access.session())),
            None => context,
        }
    }

    /// What the model reads in the end.
    pub(super) fn result(&self, ended: Ended) -> ToolResult {
        let mut parts = self.spool.finish();
        let elapsed = self.began.elapsed();
        let failure = |parts: &mut Vec<Part>, text: String| {
            parts.push(Part::text(text));
            true
        };
        let is_error = match ended {
            Ended::Returned(Ok(output)) => {
                parts.extend(self.spool.bound(output.parts));
                output.is_error
            }
            Ended::Returned(Err(error)) => failure(&mut parts, format!("the tool failed: {error}")),
            Ended::Aborted => {
                let text = format!(
                    "aborted: the turn was interrupted after {}",
                    seconds(elapsed)
                );
                failure(&mut parts, text)
            }
            Ended::CutOff => {
                let text = format!(
                    "timed out: the turn's deadline passed after {}",
                    seconds(elapsed)
                );
                failure(&mut parts, text)
            }
            Ended::TimedOut(limit) => {
                let text = format!("timed out: the tool's limit of {} passed", seconds(limit));
                failure(&mut parts, text)
            }
            Ended::LeaseLost(reason) => {
                let text = format!(
                    "cancelled: the workspace's lease was lost ({reason}); nothing more was done"
                );
                failure(&mut parts, text)
            }
        };
        parts.retain(|part| part.as_text().is_none_or(|text| !text.trim().is_empty()));
        if parts.is_empty() {
            parts.push(Part::text("(no output)"));
        }
        result(&self.call, is_error, parts)
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

/// A task that ends with its handle.
pub(super) struct Task<T>(pub(super) JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<T> Task<T> {
    /// Cancels it and waits for its destructors, but not for ever.
    pub(super) async fn cancel(&mut self, grace: Duration) {
        self.0.abort();
        tokio::time::timeout(grace, &mut self.0).await.ok();
    }
}

/// Runs one call to its result.
///
/// # Errors
/// Only what the journal fails with.
pub(super) async fn execute(round: &Arc<Round>, planned: Planned) -> Result<ToolResult> {
    let Planned { call, entry } = planned;
    if round.cancel.is_cancelled() {
        return Ok(error(&call, NOT_STARTED));
    }
    if round.deadline.is_some_and(Moment::is_past) {
        return Ok(error(&call, "not started: the turn's deadline has passed"));
    }
    let access = match access(round, &entry).await {
        Ok(access) => access,
        Err(text) => return Ok(error(&call, text)),
    };
    round
        .journal
        .starting(&call, !entry.effects().is_read_only())
        .await?;
    let mut running = Running::new(round, call, &entry);
    let ended = match &entry.target {
        Target::Tool(tool) => {
            let context = running.context(round, access.as_ref());
            let (tool, call) = (Arc::clone(tool), running.call.clone());
            let name = entry
                .extension
                .as_ref()
                .map_or(call.name.clone(), ToString::to_string);
            let task =
                tokio::spawn(
                    async move { guard::future(&name, tool.execute(call, context)).await },
                );
            supervise(round, &running, access.as_ref(), Task(task)).await
        }
        Target::External => {
            // Whoever answers from outside may take as long as the turn has.
            running.own = Moment::after(Duration::MAX);
            let (journal, call) = (Arc::clone(&round.journal), running.call.clone());
            let task = tokio::spawn(async move { journal.answer_outside(&call).await });
            supervise(round, &running, None, Task(task)).await
        }
        Target::Source(_) => Ended::Returned(Err(Error::new(
            haft_api::ErrorKind::Unexpected,
            "a source's call came alone",
        ))),
    };
    let released = match access {
        Some(access) => access.release().await,
        None => Ok(()),
    };
    Ok(after_release(running.result(ended), &released))
}

/// A result under a lease that may not have been released: nobody can say then
/// that what it tells of is done.
pub(super) fn after_release(mut result: ToolResult, released: &Result<()>) -> ToolResult {
    if let Err(error) = released {
        result.is_error = true;
        let text = format!("the workspace's lease was not released: {error}");
        result.parts.push(Part::text(text));
    }
    result
}

/// The workspace if the tool needs one; why not, in words for the model.
pub(super) async fn access(
    round: &Round,
    entry: &ToolEntry,
) -> std::result::Result<Option<Access>, String> {
    let effects = entry.effects();
    if !effects.needs_workspace() || matches!(entry.target, Target::External) {
        return Ok(None);
    }
    let exclusive = !effects.is_read_only();
    tokio::select! {
        access = round.workspace.access(exclusive, round.deadline) => {
            access.map(Some).map_err(|error| format!("the workspace is not available: {error}"))
        }
        () = round.cancel.cancelled() => Err(NOT_STARTED.to_owned()),
        () = Moment::passed(round.deadline) => {
            Err("not started: the turn's deadline passed before the workspace was ready".to_owned())
        }
    }
}

async fn supervise(
    round: &Round,
    running: &Running,
    access: Option<&Access>,
    mut task: Task<Result<ToolOutput>>,
) -> Ended {
    let lost = async {
        match access {
            Some(access) => access.lost().await,
            None => std::future::pending().await,
        }
    };
    let ended = tokio::select! {
        biased;
        joined = &mut task.0 => return Ended::Returned(joined.unwrap_or_else(|error| {
            Err(Error::new(haft_api::ErrorKind::Unexpected, error.to_string()))
        })),
        () = round.cancel.cancelled() => Ended::Aborted,
        reason = lost => Ended::LeaseLost(reason),
        () = Moment::passed(round.deadline) => Ended::CutOff,
        () = Moment::passed(Some(running.own)) => Ended::TimedOut(running.limit),
    };
    task.cancel(round.limits.cancel_grace).await;
    ended
}
