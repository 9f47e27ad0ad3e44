//! Plays scripts.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::stream;
use haft_api::{
    EngineEvent, EngineRequest, EngineStream, Error, ErrorKind, ExtensionId, FinishReason,
    InferenceEngine, ModelInfo, Readiness, Result, ThreadId, async_trait, engine_stream,
};

use crate::script::{Round, Script, ScriptEvent};

/// The engine `replay`. A request's model is the path of the script to play, or
/// none for the one that [`new`](Self::new) was given.
///
/// The crate's description says which line a round plays. A script's file is
/// read when a thread's first round asks for it, and not again for that thread.
#[derive(Debug)]
pub struct ReplayEngine {
    id: ExtensionId,
    default_script: Option<PathBuf>,
    playheads: Mutex<HashMap<(ThreadId, PathBuf), Playhead>>,
}

/// How far a thread has come in a script.
#[derive(Debug)]
struct Playhead {
    script: Arc<Script>,
    next: usize,
}

impl ReplayEngine {
    /// An engine that plays `default_script` where a request names no model.
    ///
    /// # Errors
    /// None in practice: the engine's own id is checked like any other.
    pub fn new(default_script: Option<PathBuf>) -> Result<Self> {
        Ok(Self {
            id: ExtensionId::new("replay")?,
            default_script,
            playheads: Mutex::default(),
        })
    }

    fn script_path(&self, model: Option<&str>) -> Result<PathBuf> {
        model
            .map(PathBuf::from)
            .or_else(|| self.default_script.clone())
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::InvalidInput,
                    "no script to play: name its file as the model (`--model FILE`)",
                )
            })
    }

    fn playheads(&self) -> MutexGuard<'_, HashMap<(ThreadId, PathBuf), Playhead>> {
        self.playheads
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The line that is this thread's turn to hear, `None` after the last.
    /// Counts it.
    async fn next_round(&self, thread: &ThreadId, path: PathBuf) -> Result<Option<Round>> {
        let key = (thread.clone(), path);
        let known = self.playheads().get(&key).map(|p| Arc::clone(&p.script));
        let script = match known {
            Some(script) => script,
            None => Arc::new(Script::load(&key.1).await?),
        };
        let mut playheads = self.playheads();
        let playhead = playheads.entry(key).or_insert(Playhead { script, next: 0 });
        let round = playhead.script.rounds().get(playhead.next).cloned();
        playhead.next += 1;
        Ok(round)
    }
}

#[async_trait]
impl InferenceEngine for ReplayEngine {
    fn id(&self) -> &ExtensionId {
        &self.id
    }

    /// Whether the default script is there. An engine without one still plays
    /// any script that a request names.
    async fn readiness(&self) -> Readiness {
        match &self.default_script {
            None => Readiness::Unavailable {
                reason: "it plays scripts, and none is set: name one with `--model FILE`"
                    .to_owned(),
            },
            Some(path) => match tokio::fs::metadata(path).await {
                Ok(_) => Readiness::Ready,
                Err(e) => Readiness::Unavailable {
                    reason: format!("the script {} can't be read: {e}", path.display()),
                },
            },
        }
    }

    async fn models(&self) -> Result<Vec<ModelInfo>> {
        Ok(self
            .default_script
            .iter()
            .map(|path| describe(&path.to_string_lossy()))
            .collect())
    }

    async fn model(&self, name: Option<&str>) -> Result<ModelInfo> {
        self.script_path(name)
            .map(|path| describe(&path.to_string_lossy()))
            .map_err(|e| e.operation("model").context("engine", &self.id))
    }

    async fn stream_turn(&self, request: EngineRequest) -> Result<EngineStream> {
        let fail = |e: Error| e.operation("stream_turn").context("engine", &self.id);
        let path = self.script_path(request.model.as_deref()).map_err(fail)?;
        let round = self
            .next_round(&request.thread, path.clone())
            .await
            .map_err(fail)?;
        let Some(round) = round else {
            return Ok(engine_stream([
                EngineEvent::TextDelta {
                    text: "done".to_owned(),
                },
                EngineEvent::Finished {
                    reason: FinishReason::End,
                },
            ]));
        };
        let (engine, line) = (self.id.clone(), round.line);
        let name_source = move |error: Error| {
            error
                .operation("stream_turn")
                .context("engine", &engine)
                .context("script", path.display())
                .context("line", line)
        };
        match round.events.first().and_then(scripted_error) {
            Some(error) => Err(name_source(error)),
            None => Ok(play(round, name_source)),
        }
    }
}

/// A script may hold anything that a model could answer.
fn describe(path: &str) -> ModelInfo {
    let mut info = ModelInfo::new(path);
    info.images = true;
    info
}

fn scripted_error(event: &ScriptEvent) -> Option<Error> {
    let ScriptEvent::Error {
        kind,
        message,
        retry_after_ms,
    } = event
    else {
        return None;
    };
    let error = Error::new(*kind, message);
    Some(match retry_after_ms {
        Some(delay) => error.with_retry_after_ms(*delay),
        None => error,
    })
}

/// What is left of a round that is being played.
struct Player {
    events: std::vec::IntoIter<ScriptEvent>,
    called: bool,
    reason: Option<FinishReason>,
    over: bool,
}

impl Player {
    /// The next thing to be heard; waits where the script does.
    async fn next(&mut self) -> Option<Result<EngineEvent>> {
        while !self.over {
            let Some(event) = self.events.next() else {
                self.over = true;
                let by_calls = match self.called {
                    true => FinishReason::ToolCalls,
                    false => FinishReason::End,
                };
                let reason = self.reason.take().unwrap_or(by_calls);
                return Some(Ok(EngineEvent::Finished { reason }));
            };
            match event {
                ScriptEvent::Text { text } => return Some(Ok(EngineEvent::TextDelta { text })),
                ScriptEvent::Reasoning { text } => {
                    return Some(Ok(EngineEvent::ReasoningDelta { text }));
                }
                ScriptEvent::Call(call) => {
                    self.called = true;
                    return Some(Ok(EngineEvent::Call(call)));
                }
                ScriptEvent::Usage(usage) => return Some(Ok(EngineEvent::Usage(usage))),
                ScriptEvent::Sleep { ms } => tokio::time::sleep(Duration::from_millis(ms)).await,
                ScriptEvent::Stall => std::future::pending().await,
                ScriptEvent::Stop { reason } => self.reason = Some(reason),
                ScriptEvent::Cut => self.over = true,
                error @ ScriptEvent::Error { .. } => {
                    self.over = true;
                    return scripted_error(&error).map(Err);
                }
            }
        }
        None
    }
}

fn play(round: Round, name_source: impl Fn(Error) -> Error + Send + 'static) -> EngineStream {
    let player = Player {
        events: round.events.into_iter(),
        called: false,
        reason: None,
        over: false,
    };
    Box::pin(stream::unfold(
        (player, name_source),
        |(mut player, name_source)| async move {
            let event = player.next().await?;
            Some((event.map_err(&name_source), (player, name_source)))
        },
    ))
}
