//! Ends a round whose engine has fallen silent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::{Stream, StreamExt};
use haft_api::{
    EngineEvent, EngineRequest, EngineStream, Error, ErrorKind, ExtensionId, InferenceEngine,
    ModelInfo, Readiness, Result, async_trait,
};
use tokio::time::{Instant, Sleep};

/// An engine that may not be silent for longer than a limit, neither before its
/// stream begins nor between two events.
pub struct IdleTimeout {
    engine: Arc<dyn InferenceEngine>,
    limit: Duration,
}

impl IdleTimeout {
    /// Puts the limit around an engine.
    pub fn new(engine: Arc<dyn InferenceEngine>, limit: Duration) -> Self {
        Self { engine, limit }
    }
}

fn silent(engine: &ExtensionId, limit: Duration) -> Error {
    Error::new(
        ErrorKind::Timeout,
        format!("the engine was silent for {limit:?}"),
    )
    .context("engine", engine)
    .temporary()
}

#[async_trait]
impl InferenceEngine for IdleTimeout {
    fn id(&self) -> &ExtensionId {
        self.engine.id()
    }

    async fn readiness(&self) -> Readiness {
        self.engine.readiness().await
    }

    async fn models(&self) -> Result<Vec<ModelInfo>> {
        self.engine.models().await
    }

    async fn model(&self, name: Option<&str>) -> Result<ModelInfo> {
        self.engine.model(name).await
    }

    async fn stream_turn(&self, request: EngineRequest) -> Result<EngineStream> {
        let limit = self.limit;
        let opened = tokio::time::timeout(limit, self.engine.stream_turn(request)).await;
        let stream = opened.map_err(|_| silent(self.id(), limit))??;
        let engine = self.id().clone();
        Ok(Box::pin(Timed {
            stream,
            engine,
            limit,
            until: Instant::now() + limit,
            timer: Box::pin(tokio::time::sleep(limit)),
        }))
    }
}

struct Timed {
    stream: EngineStream,
    engine: ExtensionId,
    limit: Duration,
    /// When it is over. The timer may be set for an earlier time: to set it anew
    /// for every event would cost more than the event.
    until: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Stream for Timed {
    type Item = Result<EngineEvent>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Poll::Ready(next) = self.stream.poll_next_unpin(context) {
            self.until = Instant::now() + self.limit;
            return Poll::Ready(next);
        }
        while self.timer.as_mut().poll(context).is_ready() {
            let until = self.until;
            if Instant::now() >= until {
                return Poll::Ready(Some(Err(silent(&self.engine, self.limit))));
            }
            self.timer.as_mut().reset(until);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use haft_testkit::{Round, ScriptedEngine, fixture};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn silence_is_an_error_and_talk_is_not() {
        let pause = Duration::from_millis(900);
        let round = Round::new().text("a").sleep(pause).text("b").stall();
        let engine = ScriptedEngine::new().round(round);
        let engine = IdleTimeout::new(Arc::new(engine), Duration::from_secs(1));
        let mut stream = engine
            .stream_turn(fixture::engine_request([haft_api::Item::user("hi")]))
            .await
            .unwrap();
        let mut seen = Vec::new();
        while let Some(Ok(event)) = stream.next().await {
            seen.push(event);
        }
        assert_eq!(seen.len(), 2);
    }
}
