//! Models: what streams the answer to a history.

use std::any::Any;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_core::Stream;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::id::{ExtensionId, ThreadId, TurnId};
use crate::item::{Item, ProviderState};
use crate::tool::ToolSpec;

/// A stream of what the model says, until it ends or fails.
pub type EngineStream = Pin<Box<dyn Stream<Item = Result<EngineEvent>> + Send>>;

/// Turns a history into the next piece of the conversation.
///
/// # For implementers
/// - One [`stream_turn`](Self::stream_turn) is one *round*: one model call.
///   The engine runs no tools and keeps no conversation; the request has all.
/// - The stream ends with exactly one [`EngineEvent::Finished`]. A stream that
///   ends without it, or with an `Err`, is taken as broken off: the runtime
///   runs none of its calls.
/// - Tool calls are given only when they are whole, at the end of the stream
///   at the latest; [`EngineEvent::CallDelta`] is for display alone.
/// - Dropping the stream (or the future) cancels: connections close, nothing
///   goes on in the background.
/// - Retries, timeouts and rate limits are layers around an engine; an engine
///   itself reports what happened with the right
///   [`ErrorStatus`](crate::ErrorStatus) and returns.
/// - The same request must be sent as the same bytes, and a longer history
///   must extend a shorter one's bytes: providers' prompt caches live on it.
///
/// ```
/// use haft_api::*;
///
/// /// Says back what the user said last.
/// struct Echo(ExtensionId);
///
/// #[async_trait]
/// impl InferenceEngine for Echo {
///     fn id(&self) -> &ExtensionId {
///         &self.0
///     }
///
///     async fn models(&self) -> Result<Vec<ModelInfo>> {
///         Ok(vec![ModelInfo::new("echo")])
///     }
///
///     async fn stream_turn(&self, request: EngineRequest) -> Result<EngineStream> {
///         let said = request.history.items().iter().rev().find_map(|item| match &**item {
///             Item::UserMessage { parts } => Some(join_text(parts)),
///             _ => None,
///         });
///         Ok(engine_stream([
///             EngineEvent::TextDelta { text: said.unwrap_or_default() },
///             EngineEvent::Finished { reason: FinishReason::End },
///         ]))
///     }
/// }
/// ```
#[async_trait]
#[diagnostic::on_unimplemented(
    message = "`{Self}` isn't an inference engine",
    note = "implement `haft_api::InferenceEngine` (with `#[haft_api::async_trait]`) and hand it to `ExtensionRegistryBuilder::engine`"
)]
pub trait InferenceEngine: Send + Sync + 'static {
    /// The engine's id, as users write it (`--engine ID`). Constant.
    fn id(&self) -> &ExtensionId;

    /// Whether a turn could run now, and if not, why and what to do. Must not
    /// take longer than about a second and must not download anything.
    async fn readiness(&self) -> Readiness {
        Readiness::Ready
    }

    /// The models it can run, the default one first.
    ///
    /// # Errors
    /// Where the list has to be asked for and can't be had.
    async fn models(&self) -> Result<Vec<ModelInfo>>;

    /// What is known of a model, `None` for the default one. A name that isn't
    /// in [`models`](Self::models) may still be accepted; the default looks the
    /// name up there and otherwise answers with nothing but the name.
    ///
    /// # Errors
    /// If the engine knows that it can't run this model.
    async fn model(&self, name: Option<&str>) -> Result<ModelInfo> {
        let models = self.models().await?;
        match name {
            None => models.into_iter().next().ok_or_else(|| {
                Error::new(
                    crate::ErrorKind::NotFound,
                    "the engine has no default model",
                )
                .context("engine", self.id())
            }),
            Some(name) => Ok(models
                .into_iter()
                .find(|model| model.name == name)
                .unwrap_or_else(|| ModelInfo::new(name))),
        }
    }

    /// Starts one round and returns its stream once the model has accepted it.
    ///
    /// # Errors
    /// What happened before anything was shown: refused, unreachable, too long.
    async fn stream_turn(&self, request: EngineRequest) -> Result<EngineStream>;
}

