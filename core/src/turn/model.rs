//! The turn's model as its tools ask it: one round of a conversation of its
//! own, accounted for in the turn.

use std::sync::Arc;

use haft_api::{
    CallId, Durability, EngineMemo, EngineRequest, Error, ErrorKind, FinishReason, History,
    InferenceEngine, Item, ModelAnswer, ModelOptions, ModelRequest, Result, ToolChoice, TurnId,
    Usage, async_trait,
};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::stream::{self, StreamEnd};
use crate::dispatch::{self, RoundModel};
use crate::moment::Moment;
use crate::runtime::Shared;
use crate::thread::Inner;
use crate::thread::history::fresh_generation;
use crate::thread::records::{Served, ThreadRecord};

/// How many requests of a turn's tools the model answers at once.
const AT_ONCE: u32 = 8;

/// The model of a turn, for its tools.
pub(super) struct TurnModel {
    thread: Arc<Inner>,
    turn: TurnId,
    engine: Arc<dyn InferenceEngine>,
    model: Option<String>,
    options: ModelOptions,
    places: Semaphore,
}

impl TurnModel {
    pub(super) fn new(
        thread: Arc<Inner>,
        turn: TurnId,
        engine: Arc<dyn InferenceEngine>,
        model: Option<String>,
        options: ModelOptions,
    ) -> Self {
        Self {
            thread,
            turn,
            engine,
            model,
            options,
            places: Semaphore::new(AT_ONCE as usize),
        }
    }

    /// Waits until nothing is asked any more. Requests end with their calls.
    pub(super) async fn at_rest(&self) {
        // It is never closed.
        drop(self.places.acquire_many(AT_ONCE).await);
    }

    fn request(&self, request: ModelRequest, ends: Moment) -> EngineRequest {
        let ModelRequest {
            instructions,
            input,
            mut options,
            output_schema,
            ..
        } = request;
        let of_turn = &self.options;
        options.temperature = options.temperature.or(of_turn.temperature);
        options.max_output_tokens = options.max_output_tokens.or(of_turn.max_output_tokens);
        if options.reasoning_effort.is_none() {
            options
                .reasoning_effort
                .clone_from(&of_turn.reasoning_effort);
        }
        let asked = Item::UserMessage { parts: input };
        let history = History::new(fresh_generation(), vec![Arc::new(asked)]);
        let (thread, turn) = (self.thread.id.clone(), self.turn.clone());
        let mut request = EngineRequest::new(thread, turn, history);
        request.model = self.model.clone();
        request.instructions = Arc::from(instructions);
        request.tool_choice = ToolChoice::None;
        request.options = options;
        request.output_schema = output_schema.map(Arc::from);
        request.deadline = Some(ends.deadline());
        request.memo = EngineMemo::new();
        request
    }

    /// Adds to the turn's tokens.
    ///
    /// # Errors
    /// What the store fails with.
    async fn account(&self, call: &CallId, round: Usage, served: Option<Served>) -> Result<()> {
        if round.is_empty() {
            return Ok(());
        }
        let mut log = self.thread.log.lock().await;
        // The turn waits for this before it ends.
        let Some(unfinished) = &log.folded.unfinished else {
            return Ok(());
        };
        let mut turn_total = unfinished.usage;
        turn_total.add(round);
        let record = ThreadRecord::Usage {
            round,
            turn_total,
            served,
            call: Some(call.clone()),
        };
        self.thread
            .append(&mut log, Some(&self.turn), &[record], Durability::Buffered)
            .await
    }
}

#[async_trait]
impl RoundModel for TurnModel {
    async fn ask(
        &self,
        call: &CallId,
        request: ModelRequest,
        ends: Moment,
        cancel: &CancellationToken,
    ) -> Result<ModelAnswer> {
        let place = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(dispatch::model_call_ended()),
            place = self.places.acquire() => place,
        };
        let request = self.request(request, ends);
        let end = stream::run(&self.engine, request, None, cancel, Some(ends)).await;
        let (usage, outcome) = match end {
            StreamEnd::Finished(round) => (round.usage, Ok(round)),
            StreamEnd::Broken { usage, error, .. } => (usage, Err(error)),
            StreamEnd::Interrupted { usage, .. } => (usage, Err(dispatch::model_call_ended())),
        };
        let said = outcome.as_ref().ok().and_then(|round| round.served.clone());
        let served = served(
            &self.thread.shared,
            &self.engine,
            self.model.as_deref(),
            said,
        )
        .await;
        self.account(call, usage, served.clone()).await?;
        drop(place);
        let round = outcome?;
        let text = round.text();
        if text.is_empty() && round.reason == FinishReason::ContentFilter {
            let words = "the provider's content filter kept the answer back";
            return Err(Error::new(ErrorKind::Denied, words).permanent());
        }
        let (engine, model) = match served {
            Some(served) => (served.engine, served.model),
            None => (self.engine.id().clone(), self.model.clone()),
        };
        let mut answer = ModelAnswer::new(engine, text);
        answer.reason = round.reason;
        answer.usage = round.usage;
        answer.model = model;
        Ok(answer)
    }
}

/// Who is paid for a round: what the engine says, else the name of the model
/// that nobody named.
pub(super) async fn served(
    shared: &Shared,
    engine: &Arc<dyn InferenceEngine>,
    named: Option<&str>,
    said: Option<Served>,
) -> Option<Served> {
    if said.is_some() || named.is_some() {
        return said;
    }
    let info = shared.model(engine, None).await?;
    Some(Served {
        engine: engine.id().clone(),
        model: Some(info.name),
    })
}
