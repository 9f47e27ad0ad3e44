//! What is heard of an answer, whole or broken off.

use haft_api::{EngineEvent, ErrorKind, FinishReason, Usage};
use haft_engine_http::events::{EventDecoder, EventRules};
use serde::Deserialize;

#[derive(Deserialize, Clone, PartialEq, Debug, Default)]
pub(crate) struct HeardCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) args: String,
}

#[derive(Default, Debug, PartialEq)]
pub(crate) struct Heard {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    /// The calls as they were displayed: name and arguments.
    pub(crate) shown: Vec<(String, String)>,
    pub(crate) calls: Vec<HeardCall>,
    /// States of reasoning that the provider wants back.
    pub(crate) states: Vec<String>,
    pub(crate) usage: Option<Usage>,
    pub(crate) finished: Option<FinishReason>,
    pub(crate) error: Option<ErrorKind>,
}

/// Hears an answer that comes in chunks of this size.
pub(crate) fn hear<R: EventRules + Default>(bytes: &[u8], chunk: usize) -> Heard {
    let mut decoder = EventDecoder::<R>::default();
    let mut events = Vec::new();
    let pushed = bytes
        .chunks(chunk)
        .try_for_each(|chunk| decoder.push(chunk, &mut events));
    let outcome = pushed.and_then(|()| decoder.finish(&mut events));
    sum_up(events, outcome)
}

pub(crate) fn sum_up(events: Vec<EngineEvent>, outcome: haft_api::Result<()>) -> Heard {
    let mut heard = Heard {
        error: outcome.err().map(|e| e.kind()),
        ..Heard::default()
    };
    for event in events {
        assert!(heard.finished.is_none(), "{event:?} after the end");
        match event {
            EngineEvent::TextDelta { text } => heard.text.push_str(&text),
            EngineEvent::ReasoningDelta { text } => heard.reasoning.push_str(&text),
            EngineEvent::ReasoningEnd { state: Some(state) } => {
                heard.states.push(state.data.get().to_owned());
            }
            EngineEvent::CallDelta {
                index,
                name,
                arguments,
            } => {
                let index = index as usize;
                if heard.shown.len() <= index {
                    heard.shown.resize_with(index + 1, Default::default);
                }
                heard.shown[index].0.push_str(&name.unwrap_or_default());
                heard.shown[index].1.push_str(&arguments);
            }
            EngineEvent::Call(call) => heard.calls.push(HeardCall {
                id: call.id.unwrap_or_default(),
                name: call.name,
                args: call.arguments,
            }),
            EngineEvent::Usage(usage) => heard.usage = Some(usage),
            EngineEvent::Finished { reason } => heard.finished = Some(reason),
            _ => {}
        }
    }
    heard
}
