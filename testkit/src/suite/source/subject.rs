//! What a case has to do with: a source, and the way through a batch.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use haft_api::{BatchCall, BatchOutcomes, CallId, Result, ToolOutput, ToolSource, ToolSpec};

use super::SourceFixture;
use super::board::Board;
use crate::fixture::tool_call;
use crate::suite::Unmet;
use crate::suite::expect::{ensure, ok};
use crate::suite::outcome::{describe, failed};

/// How long a batch may take that has no reason to take long.
const SOON: Duration = Duration::from_secs(30);

/// What a batch's calls came to, in call order.
pub(super) type Outcomes = Vec<Result<ToolOutput>>;

/// A call: a tool's name, and arguments.
pub(super) type Call<'a> = (&'a str, &'a str);

/// The fixture of one case.
pub(super) struct Subject {
    pub(super) fixture: SourceFixture,
}

impl Subject {
    pub(super) fn new(fixture: SourceFixture) -> Self {
        Self { fixture }
    }

    pub(super) fn source(&self) -> &Arc<dyn ToolSource> {
        &self.fixture.source
    }

    pub(super) async fn tools(&self) -> Result<Vec<ToolSpec>, Unmet> {
        ok("listing the tools", self.source().tools().await)
    }

    /// The calls that succeed; a source can't be tested without one.
    pub(super) fn examples(&self) -> Result<Vec<Call<'_>>, Unmet> {
        let examples: Vec<_> = self
            .fixture
            .examples
            .iter()
            .map(|(a, b)| (&**a, &**b))
            .collect();
        ensure!(
            !examples.is_empty(),
            "expected the fixture to have an example, got none"
        );
        Ok(examples)
    }

    /// Makes a batch of calls with ids `call-0`, `call-1`, ….
    pub(super) fn batch(&self, calls: &[Call<'_>]) -> Vec<BatchCall> {
        let calls = calls.iter().enumerate();
        calls
            .map(|(number, (name, arguments))| BatchCall {
                call: tool_call(&format!("call-{number}"), name, arguments),
                context: (self.fixture.context)(),
            })
            .collect()
    }

    /// Runs a batch, which must end well and fill every slot once.
    pub(super) async fn run(&self, calls: &[Call<'_>]) -> Result<Outcomes, Unmet> {
        let batch = self.batch(calls);
        let ids = ids(&batch);
        let board = Arc::new(Board::new(ids.iter().cloned()));
        self.call(batch, &board).await?;
        board.check()?;
        let mut outcomes: BTreeMap<_, _> = board.take();
        let mut in_order = Vec::new();
        for (id, (name, arguments)) in ids.iter().zip(calls) {
            let outcome = outcomes.remove(id).ok_or_else(|| {
                format!("expected an outcome of {name}({arguments}), got none when the batch ended")
            })?;
            in_order.push(outcome);
        }
        Ok(in_order)
    }

    /// Runs a batch to its own end, which must be a good one.
    pub(super) async fn call(
        &self,
        batch: Vec<BatchCall>,
        board: &Arc<Board>,
    ) -> Result<(), Unmet> {
        let outcomes = Arc::clone(board) as Arc<dyn BatchOutcomes>;
        let run = AssertUnwindSafe(self.source().call_batch(batch, outcomes)).catch_unwind();
        match tokio::time::timeout(SOON, run).await {
            Ok(Ok(ended)) => ok("a batch", ended),
            Ok(Err(panic)) => {
                let message = haft_api::panic_message(&*panic);
                Err(format!("expected a batch to end, got: {message}").into())
            }
            Err(_) => Err(format!("expected a batch to end within {SOON:?}, got nothing").into()),
        }
    }

    /// Runs a batch of calls which must all succeed.
    pub(super) async fn all_succeed(&self, calls: &[Call<'_>]) -> Result<Outcomes, Unmet> {
        let outcomes = self.run(calls).await?;
        for (outcome, (name, arguments)) in outcomes.iter().zip(calls) {
            ensure!(
                !failed(outcome),
                "expected {name}({arguments}) to succeed, got {}",
                describe(outcome)
            );
        }
        Ok(outcomes)
    }

    /// Runs a call that must fail between examples that must succeed.
    pub(super) async fn fails_alone(&self, call: Call<'_>) -> Result<(), Unmet> {
        let examples = self.examples()?;
        let mut calls = examples.clone();
        calls.push(call);
        calls.extend(&examples);
        let outcomes = self.run(&calls).await?;
        for (place, (outcome, (name, arguments))) in outcomes.iter().zip(&calls).enumerate() {
            let wrong = place == examples.len();
            ensure!(
                failed(outcome) == wrong,
                "expected {name}({arguments}) to {}, got {}",
                if wrong {
                    "fail"
                } else {
                    "succeed beside one that fails"
                },
                describe(outcome)
            );
        }
        Ok(())
    }
}

/// The ids of a batch.
pub(super) fn ids(batch: &[BatchCall]) -> Vec<CallId> {
    batch.iter().map(|call| call.call.id.clone()).collect()
}
