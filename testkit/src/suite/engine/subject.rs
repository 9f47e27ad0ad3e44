//! What a case has to do with: a fixture, and the way through a round.

use std::sync::Arc;

use futures::StreamExt;
use haft_api::{
    EngineEvent, EngineRequest, EngineToolCall, FinishReason, InferenceEngine, Item, Usage,
};

use super::EngineFixture;
use crate::suite::Unmet;
use crate::suite::expect::{ensure, ok};

/// The fixture of one case.
#[derive(Clone)]
pub(super) struct Subject {
    pub(super) fixture: EngineFixture,
}

/// A round that came to its end as it should.
#[derive(Debug)]
pub(super) struct Played {
    pub(super) text: String,
    pub(super) calls: Vec<EngineToolCall>,
    pub(super) usage: Option<Usage>,
    pub(super) reason: FinishReason,
}

impl Subject {
    pub(super) fn new(fixture: EngineFixture) -> Self {
        Self { fixture }
    }

    pub(super) fn engine(&self) -> &Arc<dyn InferenceEngine> {
        &self.fixture.engine
    }

    /// A request that is answered with text.
    pub(super) fn request(&self) -> EngineRequest {
        self.request_after(vec![])
    }

    /// A request that is answered with text, after these items.
    pub(super) fn request_after(&self, mut items: Vec<Item>) -> EngineRequest {
        items.push(Item::user(&self.fixture.prompt));
        self.fixture.request(items)
    }

    /// Plays a round to its end, which must be there, once and last.
    pub(super) async fn play(&self, request: EngineRequest) -> Result<Played, Unmet> {
        let stream = self.engine().stream_turn(request).await;
        let mut stream = ok("starting a round", stream)?;
        let mut played = Played {
            text: String::new(),
            calls: Vec::new(),
            usage: None,
            reason: FinishReason::End,
        };
        let mut finished = false;
        while let Some(event) = stream.next().await {
            let event = ok("every event of a round", event)?;
            ensure!(!finished, "expected nothing after the end, got {event:?}");
            match event {
                EngineEvent::TextDelta { text } => played.text.push_str(&text),
                EngineEvent::Call(call) => played.calls.push(call),
                EngineEvent::Usage(usage) => played.usage = Some(usage),
                EngineEvent::Finished { reason } => {
                    finished = true;
                    played.reason = reason;
                }
                _ => {}
            }
            // So that rounds side by side overlap on a single thread, too.
            tokio::task::yield_now().await;
        }
        ensure!(
            finished,
            "expected a round to finish, got the end of the stream"
        );
        Ok(played)
    }

    /// Plays a round that must be answered with text.
    pub(super) async fn answered(&self, request: EngineRequest) -> Result<Played, Unmet> {
        let played = self.play(request).await?;
        ensure!(
            !played.text.is_empty(),
            "expected an answer with text, got {played:?}"
        );
        Ok(played)
    }
}
