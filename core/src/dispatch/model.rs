//! A call's way to the turn's model: policy first, then the model itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haft_api::{
    CallId, Effects, Error, ErrorKind, ExtensionId, MODEL_CALL, ModelAnswer, ModelRequest,
    ModelService, Part, Result, ToolCall, async_trait,
};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::{Round, permitted};
use crate::moment::Moment;

/// The turn's model, for the calls of its rounds.
#[async_trait]
pub(crate) trait RoundModel: Send + Sync + 'static {
    /// Asks it on behalf of a call. What it took is accounted for when this
    /// returns, however it ended.
    async fn ask(
        &self,
        call: &CallId,
        request: ModelRequest,
        ends: Moment,
        cancel: &CancellationToken,
    ) -> Result<ModelAnswer>;
}

/// What a call is given to ask the turn's model by.
pub(super) struct CallModel {
    round: Arc<Round>,
    model: Arc<dyn RoundModel>,
    call: CallId,
    extension: Option<ExtensionId>,
    ends: Moment,
    /// Cancelled when the call has ended.
    over: CancellationToken,
    /// Where the turn runs. An extension may ask from a runtime of its own,
    /// or from none.
    runtime: Handle,
    asked: AtomicU64,
}

impl CallModel {
    /// Must be called within a tokio runtime.
    pub(super) fn new(
        round: Arc<Round>,
        model: Arc<dyn RoundModel>,
        call: CallId,
        extension: Option<ExtensionId>,
        ends: Moment,
        over: CancellationToken,
    ) -> Self {
        Self {
            round,
            model,
            call,
            extension,
            ends,
            over,
            runtime: Handle::current(),
            asked: AtomicU64::new(0),
        }
    }

    /// A request as policy, and whoever is asked, sees it. Its id is of its
    /// own: what is answered to it is no answer to the call's.
    fn described(&self, request: &ModelRequest) -> Result<ToolCall> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let tail = format!("_model_{number}");
        let head = self.call.as_str();
        let head = &head[..head.len().min(64 - tail.len())];
        let arguments = serde_json::to_string(request).map_err(|e| {
            Error::new(
                ErrorKind::InvalidInput,
                format!("the request isn't JSON: {e}"),
            )
        })?;
        Ok(ToolCall {
            id: CallId::new(format!("{head}{tail}"))?,
            name: MODEL_CALL.to_owned(),
            arguments: haft_api::raw_json(arguments)?,
            state: None,
        })
    }

    fn told(&self, error: Error) -> Error {
        error.operation(MODEL_CALL).context("call", &self.call)
    }
}

#[async_trait]
impl ModelService for CallModel {
    async fn generate(&self, request: ModelRequest) -> Result<ModelAnswer> {
        let blank = |part: &Part| part.as_text().is_some_and(|text| text.trim().is_empty());
        if request.input.iter().all(blank) {
            let error = Error::new(ErrorKind::InvalidInput, "the request's input is empty");
            return Err(self.told(error));
        }
        let described = self.described(&request).map_err(|e| self.told(e))?;
        let (round, model) = (Arc::clone(&self.round), Arc::clone(&self.model));
        let (call, extension, ends) = (self.call.clone(), self.extension.clone(), self.ends);
        let cancel = self.over.child_token();
        // Whoever drops this future cancels; the task then still accounts for
        // what was used.
        let _cancels = cancel.clone().drop_guard();
        let asking = self.runtime.spawn(async move {
            let extension = extension.as_ref();
            let word = tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(ended()),
                () = Moment::passed(Some(ends)) => return Err(late()),
                word = permitted(&round, &described, Effects::PURE, extension) => word?,
            };
            word.map_err(|reason| Error::new(ErrorKind::Denied, reason).permanent())?;
            model.ask(&call, request, ends, &cancel).await
        });
        let outcome = asking
            .await
            .unwrap_or_else(|error| Err(Error::new(ErrorKind::Unexpected, error.to_string())));
        outcome.map_err(|error| self.told(error))
    }
}

/// The error of a request whose call is over.
pub(crate) fn ended() -> Error {
    Error::new(ErrorKind::Cancelled, "the tool call that asked has ended")
}

fn late() -> Error {
    Error::new(
        ErrorKind::Timeout,
        "the tool call's time was over before anybody approved the request",
    )
}
