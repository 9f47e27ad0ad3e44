//! An engine that a test programs.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};

use futures::stream;
use haft_api::{
    EngineEvent, EngineRequest, EngineStream, Error, ErrorKind, ExtensionId, FinishReason,
    InferenceEngine, ModelInfo, Readiness, Result, async_trait,
};
use tokio::sync::watch;

use crate::fixture::extension_id;
use crate::history::validate_history;
use crate::lock::lock;

mod prefix;
mod round;

#[cfg(test)]
mod tests;

pub use prefix::check_prefixes;
pub use round::{Round, Step, Wait};

type Answer = dyn Fn(&EngineRequest) -> Round + Send + Sync;

/// How many rounds an engine is and was busy with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RoundCounts {
    /// Requests that came in.
    pub requested: usize,
    /// Rounds that are neither over nor dropped.
    pub active: usize,
    /// Rounds that were dropped before their end: cancelled by the caller.
    pub cancelled: usize,
}

/// An engine that plays the rounds a test queues, and keeps every request.
///
/// When the queue is empty, each further round is the text `done`; see
/// [`afterwards`](Self::afterwards). A request whose history no provider would
/// take is refused with [`ErrorKind::InvalidInput`], as a provider would refuse
/// it; [`lenient`](Self::lenient) turns that off.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> haft_api::Result<()> {
/// use futures::StreamExt;
/// use haft_api::{InferenceEngine, Item};
/// use haft_testkit::{Round, ScriptedEngine, fixture};
///
/// let engine = ScriptedEngine::new()
///     .round(Round::new().text("Let me see. ").call("c1", "add", r#"{"a":1,"b":2}"#))
///     .round(Round::new().text("3"));
///
/// let request = fixture::engine_request([Item::user("1 + 2?")]);
/// let events: Vec<_> = engine.stream_turn(request).await?.collect().await;
/// assert_eq!(events.len(), 3, "text, call, finished");
/// assert_eq!(engine.requests()[0].history.items().len(), 1);
/// # Ok(())
/// # }
/// ```
pub struct ScriptedEngine {
    id: ExtensionId,
    models: Vec<ModelInfo>,
    readiness: Readiness,
    strict: bool,
    queue: Mutex<VecDeque<Round>>,
    answer: Box<Answer>,
    requests: Mutex<Vec<EngineRequest>>,
    counts: Arc<watch::Sender<RoundCounts>>,
}

impl ScriptedEngine {
    /// An engine `scripted` with one model, `scripted-model`, and no rounds.
    pub fn new() -> Self {
        Self {
            id: extension_id("scripted"),
            models: vec![ModelInfo::new("scripted-model")],
            readiness: Readiness::Ready,
            strict: true,
            queue: Mutex::default(),
            answer: Box::new(|_| Round::new().text("done")),
            requests: Mutex::default(),
            counts: Arc::new(watch::Sender::default()),
        }
    }

    /// Gives it another id.
    ///
    /// # Panics
    /// If the text isn't an id.
    #[must_use]
    pub fn with_id(mut self, id: &str) -> Self {
        self.id = extension_id(id);
        self
    }

    /// Replaces its models; the first is the default.
    #[must_use]
    pub fn with_models(mut self, models: impl IntoIterator<Item = ModelInfo>) -> Self {
        self.models = models.into_iter().collect();
        self
    }

    /// Sets what it says of its readiness.
    #[must_use]
    pub fn with_readiness(mut self, readiness: Readiness) -> Self {
        self.readiness = readiness;
        self
    }

    /// Takes any history, even one that no provider would.
    #[must_use]
    pub fn lenient(mut self) -> Self {
        self.strict = false;
        self
    }

    /// Queues a round.
    #[must_use]
    pub fn round(self, round: Round) -> Self {
        self.push(round);
        self
    }

    /// Queues rounds.
    #[must_use]
    pub fn rounds(self, rounds: impl IntoIterator<Item = Round>) -> Self {
        lock(&self.queue).extend(rounds);
        self
    }

    /// Plays this round whenever the queue is empty.
    #[must_use]
    pub fn afterwards(self, round: Round) -> Self {
        self.answering(move |_| round.clone())
    }

    /// Makes up a round from the request whenever the queue is empty: for tests
    /// with several threads, where requests come in any order.
    #[must_use]
    pub fn answering(
        mut self,
        answer: impl Fn(&EngineRequest) -> Round + Send + Sync + 'static,
    ) -> Self {
        self.answer = Box::new(answer);
        self
    }

    /// Queues a round while the engine is in use already.
    pub fn push(&self, round: Round) {
        lock(&self.queue).push_back(round);
    }

    /// Every request so far, in order, refused ones included.
    pub fn requests(&self) -> Vec<EngineRequest> {
        lock(&self.requests).clone()
    }

