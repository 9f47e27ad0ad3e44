//! Chat Completions.

use serde_json::{Value, json};

use super::{CALLING, Checked, check_data_url, check_name, check_object, check_text, check_tools};

/// What reasoning leaves to be given back, in a message that has it.
const DETAIL: &str = r#"[{"data":"chat-state","type":"reasoning.encrypted"}]"#;

pub(super) fn check(request: &Value) -> Checked {
    if !request["model"].is_string() || request["stream"] != true {
        return Err("no model, or no stream".to_owned());
    }
    check_tools(
        &request["tools"],
        |tool| &tool["function"]["name"],
        |tool| &tool["function"]["parameters"],
    )?;
    check_messages(request["messages"].as_array().ok_or("no messages")?)
}

fn check_messages(messages: &[Value]) -> Checked {
    // The calls that the messages to come have to answer, in this order.
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        let role = message["role"].as_str().ok_or("no role")?;
        if role == "tool" {
            let id = message["tool_call_id"].as_str().ok_or("no tool_call_id")?;
            if open.is_empty() || open.remove(0) != id {
                return Err(format!("a result of no open call: {message}"));
            }
        } else if !open.is_empty() {
            return Err(format!("no result for {open:?} before {message}"));
        }
        let details = &message["reasoning_details"];
        if !details.is_null() && (role != "assistant" || details.to_string() != DETAIL) {
            return Err(format!("not a state of this server: {details}"));
        }
        let calls = message["tool_calls"].as_array();
        let content = &message["content"];
        match role {
            "system" | "tool" => check_text(content)?,
            "user" => check_content(content)?,
            "assistant" if content.is_null() && calls.is_some_and(|calls| !calls.is_empty()) => {}
            "assistant" => check_text(content)?,
            other => return Err(format!("unknown role {other}")),
        }
        for call in calls.into_iter().flatten() {
            if role != "assistant" || call["type"] != "function" {
                return Err(format!("no call: {message}"));
            }
            check_name(&call["function"]["name"])?;
            let arguments = call["function"]["arguments"]
                .as_str()
                .ok_or("no arguments")?;
            check_object(arguments)?;
            open.push(call["id"].as_str().ok_or("no id")?);
        }
    }
    match open.is_empty() {
        true => Ok(()),
        false => Err(format!("no result for {open:?}")),
    }
}

fn check_content(content: &Value) -> Checked {
    let Some(parts) = content.as_array() else {
        return check_text(content);
    };
    if parts.is_empty() {
        return Err("no parts".to_owned());
    }
    for part in parts {
        match part["type"].as_str() {
            Some("text") => check_text(&part["text"])?,
            Some("image_url") => {
                check_data_url(&part["image_url"]["url"])?;
            }
            other => return Err(format!("unknown part {other:?}")),
        }
    }
    Ok(())
}

pub(super) fn respond(request: &Value) -> Vec<Value> {
    let asked = &request["messages"]
        .as_array()
        .and_then(|m| m.last())
        .unwrap()["content"];
    let details: Value = serde_json::from_str(DETAIL).unwrap();
    let mut deltas = vec![json!({"reasoning": "hm", "reasoning_details": details})];
    deltas.extend(match asked == CALLING {
        false => vec![json!({"content": "Hel"}), json!({"content": "lo."})],
        true => {
            let name = &request["tools"][0]["function"]["name"];
            vec![
                json!({"tool_calls": [{"index": 0, "id": "c", "type": "function",
                    "function": {"name": name, "arguments": "{\"at\":"}}]}),
                json!({"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]}),
            ]
        }
    });
    let mut events: Vec<Value> = deltas
        .iter()
        .map(|delta| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]}))
        .collect();
    events.push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}));
    events.push(
        json!({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 4}}}),
    );
    events.push(Value::from("[DONE]"));
    events
}
