//! The suite for [`InferenceEngine`]s.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use haft_api::{EngineRequest, InferenceEngine, Item, ToolSpec};

use super::Case;
use super::declare::collect_cases;

mod cancelling;
mod histories;
mod models;
mod rounds;
mod subject;

/// The one list of cases.
#[doc(hidden)]
#[macro_export]
macro_rules! __engine_cases {
    ($callback:path [$($arguments:tt)*]) => {
        $callback! {
            [$($arguments)*]
            the_id_is_constant: "the id is the same at every call",
            readiness_is_told_soon: "the engine says within a few seconds that it is ready",
            models_are_listed: "there is at least one model, each has a name of its own, and the list is the same each time",
            the_default_model_is_the_first: "the model without a name is the first of the list",
            a_listed_model_is_known: "what is said of a listed model by its name is what the list says",
            an_unlisted_model_is_named_or_refused: "a model that isn't listed is refused, or known by the name that was asked for",
            text_is_produced: "a prompt is answered with text",
            a_round_ends_once: "a stream ends with exactly one end, and nothing after it",
            a_named_model_answers: "a request that names the default model is answered",
            usage_adds_up: "tokens that are part of others aren't more than those",
            rounds_follow_one_another: "the same request is answered again and again",
            rounds_run_side_by_side: "8 requests at once are all answered, each on a task of its own",
            calls_are_whole: "a call comes whole, names a tool that was offered, and the round ends for it",
            a_dropped_stream_harms_nothing: "after 20 streams were dropped half-way, a request is answered",
            a_dropped_request_harms_nothing: "after 20 requests were dropped before their stream, a request is answered",
            every_kind_of_item_is_taken: "a history with every kind of item is answered",
            a_foreign_state_is_left_out: "a history with another provider's state in its items is answered",
            a_growing_history_is_answered: "a history that grows from round to round, with one memo, is answered each time",
            a_memo_may_be_anything: "a memo that is empty, foreign or of another history makes no difference",
            tools_of_any_name_are_taken: "tools of every name that the type allows can be offered",
        }
    };
}

type Prepare = dyn Fn(&mut EngineRequest) + Send + Sync;

/// An engine to be tested, and what to ask it.
#[derive(Clone)]
pub struct EngineFixture {
    engine: Arc<dyn InferenceEngine>,
    prompt: String,
    calling: Option<(String, ToolSpec)>,
    prepare: Arc<Prepare>,
    _keep: Option<Arc<dyn Any + Send + Sync>>,
}

impl EngineFixture {
    /// An engine that is ready, and answers `Say hello.` with text.
    pub fn new(engine: Arc<dyn InferenceEngine>) -> Self {
        Self {
            engine,
            prompt: "Say hello.".to_owned(),
            calling: None,
            prepare: Arc::new(|_| {}),
            _keep: None,
        }
    }

    /// Sets a prompt that is answered with text.
    #[must_use]
    pub fn prompt(mut self, prompt: impl Into<String>) -> Self {
        self.prompt = prompt.into();
        self
    }

    /// Sets a prompt that is answered with a call of this tool. Without one,
    /// the case for it is skipped.
    #[must_use]
    pub fn calling(mut self, prompt: impl Into<String>, tool: ToolSpec) -> Self {
        self.calling = Some((prompt.into(), tool));
        self
    }

    /// Changes every request before it is made: a model's name, options.
    #[must_use]
    pub fn prepare(mut self, prepare: impl Fn(&mut EngineRequest) + Send + Sync + 'static) -> Self {
        self.prepare = Arc::new(prepare);
        self
    }

    /// Keeps something until the case is over, such as a server's handle.
    #[must_use]
    pub fn keeping(mut self, guard: impl Any + Send + Sync) -> Self {
        self._keep = Some(Arc::new(guard));
        self
    }

    /// A request whose history ends with a user's message.
    fn request(&self, items: Vec<Item>) -> EngineRequest {
        let mut request = crate::fixture::engine_request(items);
        request.thread = crate::fixture::fresh_thread();
        request.instructions = Arc::from("You are being tested. Answer briefly.");
        (self.prepare)(&mut request);
        request
    }
}

impl fmt::Debug for EngineFixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineFixture")
            .field("engine", self.engine.id())
            .field("prompt", &self.prompt)
            .finish_non_exhaustive()
    }
}

/// All cases for an engine. `make` makes a fixture; an engine that is costly to
/// start may be the same each time.
///
/// For one test per case use [`engine_conformance!`](crate::engine_conformance).
pub fn engine_suite(make: impl Fn() -> EngineFixture + Send + Sync + 'static) -> Vec<Case> {
    let make = move || subject::Subject::new(make());
    crate::__engine_cases! { collect_cases [make] }
}

/// Declares one test for each promise of an [`InferenceEngine`]. The argument
/// makes an [`EngineFixture`].
///
/// ```
/// use std::sync::Arc;
/// use haft_testkit::{EngineFixture, Round, ScriptedEngine};
///
/// haft_testkit::engine_conformance!(|| {
///     let engine = ScriptedEngine::new().afterwards(Round::new().text("Hello."));
///     EngineFixture::new(Arc::new(engine))
/// });
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! engine_conformance {
    ($make:expr) => {
        $crate::__engine_cases! {
            $crate::__declare_tests [engine_conformance, $crate::engine_suite, $make]
        }
    };
}

/// The functions behind the names of the list.
mod cases {
    pub(super) use super::cancelling::*;
    pub(super) use super::histories::*;
    pub(super) use super::models::*;
    pub(super) use super::rounds::*;
}
