//! The decoders against streams made by hand, one for each rule.

use std::path::Path;

use haft_api::FinishReason;
use haft_engine_http::events::EventRules;
use haft_ext_engine_anthropic::MessagesRules;
use haft_ext_engine_openai::{ChatRules, ResponsesRules};
use serde::Deserialize;

use crate::heard::{Heard, HeardCall, hear};

#[derive(Deserialize)]
pub(crate) struct Stream {
    pub(crate) file: String,
    rule: String,
    expect: Expected,
}

#[derive(Deserialize)]
struct Expected {
    text: String,
    reason: String,
    calls: Vec<HeardCall>,
    fin: Option<String>,
    usage: Option<(u64, u64)>,
    #[serde(default)]
    states: Vec<String>,
}

/// All streams, with their bytes.
pub(crate) fn streams() -> Vec<(Stream, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("streams");
    let index = std::fs::read(folder.join("index.json")).unwrap();
    let index: Vec<Stream> = serde_json::from_slice(&index).unwrap();
    assert!(index.len() > 100, "only {} streams", index.len());
    let read = |stream: Stream| {
        let bytes = std::fs::read(folder.join(&stream.file)).unwrap();
        (stream, bytes)
    };
    index.into_iter().map(read).collect()
}

/// Hears a stream by the rules of the wire that its folder is called by.
pub(crate) fn hear_file(file: &str, bytes: &[u8], chunk: usize) -> Heard {
    match file.split('/').next() {
        Some("chat") => hear::<ChatRules>(bytes, chunk),
        Some("responses") => hear::<ResponsesRules>(bytes, chunk),
        Some("messages") => hear::<MessagesRules>(bytes, chunk),
        other => panic!("no wire is called {other:?}"),
    }
}

#[test]
fn every_rule_is_kept() {
    for (stream, bytes) in streams() {
        for chunk in [1, 2, 7, 4096, usize::MAX] {
            let heard = hear_file(&stream.file, &bytes, chunk);
            let about = format!("{} ({}) in chunks of {chunk}", stream.file, stream.rule);
            let expected = &stream.expect;
            assert_eq!(heard.text, expected.text, "text of {about}");
            assert_eq!(heard.reasoning, expected.reason, "reasoning of {about}");
            assert_eq!(heard.calls, expected.calls, "calls of {about}");
            assert_eq!(heard.states, expected.states, "states of {about}");
            let usage = heard.usage.map(|u| (u.input.unwrap(), u.output.unwrap()));
            assert_eq!(usage, expected.usage, "usage of {about}");
            let finished = heard.finished.as_ref().map(|reason| match reason {
                FinishReason::End => "end",
                FinishReason::ToolCalls => "tool_calls",
                FinishReason::Length => "length",
                FinishReason::ContentFilter => "content_filter",
                _ => "other",
            });
            assert_eq!(finished, expected.fin.as_deref(), "end of {about}");
            assert_eq!(heard.error.is_some(), expected.fin.is_none(), "{about}");
            if heard.finished == Some(FinishReason::ToolCalls) {
                let shown: Vec<_> = heard.calls.iter().map(|c| (&c.name, &c.args)).collect();
                let seen: Vec<_> = heard.shown.iter().map(|(n, a)| (n, a)).collect();
                // What an answer that began anew had shown before can't be unseen.
                assert!(seen.ends_with(&shown), "display of {about}: {seen:?}");
            }
        }
    }
}

/// A number sequence that is the same in each run (xorshift of 64 bits).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below.max(1) as u64) as usize
    }
}

/// Changes a stream a little, as no server would.
fn mutate(bytes: &mut Vec<u8>, dice: &mut Dice) {
    const WORDS: [&str; 12] = [
        "\n\n", "\r", "data: ", "null", "{", "}", "\"", "[DONE]", "\\ud800", "\u{feff}", "-1", ":",
    ];
    for _ in 0..=dice.roll(4) {
        if bytes.is_empty() {
            return;
        }
        let at = dice.roll(bytes.len());
        let end = (at + dice.roll(40)).min(bytes.len());
        match dice.roll(6) {
            0 => bytes[at] = dice.roll(256) as u8,
            1 => drop(bytes.drain(at..end)),
            2 => {
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            3 => bytes.truncate(at),
            4 => {
                let word = WORDS[dice.roll(WORDS.len())].bytes();
                bytes.splice(at..at, word);
            }
            _ => {
                let from = dice.roll(bytes.len());
                let piece = bytes[from..(from + 60).min(bytes.len())].to_vec();
                bytes.splice(at..end, piece);
            }
        }
    }
}

fn keeps_its_promises<R: EventRules + Default>(bytes: &[u8], chunk: usize) {
    let whole = hear::<R>(bytes, usize::MAX);
    assert_eq!(whole.error.is_none(), whole.finished.is_some(), "{whole:?}");
    if whole.finished != Some(FinishReason::ToolCalls) {
        assert_eq!(whole.calls, [], "{whole:?}");
    }
    assert_eq!(whole, hear::<R>(bytes, chunk), "in chunks of {chunk}");
}

/// Whatever comes, each decoder ends once or fails, runs nothing of what failed,
/// and doesn't care how the bytes were cut.
#[test]
fn nothing_that_comes_breaks_a_decoder() {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    for (stream, bytes) in streams() {
        for _ in 0..60 {
            let mut bytes = bytes.clone();
            mutate(&mut bytes, &mut dice);
            let chunk = 1 + dice.roll(50);
            let shown = String::from_utf8_lossy(&bytes).into_owned();
            let outcome = std::panic::catch_unwind(|| {
                keeps_its_promises::<ChatRules>(&bytes, chunk);
                keeps_its_promises::<ResponsesRules>(&bytes, chunk);
                keeps_its_promises::<MessagesRules>(&bytes, chunk);
            });
            assert!(outcome.is_ok(), "made of {}:\n{shown}", stream.file);
        }
    }
}
