//! Engines.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use haft_api::boundary::wire::{ContributedEngine, HistoryData, ModelArgs, Nothing, TurnArgs};
use haft_api::boundary::{Call, MessageRef, RESEND_HISTORY, Remote, is_unimplemented};
use haft_api::{
    EngineEvent, EngineRequest, EngineStream, Error, ErrorKind, ExtensionId, InferenceEngine, Item,
    ModelInfo, Readiness, Result, ThreadId, async_trait,
};

/// Most threads whose sent histories are remembered. Whatever falls out is sent
/// anew.
const MAX_THREADS: usize = 256;

/// How much of a thread's history the plug-in has.
struct Sent {
    generation: u64,
    items: usize,
    /// The last one: another item in its place is another history, whatever its
    /// generation says.
    last: Arc<Item>,
}

pub(crate) struct Engine {
    remote: Remote,
    id: ExtensionId,
    keeps_history: bool,
    sent: Mutex<HashMap<ThreadId, Sent>>,
}

impl Engine {
    pub(crate) fn new(remote: Remote, contributed: ContributedEngine) -> Self {
        Self {
            remote,
            id: contributed.id,
            keeps_history: contributed.keeps_history,
            sent: Mutex::default(),
        }
    }

    fn sent(&self) -> MutexGuard<'_, HashMap<ThreadId, Sent>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many items of the request's history the plug-in should have.
    fn known(&self, request: &EngineRequest) -> usize {
        let sent = self.sent();
        let Some(sent) = sent.get(&request.thread) else {
            return 0;
        };
        let items = request.history.items();
        let same = sent.generation == request.history.generation()
            && sent.items > 0
            && items
                .get(sent.items - 1)
                .is_some_and(|item| Arc::ptr_eq(item, &sent.last));
        if same { sent.items } else { 0 }
    }

    fn note(&self, request: &EngineRequest) {
        let items = request.history.items();
        let Some(last) = items.last().filter(|_| self.keeps_history) else {
            return;
        };
        let mut sent = self.sent();
        if sent.len() >= MAX_THREADS && !sent.contains_key(&request.thread) {
            // Which one goes matters little: it costs one full history.
            let any = sent.keys().next().cloned();
            any.map(|any| sent.remove(&any));
        }
        let entry = Sent {
            generation: request.history.generation(),
            items: items.len(),
            last: Arc::clone(last),
        };
        sent.insert(request.thread.clone(), entry);
    }

    fn forget(&self, thread: &ThreadId) {
        self.sent().remove(thread);
    }

    /// Begins a round without the first `from` items of the history.
    fn begin(&self, request: &EngineRequest, from: usize) -> Call {
        let mut blob = Vec::new();
        let history = &request.history;
        let history = HistoryData::new(history.generation(), from, history.items(), &mut blob);
        let arguments = TurnArgs {
            thread: request.thread.clone(),
            turn: request.turn.clone(),
            round: request.round,
            model: request.model.clone(),
            instructions: Arc::clone(&request.instructions),
            history,
            tools: Arc::clone(&request.tools),
            tool_choice: request.tool_choice.clone(),
            options: request.options.clone(),
            output_schema: request.output_schema.clone(),
            deadline: request.deadline,
        };
        self.remote
            .call_with("stream_turn", &arguments, &blob, Vec::new())
    }

    /// Begins a round and waits until the model has accepted it.
    async fn accepted(&self, request: &EngineRequest, from: usize) -> Result<Call> {
        let mut call = self.begin(request, from);
        // The plug-in has read the request by now; before anything is awaited,
        // as this future may be dropped there.
        self.note(request);
        let accepted = call.item(|message| message.read::<Nothing>()).await;
        let error = match accepted {
            Some(Ok(Nothing {})) => return Ok(call),
            Some(Err(error)) => error,
            None => Error::new(ErrorKind::Corrupt, "the round ended before it began")
                .operation("stream_turn")
                .context("plug-in", self.remote.link().name()),
        };
        self.forget(&request.thread);
        Err(error)
    }
}

#[async_trait]
impl InferenceEngine for Engine {
    fn id(&self) -> &ExtensionId {
        &self.id
    }

    async fn readiness(&self) -> Readiness {
        match self.remote.call("readiness", &Nothing {}).reply().await {
            Ok(readiness) => readiness,
            Err(error) => readiness_from(&error),
        }
    }

    async fn models(&self) -> Result<Vec<ModelInfo>> {
        self.remote.call("models", &Nothing {}).reply().await
    }

