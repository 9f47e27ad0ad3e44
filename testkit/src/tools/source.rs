//! A tool source whose outcomes a test controls.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, join_all};
use haft_api::{
    BatchCall, BatchOutcomes, CallId, Effects, Error, ErrorData, ErrorKind, ExtensionId, Result,
    ToolCall, ToolContext, ToolOutput, ToolSource, ToolSpec, async_trait,
};

use super::track::Executions;
use crate::fixture::{call_id, extension_id, tool_name};
use crate::gate::Gate;
use crate::lock::lock;

type Function =
    dyn Fn(ToolCall, ToolContext) -> BoxFuture<'static, Result<ToolOutput>> + Send + Sync;

/// What becomes of a call to a tool of a [`BatchSource`].
#[derive(Clone)]
#[non_exhaustive]
pub enum Outcome {
    /// Its slot is filled with this.
    Output(ToolOutput),
    /// Its slot is filled with this error.
    Error(ErrorData),
    /// Its slot is filled with what the function says.
    Function(Arc<Function>),
    /// First it takes this long.
    After(Duration, Box<Outcome>),
    /// First it waits at a gate.
    At(Gate, Box<Outcome>),
    /// Its slot is never filled; the batch ends all the same.
    Dropped,
    /// It never ends, and neither does the batch.
    Stalled,
    /// Its slot is filled with one thing and then with another.
    Twice(ToolOutput, ToolOutput),
    /// Its slot is filled this long after the batch has ended.
    Late(Duration, ToolOutput),
    /// A slot that isn't in the batch is filled instead of its own.
    WrongId(String),
    /// The batch panics.
    Panic(String),
    /// The batch as a whole fails at once.
    BatchError(ErrorData),
}

impl Outcome {
    /// A success with this text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Output(ToolOutput::text(text))
    }

    /// An error in its own slot.
    pub fn error(error: &Error) -> Self {
        Self::Error(error.to_data())
    }

    /// An error of the batch as a whole.
    pub fn batch_error(error: &Error) -> Self {
        Self::BatchError(error.to_data())
    }

    /// What the function says.
    pub fn function<F, R>(function: F) -> Self
    where
        F: Fn(ToolCall, ToolContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<ToolOutput>> + Send + 'static,
    {
        Self::Function(Arc::new(move |call, context| {
            Box::pin(function(call, context))
        }))
    }

    /// The same, this much later.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        Self::After(time, Box::new(self))
    }

    /// The same, once the gate is open.
    #[must_use]
    pub fn at(self, gate: &Gate) -> Self {
        Self::At(gate.clone(), Box::new(self))
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Output(output) => f.debug_tuple("Output").field(output).finish(),
            Self::Error(error) => f.debug_tuple("Error").field(error).finish(),
            Self::Function(_) => f.write_str("Function"),
            Self::After(time, then) => f.debug_tuple("After").field(time).field(then).finish(),
            Self::At(gate, then) => f.debug_tuple("At").field(gate).field(then).finish(),
            Self::Dropped => f.write_str("Dropped"),
            Self::Stalled => f.write_str("Stalled"),
            Self::Twice(one, two) => f.debug_tuple("Twice").field(one).field(two).finish(),
            Self::Late(time, output) => f.debug_tuple("Late").field(time).field(output).finish(),
            Self::WrongId(id) => f.debug_tuple("WrongId").field(id).finish(),
            Self::Panic(message) => f.debug_tuple("Panic").field(message).finish(),
            Self::BatchError(error) => f.debug_tuple("BatchError").field(error).finish(),
        }
    }
}

/// A tool source with one outcome per tool, which may be any of the ways in
/// which a source goes wrong. The calls of a batch run side by side.
///
/// ```
/// use haft_testkit::{BatchSource, Outcome};
///
/// let source = BatchSource::new("search")
///     .tool("find", Outcome::text("found it"))
///     .tool("lose", Outcome::Dropped);
/// ```
#[derive(Debug)]
pub struct BatchSource {
    id: ExtensionId,
    tools: BTreeMap<String, (ToolSpec, Outcome)>,
    failing_list: Mutex<Option<ErrorData>>,
    executions: Executions,
    batches: Mutex<Vec<Vec<CallId>>>,
    answers: Arc<Mutex<Vec<(CallId, bool)>>>,
}

impl BatchSource {
    /// A source of this id without tools.
    ///
    /// # Panics
    /// If the text isn't an id.
    pub fn new(id: &str) -> Self {
        Self {
            id: extension_id(id),
            tools: BTreeMap::new(),
            failing_list: Mutex::default(),
            executions: Executions::new(),
            batches: Mutex::default(),
            answers: Arc::default(),
        }
    }

