//! Asks the next engine where one fails.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{StreamExt, stream};
use haft_api::{
    EngineEvent, EngineMemo, EngineRequest, EngineStream, Error, ErrorKind, ExtensionId,
    InferenceEngine, ModelInfo, Readiness, Result, async_trait,
};
use tokio::time::Instant;

/// How long an engine that failed is left alone while another one answers.
const REST: Duration = Duration::from_secs(60);

/// An engine, and the model it is asked for.
#[derive(Clone)]
pub struct Choice {
    /// The engine.
    pub engine: Arc<dyn InferenceEngine>,
    /// The model; `None` is the engine's default one.
    pub model: Option<String>,
}

/// One engine has failed and another is about to be asked.
#[derive(Debug)]
#[non_exhaustive]
pub struct Switch<'a> {
    /// The request.
    pub request: &'a EngineRequest,
    /// Who failed.
    pub from: &'a ExtensionId,
    /// Who is asked now.
    pub to: &'a ExtensionId,
    /// The model that is asked for; `None` is its default one.
    pub model: Option<&'a str>,
    /// What failed.
    pub error: &'a Error,
}

/// Told of each switch, before the next engine is asked.
pub type SwitchObserver =
    Arc<dyn Fn(Switch<'_>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// An engine that asks others, in order, where the first one fails before it
/// has shown anything.
///
/// What another engine can't help with isn't passed on: a request that is
/// malformed, one that is too long (it is to be made shorter), and that the
/// caller gave up. An engine that failed is left alone for a minute, so that a
/// turn of many rounds doesn't wait for it in each. If all fail, the first
/// one's error is returned, with what the others said.
pub struct Fallback {
    first: Arc<dyn InferenceEngine>,
    others: Vec<Choice>,
    /// When each of them failed, the first one's at 0.
    failed: Mutex<Vec<Option<Instant>>>,
    observer: SwitchObserver,
}

impl Fallback {
    /// Puts others behind an engine.
    pub fn new(
        first: Arc<dyn InferenceEngine>,
        others: Vec<Choice>,
        observer: SwitchObserver,
    ) -> Self {
        Self {
            failed: Mutex::new(vec![None; others.len() + 1]),
            first,
            others,
            observer,
        }
    }

    fn engine(&self, at: usize) -> &Arc<dyn InferenceEngine> {
        match at.checked_sub(1) {
            None => &self.first,
            Some(at) => &self.others[at].engine,
        }
    }

    fn model<'a>(&'a self, at: usize, request: &'a EngineRequest) -> Option<&'a str> {
        match at.checked_sub(1) {
            None => request.model.as_deref(),
            Some(at) => self.others[at].model.as_deref(),
        }
    }

    /// Whom to ask, in order: those that failed just now come last.
    fn order(&self) -> Vec<usize> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let resting = |at: &usize| failed[*at].is_some_and(|since| since.elapsed() < REST);
        let (rest, ready): (Vec<_>, Vec<_>) = (0..failed.len()).partition(resting);
        ready.into_iter().chain(rest).collect()
    }

    fn note(&self, at: usize, failed: bool) {
        let mut all = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        all[at] = failed.then(Instant::now);
    }

    async fn ask(
        &self,
        at: usize,
        request: &EngineRequest,
        memo: EngineMemo,
    ) -> Result<EngineStream> {
        let mut asked = request.clone();
        asked.model = self.model(at, request).map(str::to_owned);
        asked.memo = memo;
        let served = (at > 0).then(|| EngineEvent::Served {
            engine: self.engine(at).id().clone(),
            model: asked.model.clone(),
        });
        let mut stream = self.engine(at).stream_turn(asked).await?;
        // Until something is shown another engine may still take over.
        let mut first: VecDeque<_> = served.map(Ok).into_iter().collect();
        while let Some(next) = stream.next().await {
            let event = next?;
            let silent = matches!(event, EngineEvent::Usage(_) | EngineEvent::Served { .. });
            first.push_back(Ok(event));
            if !silent {
                break;
            }
        }
        Ok(Box::pin(stream::iter(first).chain(stream)))
    }
}

/// Whether another engine may do better.
fn may_help(error: &Error) -> bool {
    !matches!(
        error.kind(),
        ErrorKind::InvalidInput | ErrorKind::ContextOverflow | ErrorKind::Cancelled
    )
}

#[async_trait]
impl InferenceEngine for Fallback {
    fn id(&self) -> &ExtensionId {
        self.first.id()
    }

    async fn readiness(&self) -> Readiness {
        self.first.readiness().await
    }

    async fn models(&self) -> Result<Vec<ModelInfo>> {
        self.first.models().await
    }

    async fn model(&self, name: Option<&str>) -> Result<ModelInfo> {
        self.first.model(name).await
    }

