//! What a test tool was called with, and what became of it.

use std::sync::{Arc, Mutex};

use haft_api::ToolCall;
use tokio::sync::watch;

use crate::lock::lock;

/// How many executions there were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecutionCounts {
    /// Executions that began.
    pub started: usize,
    /// Executions that ended, well or not, panics included.
    pub finished: usize,
    /// Executions that were dropped before their end.
    pub cancelled: usize,
    /// The most that ran at one time.
    pub most_at_once: usize,
}

impl ExecutionCounts {
    /// Executions that go on now.
    pub fn running(&self) -> usize {
        self.started - self.finished - self.cancelled
    }
}

/// Keeps what a test tool was called with, and what became of it. Clones are
/// the same record.
#[derive(Debug, Clone, Default)]
pub struct Executions(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    calls: Mutex<Vec<ToolCall>>,
    counts: watch::Sender<ExecutionCounts>,
}

impl Executions {
    /// Nothing was called yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Every call, in the order in which they began.
    pub fn calls(&self) -> Vec<ToolCall> {
        lock(&self.0.calls).clone()
    }

    /// The texts of every call's arguments, in the order in which they began.
    pub fn arguments(&self) -> Vec<String> {
        let text = |call: &ToolCall| call.arguments.get().to_owned();
        lock(&self.0.calls).iter().map(text).collect()
    }

    /// How many there were.
    pub fn counts(&self) -> ExecutionCounts {
        *self.0.counts.borrow()
    }

    /// Waits until the counts are as the test wants them.
    pub async fn wait_until(&self, until: impl Fn(ExecutionCounts) -> bool) {
        let mut counts = self.0.counts.subscribe();
        // Can't fail: the sender lives as long as `self`.
        counts.wait_for(|counts| until(*counts)).await.ok();
    }

    /// Counts an execution as running until the guard is dropped.
    pub(super) fn start(&self, call: &ToolCall) -> Running {
        lock(&self.0.calls).push(call.clone());
        self.0.counts.send_modify(|counts| {
            counts.started += 1;
            counts.most_at_once = counts.most_at_once.max(counts.running());
        });
        Running {
            executions: self.clone(),
            finished: false,
        }
    }
}

/// One execution.
pub(super) struct Running {
    executions: Executions,
    finished: bool,
}

impl Running {
    pub(super) fn finish(mut self) {
        self.finished = true;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A panic ends an execution as well; it isn't the caller who gave up.
        let finished = self.finished || std::thread::panicking();
        self.executions.0.counts.send_modify(|counts| {
            if finished {
                counts.finished += 1;
            } else {
                counts.cancelled += 1;
            }
        });
    }
}
