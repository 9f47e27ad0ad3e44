//! A turn: from a user's message to its one end.

mod assemble;
mod compact;
mod drive;
mod model;
mod start;
mod stream;
mod summary;

use std::sync::Mutex;
use std::time::Duration;

use haft_api::{ErrorData, ExtensionId, ModelOptions, Part, PolicyMode, Result, TurnId, Usage};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::moment::Moment;
use crate::thread::{Thread, TurnStatus, lock};

/// What a turn is started with.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TurnRequest {
    /// What the user says; not empty.
    pub input: Vec<Part>,
    /// The engine; `None` is the runtime's default one.
    pub engine: Option<ExtensionId>,
    /// The model; `None` is the engine's default one.
    pub model: Option<String>,
    /// What the model is told before everything else.
    pub instructions: String,
    /// What may happen without asking.
    pub mode: PolicyMode,
    /// How to go about it.
    pub options: ModelOptions,
    /// When the turn has to end. Running tools are cut off then; the model gets
    /// up to [`ANSWER_RESERVE`](haft_api::ANSWER_RESERVE) more for its answer.
    pub time_limit: Option<Duration>,
    /// A JSON schema that the answer must follow, where the model can do that.
    pub output_schema: Option<String>,
}

impl TurnRequest {
    /// A turn on this text, with every default.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(vec![Part::text(text)])
    }

    /// A turn on this input, with every default.
    pub fn new(input: Vec<Part>) -> Self {
        Self {
            input,
            engine: None,
            model: None,
            instructions: String::new(),
            mode: PolicyMode::default(),
            options: ModelOptions::default(),
            time_limit: None,
            output_schema: None,
        }
    }

    /// Chooses the engine.
    #[must_use]
    pub fn engine(mut self, engine: ExtensionId) -> Self {
        self.engine = Some(engine);
        self
    }

    /// Chooses the model.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Sets what may happen without asking.
    #[must_use]
    pub fn mode(mut self, mode: PolicyMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets what the model is told before everything else.
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = instructions.into();
        self
    }

    /// Limits the turn's time.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }
}

/// How a turn ended. What it says is in the store already, except where
/// `error` says otherwise.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TurnEnd {
    /// How.
    pub status: TurnStatus,
    /// Why it failed.
    pub error: Option<ErrorData>,
    /// Tokens of all its rounds.
    pub usage: Usage,
    /// The model's last message.
    pub answer: String,
}

/// The turn that a thread is busy with.
pub(crate) struct ActiveTurn {
    pub(crate) id: TurnId,
    pub(crate) cancel: CancellationToken,
    /// What the user said meanwhile; `None` once the turn takes no more.
    steering: Mutex<Option<Vec<Vec<Part>>>>,
}

impl ActiveTurn {
    fn new(id: TurnId) -> Self {
        let (cancel, steering) = (CancellationToken::new(), Mutex::new(Some(Vec::new())));
        Self {
            id,
            cancel,
            steering,
        }
    }

    fn steer(&self, input: Vec<Part>) -> bool {
        lock(&self.steering)
            .as_mut()
            .map(|said| said.push(input))
            .is_some()
    }

    fn take_steering(&self) -> Vec<Vec<Part>> {
        lock(&self.steering)
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    fn close_steering(&self) -> Vec<Vec<Part>> {
        lock(&self.steering).take().unwrap_or_default()
    }

    /// Takes no more from now on, unless something waits to be read.
    fn close_steering_if_empty(&self) -> bool {
        let mut steering = lock(&self.steering);
        let empty = steering.as_ref().is_none_or(Vec::is_empty);
        if empty {
            *steering = None;
        }
        empty
    }
}

/// A turn under way. Dropping it doesn't end the turn.
#[derive(Clone)]
pub struct Turn {
    thread: Thread,
    id: TurnId,
    cancel: CancellationToken,
    end: watch::Receiver<Option<TurnEnd>>,
}

impl Turn {
    /// The turn's id.
    pub fn id(&self) -> &TurnId {
        &self.id
    }

    /// The thread it runs on.
    pub fn thread(&self) -> &Thread {
        &self.thread
    }

    /// Asks the turn to end: the engine's stream is dropped, running tools are
    /// cancelled, calls that wait get results that say so. Returns at once; the
    /// turn ends within the runtime's grace for cancelled tools.
    pub fn interrupt(&self) {
        self.cancel.cancel();
    }

    /// Waits for the turn's end. May be called by many, and late.
    pub async fn ended(&self) -> TurnEnd {
        let mut end = self.end.clone();
        let ended = end.wait_for(Option::is_some).await.map(|end| end.clone());
        ended.ok().flatten().unwrap_or_else(|| TurnEnd {
            status: TurnStatus::Interrupted,
            error: None,
            usage: Usage::default(),
            answer: String::new(),
        })
    }
}

impl std::fmt::Debug for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Turn").field(&self.id).finish()
    }
}

impl Thread {
    /// Interrupts the turn under way; false if there is none.
    pub fn interrupt(&self) -> bool {
        lock(&self.inner.active)
            .as_ref()
            .map(|turn| turn.cancel.cancel())
            .is_some()
    }

    /// Says something to the model while a turn is under way: it reads it
    /// before its next round, or finds it in the history if there is no next one.
    /// False, and nothing happens, if no turn takes it.
    pub fn steer(&self, input: Vec<Part>) -> bool {
        lock(&self.inner.active)
            .as_ref()
            .is_some_and(|turn| turn.steer(input))
    }
}

/// The points in time of a turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// When running tools are cut off.
    pub(crate) tools: Option<Moment>,
    /// When everything ends.
    pub(crate) end: Option<Moment>,
}

impl Times {
    /// The reserve for the final answer is the documented one, but no longer
    /// than the turn itself was meant to take.
    fn new(limit: Option<Duration>) -> Self {
        let reserve = limit.map(|limit| limit.max(MIN_RESERVE).min(haft_api::ANSWER_RESERVE));
        Self {
            tools: limit.map(Moment::after),
            end: limit
                .zip(reserve)
                .map(|(limit, reserve)| Moment::after(limit.saturating_add(reserve))),
        }
    }
}

/// What stands in a history in place of what a summary is of.
pub(crate) fn summary_message(notes: &str) -> String {
    summary::message(notes, None)
}

/// The shortest reserve for a final answer.
const MIN_RESERVE: Duration = Duration::from_secs(5);

/// A fresh id for a turn.
pub(crate) fn turn_id() -> Result<TurnId> {
    TurnId::new(uuid::Uuid::now_v7().to_string())
}
