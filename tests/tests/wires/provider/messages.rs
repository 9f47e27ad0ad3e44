//! Messages.

use serde_json::{Value, json};

use super::{CALLING, Checked, check_name, check_tools};

fn thinking() -> Value {
    json!({"type": "thinking", "thinking": "hm", "signature": "messages-state"})
}

pub(super) fn check(request: &Value) -> Checked {
    if !request["model"].is_string() || request["stream"] != true {
        return Err("no model, or no stream".to_owned());
    }
    if request["max_tokens"].as_u64().is_none_or(|most| most == 0) {
        return Err("no max_tokens".to_owned());
    }
    // One of them is the request's own.
    let marks = request.to_string().matches("cache_control").count();
    if marks > 4 {
        return Err(format!("{marks} marks, and 4 are allowed"));
    }
    for block in request["system"].as_array().into_iter().flatten() {
        check_text(&block["text"])?;
    }
    check_tools(
        &request["tools"],
        |tool| &tool["name"],
        |tool| &tool["input_schema"],
    )?;
    let messages = request["messages"].as_array().ok_or("no messages")?;
    for end in [messages.first(), messages.last()] {
        if end.is_none_or(|message| message["role"] != "user") {
            return Err("the first and the last message must be the user's".to_owned());
        }
    }
    check_messages(messages)
}

/// Text of more than white space.
fn check_text(text: &Value) -> Checked {
    match text.as_str().map(str::trim) {
        Some("") | None => Err(format!("no text: {text}")),
        Some(_) => Ok(()),
    }
}

fn check_messages(messages: &[Value]) -> Checked {
    let mut ids: Vec<&str> = Vec::new();
    // The calls that the next message has to answer, before anything else.
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        let is_user = match message["role"].as_str() {
            Some("user") => true,
            Some("assistant") => false,
            other => return Err(format!("unknown role {other:?}")),
        };
        let content = &message["content"];
        let Some(blocks) = content.as_array() else {
            check_text(content)?;
            if !open.is_empty() {
                return Err(format!("no result for {open:?}"));
            }
            continue;
        };
        if blocks.is_empty() {
            return Err("no blocks".to_owned());
        }
        let mut wanted = std::mem::take(&mut open);
        for block in blocks {
            match (block["type"].as_str(), is_user) {
                (Some("tool_result"), true) => {
                    let id = block["tool_use_id"].as_str().ok_or("no tool_use_id")?;
                    if wanted.is_empty() || wanted.remove(0) != id {
                        return Err(format!("a result of no open call: {block}"));
                    }
                    check_result(&block["content"])?;
                }
                _ if !wanted.is_empty() => return Err(format!("no result for {wanted:?}")),
                (Some("text"), _) => check_text(&block["text"])?,
                (Some("image"), true) => check_image(block)?,
                (Some("thinking"), false) if *block == thinking() => {}
                (Some("tool_use"), false) => {
                    check_name(&block["name"])?;
                    let id = check_name(&block["id"])?;
                    if ids.contains(&id) || !block["input"].is_object() {
                        return Err(format!("an id of two, or no input: {block}"));
                    }
                    ids.push(id);
                    open.push(id);
                }
                _ => return Err(format!("a block out of place: {block}")),
            }
        }
        if !wanted.is_empty() {
            return Err(format!("no result for {wanted:?}"));
        }
    }
    match open.is_empty() {
        true => Ok(()),
        false => Err(format!("no result for {open:?}")),
    }
}

fn check_result(content: &Value) -> Checked {
    let Some(blocks) = content.as_array() else {
        return check_text(content);
    };
    for block in blocks {
        match block["type"].as_str() {
            Some("text") => check_text(&block["text"])?,
            Some("image") => check_image(block)?,
            other => return Err(format!("unknown block {other:?}")),
        }
    }
    Ok(())
}

fn check_image(block: &Value) -> Checked {
    let source = &block["source"];
    let is_image = source["media_type"]
        .as_str()
        .is_some_and(|media| media.starts_with("image/"));
    match source["type"] == "base64" && is_image && source["data"].is_string() {
        true => Ok(()),
        false => Err(format!("no picture: {block}")),
    }
}

pub(super) fn respond(request: &Value) -> Vec<Value> {
    let asked = &request["messages"]
        .as_array()
        .and_then(|m| m.last())
        .unwrap()["content"];
    let delta = |index: u64, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let mut events = vec![
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 5,
            "cache_read_input_tokens": 4, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block":
            {"type": "thinking", "thinking": "", "signature": ""}}),
        delta(0, json!({"type": "thinking_delta", "thinking": "hm"})),
        delta(
            0,
            json!({"type": "signature_delta", "signature": "messages-state"}),
        ),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "ping"}),
    ];
    let reason = if asked == CALLING {
        events.push(
            json!({"type": "content_block_start", "index": 1, "content_block":
            {"type": "tool_use", "id": "toolu_1", "name": request["tools"][0]["name"],
             "input": {}}}),
        );
        for piece in ["{\"at\":", "1}"] {
            events.push(delta(
                1,
                json!({"type": "input_json_delta", "partial_json": piece}),
            ));
        }
        "tool_use"
    } else {
        events.push(
            json!({"type": "content_block_start", "index": 1, "content_block":
            {"type": "text", "text": ""}}),
        );
        for piece in ["Hel", "lo."] {
            events.push(delta(1, json!({"type": "text_delta", "text": piece})));
        }
        "end_turn"
    };
    events.push(json!({"type": "content_block_stop", "index": 1}));
    events.push(
        json!({"type": "message_delta", "delta": {"stop_reason": reason},
        "usage": {"output_tokens": 3}}),
    );
    events.push(json!({"type": "message_stop"}));
    events
}