/// Whether something could be used right now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Readiness {
    /// It could.
    Ready,
    /// It could after a step that takes a while, such as a download, which the
    /// thing itself does when it is used.
    NeedsSetup {
        /// What has to happen, and how much of it.
        reason: String,
        /// Bytes that would be downloaded, if known.
        download_bytes: Option<u64>,
    },
    /// It couldn't.
    Unavailable {
        /// Why, and what to do.
        reason: String,
    },
}

/// What is known of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelInfo {
    /// The name, as it is asked for.
    pub name: String,
    /// Tokens that fit into a request and its answer, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// Whether it can call tools.
    pub tools: bool,
    /// Whether it can see images.
    pub images: bool,
    /// A word for the user when this model is about to run, for instance that
    /// it is a tiny one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl ModelInfo {
    /// A model that can call tools; everything else is unknown.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            context_tokens: None,
            tools: true,
            images: false,
            hint: None,
        }
    }
}

/// The items a request is built from: cheap to clone, only ever extended.
///
/// Two histories with the same [`generation`](Self::generation) agree on all
/// items that both have, so an engine may keep what it made of the first `n`
/// and go on from there. Compaction and forks begin a new generation.
#[derive(Clone)]
pub struct History {
    generation: u64,
    items: Arc<Vec<Arc<Item>>>,
}

impl History {
    /// A history of these items. `generation` must differ from that of every
    /// other history that isn't a prefix or an extension of this one.
    pub fn new(generation: u64, items: Vec<Arc<Item>>) -> Self {
        Self {
            generation,
            items: Arc::new(items),
        }
    }

    /// See the type's description.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The items, oldest first. Notices are among them; models don't see those.
    pub fn items(&self) -> &[Arc<Item>] {
        &self.items
    }

    /// Adds an item at the end. Cheap unless a clone is alive.
    pub fn push(&mut self, item: Arc<Item>) {
        Arc::make_mut(&mut self.items).push(item);
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("History")
            .field("generation", &self.generation)
            .field("items", &self.items.len())
            .finish()
    }
}

/// A place where an engine may keep what it made of a thread's history, so that
/// a round costs only its new items. One per thread and engine; the runtime may
/// drop it at any time, and nothing may depend on finding it filled.
#[derive(Clone, Default)]
pub struct EngineMemo(Arc<Mutex<Option<Box<dyn Any + Send>>>>);

impl EngineMemo {
    /// An empty memo.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes out what was kept, if it is of this type.
    pub fn take<T: Any + Send>(&self) -> Option<Box<T>> {
        let mut slot = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        slot.take().and_then(|kept| kept.downcast().ok())
    }

    /// Keeps a value for the next round.
    pub fn put<T: Any + Send>(&self, value: Box<T>) {
        *self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner) = Some(value);
    }
}

impl fmt::Debug for EngineMemo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EngineMemo")
    }
}

/// Whether and which tools the model may or must call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// It must call at least one.
    Required,
    /// It must not call any.
    None,
    /// It must call this one.
    Named(String),
}

/// How the model should go about it. Whatever is `None` is left to the model's
/// or the server's default and isn't sent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelOptions {
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Most tokens of output.
    pub max_output_tokens: Option<u64>,
    /// How hard to think (`minimal`, `low`, `medium`, `high`), where a model knows it.
    pub reasoning_effort: Option<String>,
    /// Whether several calls may come in one round.
    pub parallel_tool_calls: Option<bool>,
    /// Sequences at which to stop.
    pub stop: Vec<String>,
}

/// One round's request.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EngineRequest {
    /// The thread it is for.
    pub thread: ThreadId,
    /// The turn it is for.
    pub turn: TurnId,
    /// Which round of the turn this is, from 0.
    pub round: u32,
    /// The model's name; `None` is the engine's default.
    pub model: Option<String>,
    /// What the model is told before everything else.
    pub instructions: Arc<str>,
    /// The conversation so far.
    pub history: History,
    /// The tools, in an order that never changes between equal configurations.
    pub tools: Arc<[ToolSpec]>,
    /// Whether tools may or must be called.
    pub tool_choice: ToolChoice,
    /// How to go about it.
    pub options: ModelOptions,
    /// A JSON schema that the answer must follow, where the model can do that.
    pub output_schema: Option<Arc<RawValue>>,
    /// When the turn ends.
    pub deadline: Option<Deadline>,
    /// Where the engine may keep its encoding of the history.
    pub memo: EngineMemo,
}