    /// The latest request.
    ///
    /// # Panics
    /// If there was none.
    pub fn last_request(&self) -> EngineRequest {
        let last = lock(&self.requests).last().cloned();
        last.expect("a test that asks for the last request has made one")
    }

    /// How many rounds were queued and not played yet.
    pub fn rounds_left(&self) -> usize {
        lock(&self.queue).len()
    }

    /// How many rounds it is and was busy with.
    pub fn counts(&self) -> RoundCounts {
        *self.counts.borrow()
    }

    /// Waits until the counts are as the test wants them: a request came, a
    /// cancellation arrived.
    pub async fn wait_until(&self, until: impl Fn(RoundCounts) -> bool) {
        let mut counts = self.counts.subscribe();
        // Can't fail: the sender lives as long as `self`.
        counts.wait_for(|counts| until(*counts)).await.ok();
    }

    fn take(&self, request: EngineRequest) -> Result<Round> {
        let refusal = if self.strict {
            validate_history(request.history.items()).err()
        } else {
            None
        };
        let round = match (&refusal, lock(&self.queue).pop_front()) {
            (None, None) => Some((self.answer)(&request)),
            (_, queued) => queued,
        };
        lock(&self.requests).push(request);
        if let Some(violations) = refusal {
            let list: Vec<_> = violations.iter().map(ToString::to_string).collect();
            return Err(Error::new(
                ErrorKind::InvalidInput,
                format!("no provider would take this history: {}", list.join("; ")),
            )
            .operation("stream_turn")
            .context("engine", &self.id));
        }
        Ok(round.unwrap_or_default())
    }
}

impl Default for ScriptedEngine {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ScriptedEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedEngine")
            .field("id", &self.id)
            .field("rounds_left", &self.rounds_left())
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

/// Counts a round as active for as long as it lives.
struct Active {
    counts: Arc<watch::Sender<RoundCounts>>,
    over: bool,
}

impl Active {
    fn new(counts: &Arc<watch::Sender<RoundCounts>>) -> Self {
        counts.send_modify(|counts| {
            counts.requested += 1;
            counts.active += 1;
        });
        Self {
            counts: Arc::clone(counts),
            over: false,
        }
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.counts.send_modify(|counts| {
            counts.active -= 1;
            counts.cancelled += usize::from(!self.over);
        });
    }
}

/// What is left of a round that is being played.
struct Playing {
    steps: VecDeque<Step>,
    calls: bool,
    active: Active,
}

impl Playing {
    /// Plays the steps before the stream.
    async fn accept(&mut self, opening: Vec<Step>) -> Result<()> {
        for step in opening {
            match step {
                Step::Wait(wait) => wait.done().await,
                Step::Error(error) => {
                    self.active.over = true;
                    return Err(error.into());
                }
                Step::Panic(message) => {
                    self.active.over = true;
                    panic!("{message}");
                }
                // `Round` lets none of these stand here.
                Step::Event(_) | Step::Finish | Step::Cut => {}
            }
        }
        Ok(())
    }

    async fn next(mut self) -> Option<(Result<EngineEvent>, Self)> {
        while let Some(step) = self.steps.pop_front() {
            // Whoever took the last step is free to stop reading.
            let last = self.steps.is_empty();
            match step {
                Step::Wait(wait) => wait.done().await,
                Step::Event(event) => {
                    self.calls |= matches!(event, EngineEvent::Call(_));
                    return Some((Ok(event), self));
                }
                Step::Finish => {
                    let reason = match self.calls {
                        true => FinishReason::ToolCalls,
                        false => FinishReason::End,
                    };
                    self.active.over = last;
                    return Some((Ok(EngineEvent::Finished { reason }), self));
                }
                Step::Error(error) => {
                    self.active.over = last;
                    return Some((Err(error.into()), self));
                }
                Step::Panic(message) => {
                    self.active.over = true;
                    panic!("{message}");
                }
                Step::Cut => break,
            }
        }
        self.active.over = true;
        None
    }
}

#[async_trait]
impl InferenceEngine for ScriptedEngine {
    fn id(&self) -> &ExtensionId {
        &self.id
    }

    async fn readiness(&self) -> Readiness {
        self.readiness.clone()
    }

    async fn models(&self) -> Result<Vec<ModelInfo>> {
        Ok(self.models.clone())
    }

    async fn stream_turn(&self, request: EngineRequest) -> Result<EngineStream> {
        let round = self.take(request);
        let mut active = Active::new(&self.counts);
        let round = round.inspect_err(|_| active.over = true)?;
        let mut playing = Playing {
            steps: round.steps.into(),
            calls: false,
            active,
        };
        playing.accept(round.opening).await?;
        Ok(Box::pin(stream::unfold(playing, Playing::next)))
    }
}
