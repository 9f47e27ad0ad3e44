//! The decoders against recorded answers of real servers.
//!
//! The recordings aren't part of the project. They are looked for where
//! `HAFT_STREAMS` says, and otherwise beside the checkout; without them these
//! tests say so and pass.
#![expect(
    clippy::print_stderr,
    reason = "whoever runs the tests is told of what is skipped"
)]

use std::path::{Path, PathBuf};

use haft_api::{ErrorKind, FinishReason};
use haft_engine_http::events::{EventDecoder, EventRules};
use haft_engine_http::failure;
use haft_ext_engine_anthropic::MessagesRules;
use haft_ext_engine_openai::{ChatRules, ResponsesRules};
use serde::Deserialize;

use crate::expected::{self, Expected};
use crate::heard::{HeardCall, hear, sum_up};

/// The sizes of the pieces that a recording comes in.
const CHUNKS: [usize; 4] = [1, 7, 4096, usize::MAX];

#[derive(Deserialize)]
struct Recording {
    file: String,
    status: u16,
    expect: Option<ExpectedChat>,
}

#[derive(Deserialize)]
struct ExpectedChat {
    text: String,
    reason: String,
    calls: Vec<HeardCall>,
    fin: String,
    usage: bool,
    err: bool,
}

fn corpus() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/streams");
    let folder = std::env::var_os("HAFT_STREAMS").map_or(root, PathBuf::from);
    folder.join("index.json").is_file().then_some(folder)
}

/// Runs `check` over the recordings of a folder, of which there are so many.
fn each(folder: &str, at_least: usize, check: impl Fn(&Recording, &[u8])) {
    let Some(root) = corpus() else {
        eprintln!("skipped: no corpus");
        return;
    };
    let index = std::fs::read(root.join("index.json")).unwrap();
    let index: Vec<Recording> = serde_json::from_slice(&index).unwrap();
    let mut count = 0;
    for recording in &index {
        let path = Path::new(&recording.file);
        if path.parent() == Some(Path::new(folder)) {
            check(recording, &std::fs::read(root.join(path)).unwrap());
            count += 1;
        }
    }
    assert!(count >= at_least, "only {count} recordings in {folder}");
}

fn each_chat(check: impl Fn(&str, &[u8], &ExpectedChat)) {
    each("chat", 231, |recording, bytes| {
        if let Some(expected) = &recording.expect {
            check(&recording.file, bytes, expected);
        }
    });
}

/// Whether a call's arguments end in their middle.
fn is_cut_off(call: &HeardCall) -> bool {
    !call.args.is_empty() && serde_json::from_str::<serde_json::Value>(&call.args).is_err()
}

