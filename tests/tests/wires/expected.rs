//! What recordings say, read in the plainest way: a whole recording as values,
//! with none of the decoders' code. For Responses the last word is the server's
//! own, which tells the whole response where it ends.

use serde_json::Value;

use crate::heard::HeardCall;

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Expected {
    /// The text of all answers in the recording.
    pub(crate) text: String,
    pub(crate) reasoning: String,
    pub(crate) refusal: bool,
    /// The calls of the last answer.
    pub(crate) calls: Vec<HeardCall>,
    /// Whether the last answer was cut off.
    pub(crate) cut: bool,
    /// Input and output of the last answer.
    pub(crate) usage: (u64, u64),
}

/// The values of a recording's events.
pub(crate) fn values(bytes: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(bytes).unwrap();
    let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
    data.filter_map(|data| serde_json::from_str(data).ok())
        .collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(crate) fn of_responses(bytes: &[u8]) -> Expected {
    let mut expected = Expected::default();
    for event in values(bytes) {
        if !matches!(
            text(&event["type"]),
            "response.completed" | "response.incomplete"
        ) {
            continue;
        }
        let response = &event["response"];
        expected.calls.clear();
        expected.cut = event["type"] == "response.incomplete";
        for item in list(&response["output"]) {
            match text(&item["type"]) {
                "message" => {
                    for part in list(&item["content"]) {
                        expected.text += text(&part["text"]);
                        expected.refusal |= part["refusal"].is_string();
                    }
                }
                "reasoning" => {
                    let told = match list(&item["summary"]) {
                        [] => &item["content"],
                        _ => &item["summary"],
                    };
                    for part in list(told) {
                        expected.reasoning += text(&part["text"]);
                    }
                }
                "function_call" => expected.calls.push(HeardCall {
                    id: text(&item["call_id"]).to_owned(),
                    name: text(&item["name"]).to_owned(),
                    args: text(&item["arguments"]).to_owned(),
                }),
                _ => {}
            }
        }
        let usage = &response["usage"];
        expected.usage = (
            usage["input_tokens"].as_u64().unwrap(),
            usage["output_tokens"].as_u64().unwrap(),
        );
    }
    expected
}

pub(crate) fn of_messages(bytes: &[u8]) -> Expected {
    let mut expected = Expected::default();
    let mut blocks: Vec<Value> = Vec::new();
    let (mut input, mut output) = (0, 0);
    for event in values(bytes) {
        let usage = match text(&event["type"]) {
            "message_start" => {
                blocks.clear();
                &event["message"]["usage"]
            }
            "content_block_start" => {
                let mut block = event["content_block"].clone();
                block["pieces"] = Value::from("");
                blocks.push(block);
                continue;
            }
            "content_block_delta" => {
                let delta = &event["delta"];
                expected.text += text(&delta["text"]);
                expected.reasoning += text(&delta["thinking"]);
                let block = &mut blocks[event["index"].as_u64().unwrap() as usize];
                let pieces = text(&block["pieces"]).to_owned() + text(&delta["partial_json"]);
                block["pieces"] = Value::from(pieces);
                continue;
            }
            "message_delta" => {
                expected.cut = event["delta"]["stop_reason"] == "max_tokens";
                &event["usage"]
            }
            _ => continue,
        };
        let all = [
            "input_tokens",
            "cache_creation_input_tokens",
            "cache_read_input_tokens",
        ];
        if usage["input_tokens"].is_u64() {
            input = all.iter().filter_map(|key| usage[key].as_u64()).sum();
        }
        output = usage["output_tokens"].as_u64().unwrap();
    }
    let calls = blocks.iter().filter(|block| block["type"] == "tool_use");
    expected.calls = calls
        .map(|block| HeardCall {
            id: text(&block["id"]).to_owned(),
            name: text(&block["name"]).to_owned(),
            args: match text(&block["pieces"]) {
                "" => block["input"].to_string(),
                pieces => pieces.to_owned(),
            },
        })
        .collect();
    expected.usage = (input, output);
    expected
}