    async fn model(&self, name: Option<&str>) -> Result<ModelInfo> {
        let arguments = ModelArgs {
            name: name.map(str::to_owned),
        };
        match self.remote.call("model", &arguments).reply().await {
            Err(error) if is_unimplemented(&error) => {}
            result => return result,
        }
        // As the trait's own default does.
        let mut models = self.models().await?.into_iter();
        match name {
            None => models.next().ok_or_else(|| {
                Error::new(ErrorKind::NotFound, "the engine has no default model")
                    .context("engine", &self.id)
            }),
            Some(name) => Ok(models
                .find(|model| model.name == name)
                .unwrap_or_else(|| ModelInfo::new(name))),
        }
    }

    async fn stream_turn(&self, request: EngineRequest) -> Result<EngineStream> {
        let known = self.known(&request);
        let call = match self.accepted(&request, known).await {
            Err(error) if known > 0 && error.context_value(RESEND_HISTORY).is_some() => {
                self.accepted(&request, 0).await?
            }
            result => result?,
        };
        Ok(Box::pin(Events { call }))
    }
}

/// What is said of the readiness of something that can't be asked.
pub(super) fn readiness_from(error: &Error) -> Readiness {
    if is_unimplemented(error) {
        return Readiness::Ready;
    }
    Readiness::Unavailable {
        reason: error.to_string(),
    }
}

/// A round's events.
struct Events {
    call: Call,
}

impl Stream for Events {
    type Item = Result<EngineEvent>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match ready!(self.call.poll_item(context, read_event)) {
                // Of a kind that a later version has invented.
                Some(Ok(None)) => {}
                Some(Ok(Some(event))) => return Poll::Ready(Some(Ok(event))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

/// The kinds of event that this version knows.
const KNOWN: [&str; 9] = [
    "text_delta",
    "reasoning_delta",
    "text_end",
    "reasoning_end",
    "call_delta",
    "call",
    "usage",
    "served",
    "finished",
];

fn read_event(message: MessageRef<'_>) -> Result<Option<EngineEvent>> {
    message.read().map(Some).or_else(|error: Error| {
        let fields: HashMap<String, serde::de::IgnoredAny> = match message.read() {
            Ok(fields) => fields,
            Err(_) => return Err(error),
        };
        let kind = fields.keys().next().filter(|_| fields.len() == 1);
        if kind.is_some_and(|kind| !KNOWN.contains(&&**kind)) {
            Ok(None)
        } else {
            Err(error)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_kinds_of_event_are_skipped_and_broken_ones_are_not() {
        let read = |json: &str| {
            read_event(MessageRef {
                json: json.as_bytes(),
                blob: &[],
            })
        };
        let check = |json: &str| assert!(matches!(read(json), Ok(None)), "{json}");
        check(r#"{"mood":{"text":"x"}}"#);
        check(r#"{"mood":1}"#);
        let known = read(r#"{"text_delta":{"text":"x"}}"#).unwrap();
        assert!(matches!(known, Some(EngineEvent::TextDelta { .. })));
        let refuse = |json: &str| assert!(read(json).is_err(), "{json}");
        refuse(r#"{"text_delta":{}}"#);
        refuse(r#"{"served":{"engine":"NO"}}"#);
        refuse(r#"{"text_delta":{"text":"x"},"more":1}"#);
        refuse("{}");
        refuse("[]");
        refuse("tja");
    }

    #[test]
    fn the_known_kinds_are_all_kinds() {
        use haft_api::{EngineToolCall, FinishReason, Usage};
        let call = EngineToolCall {
            id: None,
            name: String::new(),
            arguments: String::new(),
            state: None,
        };
        let text = String::new;
        let (index, name, arguments) = (0, None, text());
        let all = [
            EngineEvent::TextDelta { text: text() },
            EngineEvent::ReasoningDelta { text: text() },
            EngineEvent::TextEnd { state: None },
            EngineEvent::ReasoningEnd { state: None },
            EngineEvent::CallDelta {
                index,
                name,
                arguments,
            },
            EngineEvent::Call(call),
            EngineEvent::Usage(Usage::default()),
            EngineEvent::Served {
                engine: ExtensionId::new("e").unwrap(),
                model: None,
            },
            EngineEvent::Finished {
                reason: FinishReason::End,
            },
        ];
        for event in all {
            let json = serde_json::to_vec(&event).unwrap();
            let message = MessageRef {
                json: &json,
                blob: &[],
            };
            assert_eq!(read_event(message).unwrap(), Some(event));
        }
        // An unknown kind's error names them all, in their order.
        let error = serde_json::from_str::<EngineEvent>(r#"{"mood":1}"#).unwrap_err();
        let error = error.to_string();
        let named: Vec<_> = error.split('`').skip(1).step_by(2).collect();
        assert_eq!(named[0], "mood", "{error}");
        assert_eq!(named[1..], KNOWN, "{error}");
    }
}
