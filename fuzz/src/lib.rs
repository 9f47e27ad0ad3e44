//! What must hold of a decoder, whatever comes.
#![forbid(unsafe_code)]

use haft_api::{EngineEvent, FinishReason};
use haft_engine_http::SseDecoder;
use haft_engine_http::events::{EventDecoder, EventRules};

/// Everything that is heard of some bytes.
#[derive(Debug, PartialEq)]
struct Heard {
    text: String,
    reasoning: String,
    calls: Vec<haft_api::EngineToolCall>,
    finished: Option<FinishReason>,
    failed: bool,
}

fn hear<R: EventRules + Default>(bytes: &[u8], chunk: usize) -> Heard {
    let mut decoder = EventDecoder::<R>::default();
    let mut events = Vec::new();
    let pushed = bytes
        .chunks(chunk.max(1))
        .try_for_each(|chunk| decoder.push(chunk, &mut events));
    let failed = pushed.and_then(|()| decoder.finish(&mut events)).is_err();
    let mut heard = Heard {
        text: String::new(),
        reasoning: String::new(),
        calls: Vec::new(),
        finished: None,
        failed,
    };
    for event in events {
        assert_eq!(heard.finished, None, "{event:?} after the end");
        match event {
            EngineEvent::TextDelta { text } => heard.text.push_str(&text),
            EngineEvent::ReasoningDelta { text } => heard.reasoning.push_str(&text),
            EngineEvent::Call(call) => heard.calls.push(call),
            EngineEvent::Finished { reason } => heard.finished = Some(reason),
            _ => {}
        }
    }
    heard
}

/// The sizes of the pieces that an input comes in, besides as a whole: single
/// bytes, and as many as its first byte says.
fn chunks(data: &[u8]) -> [usize; 2] {
    [1, data.first().map_or(1, |size| usize::from(*size))]
}

/// An answer ends once or fails, runs nothing of what failed, and is the same
/// however its bytes are cut.
///
/// # Panics
/// If one of these doesn't hold.
pub fn decoder<R: EventRules + Default>(data: &[u8]) {
    let whole = hear::<R>(data, usize::MAX);
    assert_eq!(whole.failed, whole.finished.is_none());
    if whole.finished != Some(FinishReason::ToolCalls) {
        assert_eq!(whole.calls, []);
    }
    for chunk in chunks(data) {
        assert_eq!(whole, hear::<R>(data, chunk));
    }
}

fn events(bytes: &[u8], chunk: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut decoder = SseDecoder::new();
    let mut events = Vec::new();
    for chunk in bytes.chunks(chunk.max(1)) {
        let read = decoder.push(chunk, |e| events.push((e.name.to_vec(), e.data.to_vec())));
        assert!(read.is_ok(), "no input here is of 64 MiB");
    }
    decoder.finish(|event| events.push((event.name.to_vec(), event.data.to_vec())));
    events
}

/// The events are the same however the bytes are cut, and hold no more than
/// these.
///
/// # Panics
/// If one of these doesn't hold.
pub fn sse(data: &[u8]) {
    let whole = events(data, usize::MAX);
    for chunk in chunks(data) {
        assert_eq!(whole, events(data, chunk));
    }
    let size: usize = whole
        .iter()
        .map(|(name, data)| name.len() + data.len())
        .sum();
    assert!(size <= data.len() + 5 * whole.len());
}
