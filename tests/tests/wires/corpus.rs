//! The decoder against recorded answers of real servers.
//!
//! The recordings aren't part of the project. They are looked for where
//! `HAFT_STREAMS` says, and otherwise beside the checkout; without them these
//! tests say so and pass.
#![expect(
    clippy::print_stderr,
    reason = "whoever runs the tests is told of what is skipped"
)]

use std::path::{Path, PathBuf};

use haft_api::{EngineEvent, ErrorKind, FinishReason};
use haft_ext_engine_openai::ChatDecoder;
use serde::Deserialize;

#[derive(Deserialize)]
struct Recording {
    file: String,
    expect: Option<Expected>,
}

#[derive(Deserialize)]
struct Expected {
    text: String,
    reason: String,
    calls: Vec<ExpectedCall>,
    fin: String,
    usage: bool,
    err: bool,
}

#[derive(Deserialize, PartialEq, Debug)]
struct ExpectedCall {
    id: String,
    name: String,
    args: String,
}

fn corpus() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/streams");
    let folder = std::env::var_os("HAFT_STREAMS").map_or(root, PathBuf::from);
    folder.join("index.json").is_file().then_some(folder)
}

/// Runs `check` over the recorded chats and what is expected of them.
fn each_chat(check: impl Fn(&str, &[u8], &Expected)) {
    let Some(folder) = corpus() else {
        eprintln!("skipped: no corpus");
        return;
    };
    let index = std::fs::read(folder.join("index.json")).unwrap();
    let index: Vec<Recording> = serde_json::from_slice(&index).unwrap();
    let mut count = 0;
    for recording in &index {
        if let Some(expected) = &recording.expect {
            let bytes = std::fs::read(folder.join(&recording.file)).unwrap();
            check(&recording.file, &bytes, expected);
            count += 1;
        }
    }
    assert!(count > 200, "only {count} recordings with expectations");
}

/// What was heard of an answer, whole or broken off.
#[derive(Default)]
struct Heard {
    text: String,
    reasoning: String,
    /// The calls as they were displayed: name and arguments.
    shown: Vec<(String, String)>,
    calls: Vec<ExpectedCall>,
    usage: bool,
    finished: Option<FinishReason>,
    error: Option<ErrorKind>,
}

fn hear(bytes: &[u8], chunk: usize) -> Heard {
    let mut decoder = ChatDecoder::default();
    let mut events = Vec::new();
    let pushed = bytes
        .chunks(chunk)
        .try_for_each(|chunk| decoder.push(chunk, &mut events));
    let outcome = pushed.and_then(|()| decoder.finish(&mut events));
    sum_up(events, outcome)
}

fn sum_up(events: Vec<EngineEvent>, outcome: haft_api::Result<()>) -> Heard {
    let mut heard = Heard {
        error: outcome.err().map(|e| e.kind()),
        ..Heard::default()
    };
    for event in events {
        assert!(heard.finished.is_none(), "{event:?} after the end");
        match event {
            EngineEvent::TextDelta { text } => heard.text.push_str(&text),
            EngineEvent::ReasoningDelta { text } => heard.reasoning.push_str(&text),
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
            EngineEvent::Call(call) => heard.calls.push(ExpectedCall {
                id: call.id.unwrap_or_default(),
                name: call.name,
                args: call.arguments,
            }),
            EngineEvent::Usage(_) => heard.usage = true,
            EngineEvent::Finished { reason } => heard.finished = Some(reason),
            _ => {}
        }
    }
    heard
}

#[test]
fn every_recorded_chat_is_heard_as_it_was_said() {
    each_chat(|file, bytes, expected| {
        for chunk in [1, 7, 4096, usize::MAX] {
            let heard = hear(bytes, chunk);
            let about = format!("{file} in chunks of {chunk}");
            assert_eq!(heard.text, expected.text, "text of {about}");
            assert_eq!(heard.reasoning, expected.reason, "reasoning of {about}");
            assert_eq!(heard.usage, expected.usage, "usage of {about}");
            assert_eq!(heard.error.is_some(), expected.err, "error of {about}");
            if expected.err {
                continue;
            }
            let calls: Vec<_> = expected
                .calls
                .iter()
                .map(|call| (call.name.clone(), call.args.clone()))
                .collect();
            assert_eq!(heard.shown, calls, "display of {about}");
            let cut_off = expected.calls.iter().any(|call| {
                let args = &call.args;
                !args.is_empty() && serde_json::from_str::<serde_json::Value>(args).is_err()
            });
            if expected.fin == "length" || cut_off {
                assert_eq!(heard.calls, [], "runnable calls of {about}");
                assert_eq!(heard.finished, Some(FinishReason::Length), "{about}");
            } else {
                assert_eq!(heard.calls, expected.calls, "calls of {about}");
                match heard.finished {
                    Some(FinishReason::ToolCalls) => assert!(!expected.calls.is_empty(), "{about}"),
                    Some(FinishReason::End) => assert!(expected.calls.is_empty(), "{about}"),
                    // The recordings' expectations know nothing of refusals.
                    Some(FinishReason::Other(word)) if word.starts_with("refusal: ") => {
                        assert!(
                            expected.text.is_empty() && expected.calls.is_empty(),
                            "{about}"
                        );
                    }
                    other => panic!("{about} ends with {other:?}"),
                }
            }
        }
    });
}

/// The ends of a recording's events: behind each blank line.
fn boundaries(bytes: &[u8]) -> Vec<usize> {
    let text = std::str::from_utf8(bytes).unwrap();
    let mut ends = vec![0];
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        at += line.len();
        if line.trim().is_empty() {
            ends.push(at);
        }
    }
    ends
}

/// Where the server has said that the answer is whole.
fn real_end(bytes: &[u8]) -> usize {
    let text = std::str::from_utf8(bytes).unwrap();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let data = line.trim().strip_prefix("data:").map(str::trim);
        let ends = data.is_some_and(|data| {
            data == "[DONE]"
                || serde_json::from_str::<serde_json::Value>(data).is_ok_and(|chunk| {
                    chunk["choices"]
                        .as_array()
                        .is_some_and(|list| list.iter().any(|c| c["finish_reason"].is_string()))
                })
        });
        if ends {
            return at;
        }
        at += line.len();
    }
    at
}

#[test]
fn a_recorded_chat_that_is_cut_never_ends_well() {
    each_chat(|file, bytes, expected| {
        let end = real_end(bytes);
        let boundaries = boundaries(bytes);
        let mut decoder = ChatDecoder::default();
        let mut before = Vec::new();
        for pair in boundaries.windows(2).take_while(|pair| pair[0] <= end) {
            let event = &bytes[pair[0]..pair[1]];
            // At the boundary, and within the event that follows it.
            for cut in [0, 1, event.len() / 2, event.len().saturating_sub(3)] {
                let about = format!("{file} cut at {} + {cut}", pair[0]);
                let mut decoder = decoder.clone();
                let mut events = before.clone();
                let outcome = decoder
                    .push(&event[..cut], &mut events)
                    .and_then(|()| decoder.finish(&mut events));
                let heard = sum_up(events, outcome);
                assert_eq!(heard.finished, None, "{about}");
                assert_eq!(heard.calls, [], "{about}");
                if !expected.err {
                    assert_eq!(heard.error, Some(ErrorKind::Unavailable), "{about}");
                }
                assert!(expected.text.starts_with(&heard.text), "{about}");
            }
            if decoder.push(event, &mut before).is_err() {
                break;
            }
        }
    });
}