#[test]
fn every_recorded_chat_is_heard_as_it_was_said() {
    each_chat(|file, bytes, expected| {
        for chunk in CHUNKS {
            let heard = hear::<ChatRules>(bytes, chunk);
            let about = format!("{file} in chunks of {chunk}");
            assert_eq!(heard.text, expected.text, "text of {about}");
            assert_eq!(heard.reasoning, expected.reason, "reasoning of {about}");
            assert_eq!(heard.usage.is_some(), expected.usage, "usage of {about}");
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
            let cut_off = expected.calls.iter().any(is_cut_off);
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

#[test]
fn every_recorded_response_is_heard_as_it_was_said() {
    each("responses", 72, |recording, bytes| {
        hears::<ResponsesRules>(&recording.file, bytes, &expected::of_responses(bytes));
    });
}

#[test]
fn every_recorded_message_is_heard_as_it_was_said() {
    each("messages", 108, |recording, bytes| {
        hears::<MessagesRules>(&recording.file, bytes, &expected::of_messages(bytes));
    });
}

fn hears<R: EventRules + Default>(file: &str, bytes: &[u8], expected: &Expected) {
    for chunk in CHUNKS {
        let heard = hear::<R>(bytes, chunk);
        let about = format!("{file} in chunks of {chunk}");
        assert_eq!(heard.error, None, "error of {about}");
        assert_eq!(heard.text, expected.text, "text of {about}");
        assert_eq!(heard.reasoning, expected.reasoning, "reasoning of {about}");
        let usage = heard.usage.unwrap_or_else(|| panic!("no usage of {about}"));
        let (input, output) = (usage.input.unwrap(), usage.output.unwrap());
        assert_eq!((input, output), expected.usage, "usage of {about}");
        let cut = expected.cut || expected.calls.iter().any(is_cut_off);
        let calls = if cut { &[][..] } else { &expected.calls };
        assert_eq!(heard.calls, calls, "calls of {about}");
        match heard.finished {
            Some(FinishReason::Length) => assert!(cut, "{about}"),
            Some(FinishReason::ToolCalls) => assert!(!calls.is_empty(), "{about}"),
            Some(FinishReason::End) => assert!(!cut && calls.is_empty(), "{about}"),
            Some(FinishReason::Other(word)) if word.starts_with("refusal: ") => {
                assert!(expected.refusal, "{about}");
            }
            other => panic!("{about} ends with {other:?}"),
        }
    }
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

/// How a line changes whether the server has said that the answer is whole.
fn ends_chat(data: &str) -> Option<bool> {
    let ends = data == "[DONE]"
        || serde_json::from_str::<serde_json::Value>(data).is_ok_and(|chunk| {
            chunk["choices"]
                .as_array()
                .is_some_and(|list| list.iter().any(|c| c["finish_reason"].is_string()))
        });
    ends.then_some(true)
}

fn ends_response(data: &str) -> Option<bool> {
    let event: serde_json::Value = serde_json::from_str(data).ok()?;
    match event["type"].as_str()? {
        "response.created" => Some(false),
        "response.completed" | "response.incomplete" => Some(true),
        _ => None,
    }
}

fn ends_message(data: &str) -> Option<bool> {
    let event: serde_json::Value = serde_json::from_str(data).ok()?;
    match event["type"].as_str()? {
        "message_start" => Some(false),
        "message_stop" => Some(true),
        _ => None,
    }
}

#[test]
fn a_recorded_chat_that_is_cut_never_ends_well() {
    each_chat(|file, bytes, expected| {
        never_ends_well::<ChatRules>(file, bytes, &expected.text, expected.err, ends_chat);
    });
}

#[test]
fn a_recorded_response_that_is_cut_never_ends_well() {
    each("responses", 72, |recording, bytes| {
        let text = expected::of_responses(bytes).text;
        never_ends_well::<ResponsesRules>(&recording.file, bytes, &text, false, ends_response);
    });
}

#[test]
fn a_recorded_message_that_is_cut_never_ends_well() {
    each("messages", 108, |recording, bytes| {
        let text = expected::of_messages(bytes).text;
        never_ends_well::<MessagesRules>(&recording.file, bytes, &text, false, ends_message);
    });
}

fn never_ends_well<R: EventRules + Default + Clone>(
    file: &str,
    bytes: &[u8],
    text: &str,
    fails: bool,
    ends: fn(&str) -> Option<bool>,
) {
    let boundaries = boundaries(bytes);
    let mut decoder = EventDecoder::<R>::default();
    let mut before = Vec::new();
    let mut whole = false;
    for pair in boundaries.windows(2) {
        let event = &bytes[pair[0]..pair[1]];
        // At the boundary, and within the event that follows it.
        for cut in [0, 1, event.len() / 2, event.len().saturating_sub(3)] {
            if whole {
                break;
            }
            let about = format!("{file} cut at {} + {cut}", pair[0]);
            let mut decoder = decoder.clone();
            let mut events = before.clone();
            let outcome = decoder
                .push(&event[..cut], &mut events)
                .and_then(|()| decoder.finish(&mut events));
            let heard = sum_up(events, outcome);
            assert_eq!(heard.finished, None, "{about}");
            assert_eq!(heard.calls, [], "{about}");
            if !fails {
                assert_eq!(heard.error, Some(ErrorKind::Unavailable), "{about}");
            }
            assert!(text.starts_with(&heard.text), "{about}");
        }
        if decoder.push(event, &mut before).is_err() {
            break;
        }
        let lines = std::str::from_utf8(event).unwrap().lines();
        let data = lines.filter_map(|line| line.trim().strip_prefix("data:"));
        whole = data
            .map(str::trim)
            .filter_map(ends)
            .next_back()
            .unwrap_or(whole);
    }
}

#[test]
fn every_recorded_refusal_says_what_the_server_said() {
    let folders = [
        ("chat/errors", 22),
        ("responses/errors", 7),
        ("messages/errors", 13),
    ];
    for (folder, at_least) in folders {
        each(folder, at_least, |recording, bytes| {
            let error = failure::from_response(recording.status, bytes, None);
            let about = format!("{}: {error}", recording.file);
            let body: serde_json::Value = serde_json::from_slice(bytes).unwrap_or_default();
            let said = ["/error/message", "/message", "/detail", "/0/error/message"]
                .iter()
                .find_map(|path| body.pointer(path)?.as_str());
            let first_words: Vec<_> = said
                .unwrap_or_default()
                .split_whitespace()
                .take(5)
                .collect();
            assert!(
                error.to_string().contains(&first_words.join(" ")),
                "{about}"
            );
            assert!(recording.status >= 500 || !error.is_temporary(), "{about}");
            match recording.status {
                401 | 403 => assert_eq!(error.kind(), ErrorKind::Denied, "{about}"),
                404 => assert_eq!(error.kind(), ErrorKind::NotFound, "{about}"),
                _ => {}
            }
        });
    }
}
