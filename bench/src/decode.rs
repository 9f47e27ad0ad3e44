//! The bytes of a stream, as events.

use std::hint::black_box;

use haft_bench::{Pair, Result};
use haft_ext_engine_openai::ChatDecoder;
use serde::Deserialize;

/// A network hands over about so much at once.
const PIECE: usize = 16 * 1024;
const MEGABYTE: usize = 1_000_000;

/// A megabyte of text deltas; the floor finds the lines and reads the text.
pub(crate) fn stream() -> Result<Pair> {
    let mut stream = String::new();
    while stream.len() < MEGABYTE {
        stream.push_str(&event(stream.len()));
    }
    stream.truncate(MEGABYTE);
    let same = stream.clone();
    Pair::of_operations(
        move || {
            let (mut decoder, mut events) = (ChatDecoder::default(), Vec::new());
            let mut count = 0;
            for piece in black_box(stream.as_bytes()).chunks(PIECE) {
                decoder.push(piece, &mut events)?;
                count += events.len();
                events.clear();
            }
            Ok(count)
        },
        move || read(black_box(same.as_bytes())),
    )
}

fn event(number: usize) -> String {
    let word = [
        "let", " token", " =", " self", ".next", "()?;\\n", "\\t", "match",
    ][number % 8];
    format!(
        "data: {{\"id\":\"chatcmpl-Bx2yHq4kPz0fT7mNc1vRs8dLw3\",\"object\":\
         \"chat.completion.chunk\",\"created\":1760000000,\"model\":\"served-model-2025-08-07\",\
         \"service_tier\":\"default\",\"system_fingerprint\":\"fp_4a5b6c7d8e\",\"choices\":\
         [{{\"index\":0,\"delta\":{{\"content\":\"{word}\"}},\"logprobs\":null,\
         \"finish_reason\":null}}],\"usage\":null}}\n\n"
    )
}

fn read(stream: &[u8]) -> Result<usize> {
    #[derive(Deserialize)]
    struct Chunk {
        choices: [Choice; 1],
    }
    #[derive(Deserialize)]
    struct Choice {
        delta: Delta,
    }
    #[derive(Deserialize)]
    struct Delta {
        content: String,
    }
    let (mut at, mut count) = (0, 0);
    while let Some(end) = memchr::memchr(b'\n', &stream[at..]) {
        if let Some(data) = stream[at..at + end].strip_prefix(b"data: ") {
            let Chunk { choices: [choice] } = serde_json::from_slice(data)?;
            black_box(choice.delta.content);
            count += 1;
        }
        at += end + 1;
    }
    Ok(count)
}
