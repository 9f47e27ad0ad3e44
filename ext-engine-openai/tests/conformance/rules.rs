//! What a Chat Completions request must keep to.

use serde_json::Value;

type Checked = Result<(), String>;

pub(crate) fn check(request: &Value) -> Checked {
    if !request["model"].is_string() || request["stream"] != true {
        return Err("no model, or no stream".to_owned());
    }
    let mut names = Vec::new();
    for tool in request["tools"].as_array().into_iter().flatten() {
        let function = &tool["function"];
        let name = check_name(&function["name"])?;
        if names.contains(&name) {
            return Err(format!("two tools are called {name}"));
        }
        names.push(name);
        let parameters = &function["parameters"];
        if parameters["type"] != "object" || !parameters["properties"].is_object() {
            return Err(format!("no object schema: {parameters}"));
        }
    }
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
            serde_json::from_str::<serde_json::Map<String, Value>>(arguments)
                .map_err(|e| format!("arguments are no object ({e}): {arguments}"))?;
            open.push(call["id"].as_str().ok_or("no id")?);
        }
    }
    match open.is_empty() {
        true => Ok(()),
        false => Err(format!("no result for {open:?}")),
    }
}

fn check_name(name: &Value) -> Result<&str, String> {
    let name = name.as_str().ok_or("no name")?;
    let word = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'-';
    match (1..=64).contains(&name.len()) && name.bytes().all(word) {
        true => Ok(name),
        false => Err(format!("not a function's name: {name:?}")),
    }
}

fn check_text(content: &Value) -> Checked {
    match content.as_str() {
        Some("") | None => Err(format!("no text: {content}")),
        Some(_) => Ok(()),
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
                let url = part["image_url"]["url"].as_str().ok_or("no URL")?;
                if !url.starts_with("data:image/") || !url.contains(";base64,") {
                    return Err(format!("no picture: {url}"));
                }
            }
            other => return Err(format!("unknown part {other:?}")),
        }
    }
    Ok(())
}
