//! The slots of a batch, and a strict eye on who fills them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use haft_api::{BatchOutcomes, CallId, Result, ToolOutput};
use tokio::sync::watch;

use crate::lock::lock;
use crate::suite::Checked;
use crate::suite::expect::ensure;

/// Takes the outcomes of one batch, and notes every wrong one.
#[derive(Default)]
pub(super) struct Board {
    calls: BTreeSet<CallId>,
    /// Slots that take nothing, as if their time were over.
    refused: BTreeSet<CallId>,
    state: Mutex<State>,
    filled: watch::Sender<usize>,
}

#[derive(Default)]
struct State {
    outcomes: BTreeMap<CallId, Result<ToolOutput>>,
    wrong: Vec<String>,
    closed: bool,
}

impl Board {
    pub(super) fn new(calls: impl IntoIterator<Item = CallId>) -> Self {
        Self {
            calls: calls.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Lets this slot take nothing.
    pub(super) fn refusing(mut self, call: &CallId) -> Self {
        self.refused.insert(call.clone());
        self
    }

    /// Everything from now on is too late, and wrong.
    pub(super) fn close(&self) {
        lock(&self.state).closed = true;
    }

    /// Waits until so many slots are filled.
    pub(super) async fn filled(&self, count: usize) {
        let mut filled = self.filled.subscribe();
        // Can't fail: the sender lives as long as `self`.
        filled.wait_for(|filled| *filled >= count).await.ok();
    }

    /// The outcomes so far; from now on there are none.
    pub(super) fn take(&self) -> BTreeMap<CallId, Result<ToolOutput>> {
        std::mem::take(&mut lock(&self.state).outcomes)
    }

    /// Breaks the promise if anything was filled that shouldn't have been.
    pub(super) fn check(&self) -> Checked {
        let wrong = &lock(&self.state).wrong;
        ensure!(
            wrong.is_empty(),
            "expected one outcome per call, got also {}",
            wrong.join(", ")
        );
        Ok(())
    }
}

impl BatchOutcomes for Board {
    fn complete(&self, call: &CallId, outcome: Result<ToolOutput>) -> bool {
        let mut state = lock(&self.state);
        let problem = if state.closed {
            "an outcome after the end for"
        } else if !self.calls.contains(call) {
            "an outcome for a call that isn't in the batch,"
        } else if self.refused.contains(call) {
            return false;
        } else if state.outcomes.contains_key(call) {
            "a second outcome for"
        } else {
            state.outcomes.insert(call.clone(), outcome);
            self.filled.send_replace(state.outcomes.len());
            return true;
        };
        state.wrong.push(format!("{problem} {call}"));
        false
    }
}
