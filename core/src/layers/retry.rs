//! Tries a round again while nothing of it was shown.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use haft_api::{
    EngineEvent, EngineRequest, EngineStream, Error, ExtensionId, InferenceEngine, ModelInfo,
    Readiness, Result, async_trait,
};

/// How often and how patiently.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    /// Most tries after the first.
    pub retries: u32,
    /// The first wait; it doubles each time, and up to a quarter of it is left
    /// off at random.
    pub delay: Duration,
    /// Longest wait, whatever the server asks for.
    pub max_delay: Duration,
}

impl RetryPolicy {
    /// How long to wait after a failed try, numbered from 1.
    fn delay_after(&self, attempt: u32, error: &Error) -> Duration {
        let asked = error.retry_after_ms().map(Duration::from_millis);
        let doubled = self
            .delay
            .saturating_mul(1 << attempt.saturating_sub(1).min(16));
        let jitter = 1.0 - 0.25 * random_unit();
        asked
            .unwrap_or_else(|| doubled.mul_f64(jitter))
            .min(self.max_delay)
    }
}

/// Random enough to spread retries: the standard library's hash keys.
fn random_unit() -> f64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let bits = RandomState::new().build_hasher().finish() >> 11;
    bits as f64 / (1u64 << 53) as f64
}

/// Told of each failed try that will be followed by another.
pub type RetryObserver = Arc<dyn Fn(&EngineRequest, u32, Duration, &Error) + Send + Sync>;

/// An engine that is asked again after a temporary error.
///
/// The error's status alone decides. Once something of an answer was shown a
/// broken stream is the caller's to see: it can't be taken back.
pub struct Retry {
    engine: Arc<dyn InferenceEngine>,
    policy: RetryPolicy,
    observer: RetryObserver,
}

impl Retry {
    /// Puts retries around an engine.
    pub fn new(
        engine: Arc<dyn InferenceEngine>,
        policy: RetryPolicy,
        observer: RetryObserver,
    ) -> Self {
        Self {
            engine,
            policy,
            observer,
        }
    }

    /// A stream whose first visible event is there already.
    async fn attempt(&self, request: EngineRequest) -> Result<EngineStream> {
        let mut stream = self.engine.stream_turn(request).await?;
        let mut first = VecDeque::new();
        while let Some(next) = stream.next().await {
            let event = next?;
            let silent = matches!(event, EngineEvent::Usage(_));
            first.push_back(Ok(event));
            if !silent {
                break;
            }
        }
        Ok(Box::pin(stream::iter(first).chain(stream)))
    }
}

#[async_trait]
impl InferenceEngine for Retry {
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
        let mut attempt = 0;
        loop {
            attempt += 1;
            let error = match self.attempt(request.clone()).await {
                Ok(stream) => return Ok(stream),
                Err(error) => error,
            };
            if !error.is_temporary() {
                return Err(error);
            }
            let delay = self.policy.delay_after(attempt, &error);
            let too_late = request
                .deadline
                .is_some_and(|deadline| deadline.remaining() < delay);
            if attempt > self.policy.retries || too_late {
                let error = error.persistent();
                return Err(if attempt == 1 {
                    error
                } else {
                    error.context("tries", attempt)
                });
            }
            (self.observer)(&request, attempt, delay, &error);
            tokio::time::sleep(delay).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use haft_api::{ErrorKind, ErrorStatus};
    use haft_testkit::{Round, ScriptedEngine, fixture};

    use super::*;

    /// Asks once an engine that has these rounds: the waits, and what was seen.
    async fn run(rounds: impl IntoIterator<Item = Round>) -> (Vec<u64>, String) {
        let engine = ScriptedEngine::new().rounds(rounds);
        let waits = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&waits);
        let policy = RetryPolicy {
            retries: 2,
            delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(60),
        };
        let observer: RetryObserver = Arc::new(move |_, _, delay, _| {
            seen.lock()
                .unwrap()
                .push(u64::try_from(delay.as_millis()).unwrap());
        });
        let engine = Retry::new(Arc::new(engine), policy, observer);
        let mut shown = String::new();
        match engine
            .stream_turn(fixture::engine_request([haft_api::Item::user("hi")]))
            .await
        {
            Err(error) => shown = format!("{:?} {}", error.status(), error.kind()),
            Ok(mut stream) => {
                while let Some(next) = stream.next().await {
                    match next {
                        Ok(EngineEvent::TextDelta { text }) => shown.push_str(&text),
                        Ok(_) => {}
                        Err(error) => shown.push_str(&format!("!{}", error.kind())),
                    }
                }
            }
        }
        let waits = waits.lock().unwrap().clone();
        (waits, shown)
    }

    fn unavailable() -> Error {
        Error::new(ErrorKind::Unavailable, "503")
    }

    #[tokio::test(start_paused = true)]
    async fn temporary_errors_are_tried_again_with_growing_waits() {
        let refused = || Round::new().refuse(unavailable());
        let broken = Round::new().usage(1, 0).error(unavailable());
        let (waits, shown) = run([refused(), broken, Round::new().text("ok")]).await;
        assert_eq!(shown, "ok");
        assert!((750..=1_000).contains(&waits[0]) && (1_500..=2_000).contains(&waits[1]));
    }

    #[tokio::test(start_paused = true)]
    async fn the_servers_wish_is_obeyed_up_to_a_bound() {
        let busy = |ms| Round::new().refuse(unavailable().with_retry_after_ms(ms));
        let (waits, shown) = run([busy(7_000), busy(7_000_000), Round::new().text("ok")]).await;
        assert_eq!((waits, shown.as_str()), (vec![7_000, 60_000], "ok"));
    }

    #[tokio::test(start_paused = true)]
    async fn permanent_errors_and_shown_text_end_it() {
        let check = async |rounds: Vec<Round>, waits: usize, expected: &str| {
            let (seen, shown) = run(rounds).await;
            assert_eq!((seen.len(), shown.as_str()), (waits, expected));
        };
        let denied = Error::new(ErrorKind::Denied, "401");
        check(vec![Round::new().refuse(denied)], 0, "Permanent denied").await;
        check(
            vec![Round::new().text("half").error(unavailable())],
            0,
            "half!unavailable",
        )
        .await;
        let ever = vec![Round::new().refuse(unavailable()); 3];
        check(ever, 2, "Persistent unavailable").await;
    }

    #[test]
    fn a_persistent_error_is_no_longer_temporary() {
        assert_eq!(unavailable().persistent().status(), ErrorStatus::Persistent);
    }
}
