//! Tools without a model: listed, and run as a round's calls would be.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft_api::{
    CallId, EngineToolCall, Error, ErrorKind, OutputChannel, PolicyMode, Result, ThreadId,
    ToolCall, ToolOutput, ToolResult, ToolSpec, TurnId, async_trait,
};
use tokio_util::sync::CancellationToken;

use super::Runtime;
use crate::dispatch::{self, Journal};
use crate::moment::Moment;
use crate::thread::history::ThreadHistory;
use crate::thread::lock;

/// How tools are run without a thread.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolRun {
    /// The local folder they work in; absolute.
    pub workspace: Option<String>,
    /// What may happen. There is nobody to ask: what would be asked is denied.
    pub mode: PolicyMode,
    /// When running calls are cut off.
    pub time_limit: Option<Duration>,
    /// Cancels the run.
    pub cancel: CancellationToken,
}

impl Default for ToolRun {
    fn default() -> Self {
        Self {
            workspace: None,
            mode: PolicyMode::default(),
            time_limit: None,
            cancel: CancellationToken::new(),
        }
    }
}

impl ToolRun {
    /// A run in this folder.
    pub fn workspace(mut self, workspace: impl Into<String>) -> Self {
        self.workspace = Some(workspace.into());
        self
    }

    /// Sets what may happen.
    #[must_use]
    pub fn mode(mut self, mode: PolicyMode) -> Self {
        self.mode = mode;
        self
    }

    /// Limits the time.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }
}

impl Runtime {
    /// The tools that a turn would have now, by name, and what kept others out.
    pub async fn tools(&self) -> (Vec<ToolSpec>, Vec<Error>) {
        let (tools, problems) = self.shared.turn_tools().await;
        (tools.specs().to_vec(), problems)
    }

    /// Runs calls in one round, as a model's parallel calls would be, without a
    /// thread. One result for each call, in call order.
    ///
    /// # Errors
    /// Only if the round itself can't be run; a call's own failure is its
    /// result.
    pub async fn run_tools(
        &self,
        calls: Vec<EngineToolCall>,
        run: ToolRun,
    ) -> Result<Vec<ToolResult>> {
        let thread = ThreadId::new(uuid::Uuid::now_v7().to_string())?;
        let (tools, _) = self.shared.turn_tools().await;
        let calls = ThreadHistory::new().admit(calls);
        let kept = Arc::new(Kept::default());
        let place = self.shared.local_place(&thread, run.workspace);
        let workspace = Arc::new(self.shared.workspace(place, None));
        let round = dispatch::Round {
            turn: TurnId::new(thread.as_str())?,
            mode: run.mode,
            policies: self.shared.policies(),
            tools: Arc::new(tools),
            workspace: Arc::clone(&workspace),
            journal: Arc::clone(&kept) as Arc<dyn Journal>,
            cancel: run.cancel,
            deadline: run.time_limit.map(Moment::after),
            limits: self.shared.limits(&thread),
            model: None,
            thread,
        };
        dispatch::run(round, calls.clone()).await?;
        workspace.close().await?;
        let mut results = std::mem::take(&mut *lock(&kept.0));
        let mut in_order = Vec::with_capacity(calls.len());
        for call in &calls {
            let index = results.iter().position(|result| result.call_id == call.id);
            let index = index.ok_or_else(|| {
                Error::new(ErrorKind::Unexpected, "a call has no result").context("call", &call.id)
            })?;
            in_order.push(results.swap_remove(index));
        }
        Ok(in_order)
    }
}

/// Keeps results in memory.
#[derive(Default)]
struct Kept(Mutex<Vec<ToolResult>>);

#[async_trait]
impl Journal for Kept {
    async fn starting(&self, _: &ToolCall, _: bool) -> Result<()> {
        Ok(())
    }

    async fn ended(&self, results: Vec<ToolResult>) -> Result<()> {
        lock(&self.0).extend(results);
        Ok(())
    }

    fn progress(&self, _: &CallId, _: OutputChannel, _: String) {}

    async fn ask(&self, _: &ToolCall, _: String) -> Result<bool> {
        Ok(false)
    }

    async fn answer_outside(&self, call: &ToolCall) -> Result<ToolOutput> {
        let text = format!(
            "`{}` is answered from outside, and nobody is there",
            call.name
        );
        Ok(ToolOutput::error(text))
    }
}