    async fn stream_turn(&self, request: EngineRequest) -> Result<EngineStream> {
        // Each engine keeps what it made of the history in a place of its own.
        let kept = request.memo.take::<Vec<EngineMemo>>();
        let memos = kept.map_or_else(
            || (0..=self.others.len()).map(|_| EngineMemo::new()).collect(),
            |kept| *kept,
        );
        request.memo.put(Box::new(memos.clone()));
        let mut errors: Vec<(usize, Error)> = Vec::new();
        for at in self.order() {
            if let Some((from, error)) = errors.last() {
                let switch = Switch {
                    request: &request,
                    from: self.engine(*from).id(),
                    to: self.engine(at).id(),
                    model: self.model(at, &request),
                    error,
                };
                (self.observer)(switch).await;
            }
            match self.ask(at, &request, memos[at].clone()).await {
                Ok(stream) => {
                    self.note(at, false);
                    return Ok(stream);
                }
                Err(error) if !may_help(&error) => return Err(error),
                Err(error) => {
                    self.note(at, true);
                    errors.push((at, error));
                }
            }
        }
        errors.sort_by_key(|(at, _)| *at);
        let mut errors = errors.into_iter();
        let (_, first) = errors
            .next()
            .ok_or_else(|| Error::new(ErrorKind::Unexpected, "there is no engine to ask"))?;
        Err(errors.fold(first, |first, (at, error)| {
            first.context(format!("fallback {}", self.engine(at).id()), error)
        }))
    }
}

#[cfg(test)]
mod tests {
    use haft_testkit::{Round, ScriptedEngine, fixture};

    use super::*;

    fn failing(id: &str, kind: ErrorKind, rounds: usize) -> ScriptedEngine {
        let round = Round::new().refuse(Error::new(kind, format!("{id} is down")));
        ScriptedEngine::new()
            .with_id(id)
            .rounds(vec![round; rounds])
    }

    /// What was shown by which engine, or the error; and the switches.
    async fn ask(engine: &Fallback, switches: &Arc<Mutex<Vec<String>>>) -> (String, Vec<String>) {
        let mut shown = String::new();
        match engine
            .stream_turn(fixture::engine_request([haft_api::Item::user("hi")]))
            .await
        {
            Err(error) => shown = error.to_string(),
            Ok(mut stream) => {
                while let Some(next) = stream.next().await {
                    match next {
                        Ok(EngineEvent::TextDelta { text }) => shown.push_str(&text),
                        Ok(EngineEvent::Served { engine, model }) => {
                            shown.push_str(&format!("[{engine} {model:?}]"));
                        }
                        Ok(_) => {}
                        Err(error) => shown.push_str(&format!("!{}", error.kind())),
                    }
                }
            }
        }
        let switches = std::mem::take(&mut *switches.lock().unwrap());
        (shown, switches)
    }

    fn fallback(
        first: ScriptedEngine,
        others: impl IntoIterator<Item = ScriptedEngine>,
    ) -> (Fallback, Arc<Mutex<Vec<String>>>) {
        let switches = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&switches);
        let observer: SwitchObserver = Arc::new(move |switch: Switch<'_>| {
            let line = format!("{}>{}: {}", switch.from, switch.to, switch.error.message());
            seen.lock().unwrap().push(line);
            Box::pin(async {})
        });
        let others = others.into_iter().map(|engine| Choice {
            engine: Arc::new(engine),
            model: Some("m".to_owned()),
        });
        let engine = Fallback::new(Arc::new(first), others.collect(), observer);
        (engine, switches)
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_engine_answers_and_the_failed_one_rests() {
        let text = |id: &str, text: &str| {
            ScriptedEngine::new()
                .with_id(id)
                .rounds(vec![Round::new().text(text); 3])
        };
        let first = failing("a", ErrorKind::Unavailable, 1);
        let (engine, log) = fallback(first, [text("b", "hello")]);
        let (shown, switches) = ask(&engine, &log).await;
        assert_eq!(shown, r#"[b Some("m")]hello"#);
        assert_eq!(switches, ["a>b: a is down"]);
        // Not asked again in the next round, nor told of again.
        assert_eq!(ask(&engine, &log).await, (shown, Vec::new()));
        tokio::time::advance(REST).await;
        assert_eq!(ask(&engine, &log).await, ("done".to_owned(), Vec::new()));
    }

    #[tokio::test(start_paused = true)]
    async fn what_another_engine_cannot_mend_is_not_passed_on() {
        let check = async |kind: ErrorKind, passed_on: bool| {
            let (engine, log) =
                fallback(failing("a", kind, 1), [ScriptedEngine::new().with_id("b")]);
            let (shown, switches) = ask(&engine, &log).await;
            assert_eq!(switches.len(), usize::from(passed_on), "{kind}");
            assert_eq!(shown.contains("a is down"), !passed_on, "{kind}: {shown}");
        };
        for kind in [
            ErrorKind::RateLimited,
            ErrorKind::Denied,
            ErrorKind::NotFound,
        ] {
            check(kind, true).await;
        }
        check(ErrorKind::ContextOverflow, false).await;
        check(ErrorKind::InvalidInput, false).await;
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_that_was_shown_is_taken_back() {
        let broken = Round::new()
            .text("half")
            .error(Error::new(ErrorKind::Unavailable, "gone"));
        let first = ScriptedEngine::new().with_id("a").round(broken);
        let (engine, log) = fallback(first, [ScriptedEngine::new().with_id("b")]);
        let expected = ("half!unavailable".to_owned(), Vec::new());
        assert_eq!(ask(&engine, &log).await, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn if_all_fail_the_first_ones_error_names_the_others() {
        let others = [
            failing("b", ErrorKind::Denied, 1),
            failing("c", ErrorKind::Timeout, 1),
        ];
        let (engine, log) = fallback(failing("a", ErrorKind::Unavailable, 1), others);
        let (error, switches) = ask(&engine, &log).await;
        assert!(error.starts_with("a is down"), "{error}");
        assert!(
            error.contains("b is down") && error.contains("c is down"),
            "{error}"
        );
        assert_eq!(switches.len(), 2);
    }
}
