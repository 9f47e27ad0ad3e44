//! Responses.

use serde_json::{Value, json};

use super::{CALLING, Checked, check_data_url, check_name, check_object, check_text, check_tools};

/// What the server encrypts its reasoning to.
const ENCRYPTED: &str = "responses-state";

fn reasoning() -> Value {
    json!({"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": ENCRYPTED})
}

pub(super) fn check(request: &Value) -> Checked {
    if !request["model"].is_string() || request["stream"] != true || request["store"] != false {
        return Err("no model, no stream, or to be stored".to_owned());
    }
    if request["include"] != json!(["reasoning.encrypted_content"]) {
        return Err("reasoning isn't asked for".to_owned());
    }
    let key = &request["prompt_cache_key"];
    if key
        .as_str()
        .is_none_or(|key| key.is_empty() || key.len() > 64)
    {
        return Err(format!("not a key: {key}"));
    }
    check_tools(
        &request["tools"],
        |tool| &tool["name"],
        |tool| &tool["parameters"],
    )?;
    let input = request["input"]
        .as_array()
        .filter(|input| !input.is_empty());
    check_input(input.ok_or("no input")?)
}

fn check_input(input: &[Value]) -> Checked {
    let mut open: Vec<&str> = Vec::new();
    for (place, item) in input.iter().enumerate() {
        match item["type"].as_str() {
            Some("message") if !open.is_empty() => {
                return Err(format!("no output for {open:?} before {item}"));
            }
            Some("message") => check_message(item)?,
            Some("reasoning") => {
                let next = input.get(place + 1).map(|next| &next["type"]);
                if *item != reasoning() || next.is_none_or(|next| next == "reasoning") {
                    return Err(format!("not this server's, or nothing came of it: {item}"));
                }
            }
            Some("function_call") => {
                check_name(&item["name"])?;
                check_object(item["arguments"].as_str().ok_or("no arguments")?)?;
                open.push(check_name(&item["call_id"])?);
            }
            Some("function_call_output") => {
                let id = item["call_id"].as_str().ok_or("no call_id")?;
                if open.is_empty() || open.remove(0) != id {
                    return Err(format!("an output of no open call: {item}"));
                }
                check_content(&item["output"], "input_text")?;
            }
            other => return Err(format!("unknown item {other:?}")),
        }
    }
    match open.is_empty() {
        true => Ok(()),
        false => Err(format!("no output for {open:?}")),
    }
}

fn check_message(item: &Value) -> Checked {
    match item["role"].as_str() {
        Some("user") => check_content(&item["content"], "input_text"),
        Some("assistant") => check_content(&item["content"], "output_text"),
        other => Err(format!("unknown role {other:?}")),
    }
}

fn check_content(content: &Value, text: &str) -> Checked {
    let Some(parts) = content.as_array() else {
        return check_text(content);
    };
    if parts.is_empty() {
        return Err("no parts".to_owned());
    }
    for part in parts {
        match part["type"].as_str() {
            Some(name) if name == text => check_text(&part["text"])?,
            Some("input_image") if text == "input_text" => check_data_url(&part["image_url"])?,
            other => return Err(format!("unknown part {other:?}")),
        }
    }
    Ok(())
}

pub(super) fn respond(request: &Value) -> Vec<Value> {
    let asked = &request["input"].as_array().and_then(|i| i.last()).unwrap()["content"];
    let mut events = vec![
        json!({"type": "response.created", "response": {"status": "in_progress"}}),
        json!({"type": "response.output_item.added", "output_index": 0,
            "item": {"id": "rs_1", "type": "reasoning", "summary": []}}),
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0,
            "summary_index": 0, "delta": "hm"}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": reasoning()}),
    ];
    if asked == CALLING {
        let item = |arguments: &str| {
            json!({"id": "fc_1", "type": "function_call", "call_id": "call_1",
                "name": request["tools"][0]["name"], "arguments": arguments})
        };
        events.push(
            json!({"type": "response.output_item.added", "output_index": 1,
            "item": item("")}),
        );
        for piece in ["{\"at\":", "1}"] {
            events.push(
                json!({"type": "response.function_call_arguments.delta", "output_index": 1,
                "delta": piece}),
            );
        }
        events.push(
            json!({"type": "response.output_item.done", "output_index": 1,
            "item": item("{\"at\":1}")}),
        );
    } else {
        for piece in ["Hel", "lo."] {
            events.push(
                json!({"type": "response.output_text.delta", "output_index": 1,
                "content_index": 0, "delta": piece}),
            );
        }
    }
    events.push(
        json!({"type": "response.completed", "response": {"status": "completed",
        "usage": {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4},
            "output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 1}}}}),
    );
    events
}
