//! Streams of all wires, as events.

use std::hint::black_box;
use std::path::{Path, PathBuf};

use haft_api::EngineEvent;
use haft_bench::{Pair, Result, Sample};
use haft_engine_http::events::{EventDecoder, EventRules};
use haft_engine_http::{AnswerDecoder, SseDecoder};
use haft_ext_engine_anthropic::MessagesRules;
use haft_ext_engine_openai::{ChatRules, ResponsesRules};

/// A network hands over about so much at once.
const PIECE: usize = 16 * 1024;
const MEGABYTE: usize = 1_000_000;

/// A stream, and the wire it came over.
struct Stream {
    wire: &'static str,
    bytes: Vec<u8>,
}

/// The recordings, where `HAFT_STREAMS` says or beside the checkout; without
/// them, the streams that are made by hand.
fn folder() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let recorded = std::env::var_os("HAFT_STREAMS")
        .map_or_else(|| root.join("../shared/streams"), PathBuf::from);
    match recorded.join("index.json").is_file() {
        true => recorded,
        false => root.join("tests/streams"),
    }
}

/// All streams, and how many megabytes they are; where there is less than one,
/// they are taken again.
fn streams() -> Result<(u32, Vec<Stream>)> {
    let (mut streams, mut size) = (Vec::new(), 0);
    for wire in ["chat", "responses", "messages"] {
        for entry in std::fs::read_dir(folder().join(wire))? {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "sse") {
                let bytes = std::fs::read(path)?;
                size += bytes.len();
                streams.push(Stream { wire, bytes });
            }
        }
    }
    let found = streams.len();
    while size < MEGABYTE {
        for place in 0..found {
            let Stream { wire, ref bytes } = streams[place];
            let bytes = bytes.clone();
            size += bytes.len();
            streams.push(Stream { wire, bytes });
        }
    }
    Ok((u32::try_from(size / MEGABYTE)?, streams))
}

fn decoder<R: EventRules + Default>() -> Box<dyn AnswerDecoder> {
    Box::new(EventDecoder::<R>::default())
}

/// A megabyte of all that was recorded; the floor parses each event's data as a
/// value and looks no further.
pub(crate) fn decode() -> Result<Pair> {
    let (megabytes, decoded) = streams()?;
    let (_, parsed) = streams()?;
    Ok(Pair::of_samples(
        move || {
            Sample::take(megabytes, || {
                for stream in &decoded {
                    let mut decoder = match stream.wire {
                        "chat" => decoder::<ChatRules>(),
                        "responses" => decoder::<ResponsesRules>(),
                        _ => decoder::<MessagesRules>(),
                    };
                    let mut events: Vec<EngineEvent> = Vec::new();
                    // Some are recordings of failures.
                    let whole = black_box(&stream.bytes).chunks(PIECE).all(|piece| {
                        events.clear();
                        decoder.push(piece, &mut events).is_ok()
                    });
                    if whole {
                        decoder.finish(&mut events).ok();
                    }
                    black_box(events);
                }
                Ok(())
            })
        },
        move || {
            Sample::take(megabytes, || {
                for stream in &parsed {
                    let mut decoder = SseDecoder::new();
                    for piece in black_box(&stream.bytes).chunks(PIECE) {
                        let read = decoder.push(piece, |event| {
                            let value = serde_json::from_slice::<serde_json::Value>(event.data);
                            black_box(value).ok();
                        });
                        read.map_err(|_| "an event of more than 64 MiB")?;
                    }
                }
                Ok(())
            })
        },
    ))
}