    /// Adds a pure tool that takes any arguments.
    ///
    /// # Panics
    /// If the text isn't a tool's name.
    #[must_use]
    pub fn tool(self, name: &str, outcome: Outcome) -> Self {
        let spec = ToolSpec::new(tool_name(name), format!("The test tool {name}."));
        self.tool_with(spec.effects(Effects::PURE), outcome)
    }

    /// Adds a tool with this spec.
    #[must_use]
    pub fn tool_with(mut self, spec: ToolSpec, outcome: Outcome) -> Self {
        let name = spec.name.as_str().to_owned();
        self.tools.insert(name, (spec, outcome));
        self
    }

    /// Makes the list of tools fail from now on, or work again.
    pub fn fail_list(&self, error: Option<&Error>) {
        *lock(&self.failing_list) = error.map(Error::to_data);
    }

    /// The ids of each batch's calls.
    pub fn batches(&self) -> Vec<Vec<CallId>> {
        lock(&self.batches).clone()
    }

    /// Every attempt to fill a slot, in order, and whether it was accepted.
    pub fn answers(&self) -> Vec<(CallId, bool)> {
        lock(&self.answers).clone()
    }

    /// What was called and what became of it.
    pub fn executions(&self) -> Executions {
        self.executions.clone()
    }
}

/// Fills slots and keeps note of it.
#[derive(Clone)]
struct Slots {
    outcomes: Arc<dyn BatchOutcomes>,
    answers: Arc<Mutex<Vec<(CallId, bool)>>>,
}

impl Slots {
    fn fill(&self, call: &CallId, outcome: Result<ToolOutput>) {
        let accepted = self.outcomes.complete(call, outcome);
        lock(&self.answers).push((call.clone(), accepted));
    }
}

/// Plays one call's outcome. An error is the batch's.
fn play(
    outcome: Outcome,
    call: ToolCall,
    context: ToolContext,
    slots: Slots,
) -> BoxFuture<'static, Result<()>> {
    async move {
        match outcome {
            Outcome::Output(output) => slots.fill(&call.id, Ok(output)),
            Outcome::Error(error) => slots.fill(&call.id, Err(error.into())),
            Outcome::Function(function) => {
                let id = call.id.clone();
                slots.fill(&id, function(call, context).await);
            }
            Outcome::After(time, then) => {
                tokio::time::sleep(time).await;
                play(*then, call, context, slots).await?;
            }
            Outcome::At(gate, then) => {
                gate.pass().await;
                play(*then, call, context, slots).await?;
            }
            Outcome::Dropped => {}
            Outcome::Stalled => std::future::pending().await,
            Outcome::Twice(one, two) => {
                slots.fill(&call.id, Ok(one));
                slots.fill(&call.id, Ok(two));
            }
            Outcome::Late(time, output) => {
                tokio::spawn(async move {
                    tokio::time::sleep(time).await;
                    slots.fill(&call.id, Ok(output));
                });
            }
            Outcome::WrongId(id) => slots.fill(&call_id(&id), Ok(ToolOutput::text("astray"))),
            Outcome::Panic(message) => panic!("{message}"),
            Outcome::BatchError(error) => return Err(error.into()),
        }
        Ok(())
    }
    .boxed()
}

#[async_trait]
impl ToolSource for BatchSource {
    fn id(&self) -> &ExtensionId {
        &self.id
    }

    async fn tools(&self) -> Result<Vec<ToolSpec>> {
        match &*lock(&self.failing_list) {
            Some(error) => Err(error.clone().into()),
            None => Ok(self.tools.values().map(|(spec, _)| spec.clone()).collect()),
        }
    }

    async fn call_batch(
        &self,
        calls: Vec<BatchCall>,
        outcomes: Arc<dyn BatchOutcomes>,
    ) -> Result<()> {
        let ids = calls.iter().map(|call| call.call.id.clone()).collect();
        lock(&self.batches).push(ids);
        let slots = Slots {
            outcomes,
            answers: Arc::clone(&self.answers),
        };
        let plays = calls.into_iter().map(|BatchCall { call, context }| {
            let outcome = match self.tools.get(&call.name) {
                Some((_, outcome)) => outcome.clone(),
                None => Outcome::error(
                    &Error::new(ErrorKind::NotFound, "this source has no such tool")
                        .context("source", &self.id)
                        .context("tool", &call.name),
                ),
            };
            let running = self.executions.start(&call);
            let played = play(outcome, call, context, slots.clone());
            async move {
                let outcome = played.await;
                running.finish();
                outcome
            }
        });
        join_all(plays).await.into_iter().collect()
    }
}