impl EngineRequest {
    /// A request with neither tools nor options.
    pub fn new(thread: ThreadId, turn: TurnId, history: History) -> Self {
        Self {
            thread,
            turn,
            round: 0,
            model: None,
            instructions: Arc::from(""),
            history,
            tools: Arc::from([]),
            tool_choice: ToolChoice::Auto,
            options: ModelOptions::default(),
            output_schema: None,
            deadline: None,
            memo: EngineMemo::new(),
        }
    }
}

/// A tool call as it came from the model, before the runtime looked at it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EngineToolCall {
    /// The provider's id; may be missing, empty or used twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The name.
    pub name: String,
    /// The arguments' text as the model wrote it; may be empty or broken.
    pub arguments: String,
    /// What the provider needs back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ProviderState>,
}

/// Tokens that were used.
///
/// Normalised: `input` is all that was read, cached or not; `output` is all
/// that was written, reasoning included. `None` where nobody said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read, cached ones included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// Of those, tokens read from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<u64>,
    /// Of those, tokens written to a cache, where that is charged for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// Tokens written, reasoning included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// Of those, tokens of reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
}

impl Usage {
    /// Adds another round's usage.
    pub fn add(&mut self, other: Self) {
        fn sum(a: &mut Option<u64>, b: Option<u64>) {
            if let Some(b) = b {
                *a = Some(a.unwrap_or(0).saturating_add(b));
            }
        }
        sum(&mut self.input, other.input);
        sum(&mut self.cached, other.cached);
        sum(&mut self.cache_write, other.cache_write);
        sum(&mut self.output, other.output);
        sum(&mut self.reasoning, other.reasoning);
    }

    /// True if nothing at all was said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Why the model stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FinishReason {
    /// It had said all.
    End,
    /// It wants tools run.
    ToolCalls,
    /// The output limit cut it off: its calls aren't run.
    Length,
    /// A filter cut it off.
    ContentFilter,
    /// Anything else, in the provider's word.
    Other(String),
}

/// One piece of a round.
///
/// Text and reasoning come as deltas only; the runtime joins them, and a change
/// of kind closes a block. Unknown kinds may be added; skip what you don't know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EngineEvent {
    /// A piece of the answer.
    TextDelta {
        /// The piece.
        text: String,
    },
    /// A piece of reasoning.
    ReasoningDelta {
        /// The piece.
        text: String,
    },
    /// Closes the block that is open, and attaches the provider's state to it.
    TextEnd {
        /// What the provider needs back.
        state: Option<ProviderState>,
    },
    /// Closes the open block of reasoning. With a state but no open block it
    /// makes a reasoning item without text.
    ReasoningEnd {
        /// What the provider needs back.
        state: Option<ProviderState>,
    },
    /// A piece of a call that is being written. For display; never run.
    CallDelta {
        /// Which call of this round, from 0.
        index: u32,
        /// The name, once known.
        name: Option<String>,
        /// A piece of the arguments' text.
        arguments: String,
    },
    /// A whole call.
    Call(EngineToolCall),
    /// Tokens used so far in this round; the last one counts.
    Usage(Usage),
    /// Who answers, where that isn't what the request named: a fallback, or a
    /// router's choice. At most once, before anything else.
    Served {
        /// The engine.
        engine: ExtensionId,
        /// The model, if it is known.
        model: Option<String>,
    },
    /// The end. Nothing follows it.
    Finished {
        /// Why.
        reason: FinishReason,
    },
}

/// A stream of events that are all there already.
pub fn engine_stream<I>(events: I) -> EngineStream
where
    I: IntoIterator<Item = EngineEvent>,
    I::IntoIter: Send + Unpin + 'static,
{
    struct Ready<I>(I);
    impl<I: Iterator<Item = EngineEvent> + Unpin> Stream for Ready<I> {
        type Item = Result<EngineEvent>;
        fn poll_next(
            mut self: Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Self::Item>> {
            std::task::Poll::Ready(self.0.next().map(Ok))
        }
    }
    Box::pin(Ready(events.into_iter()))
}
