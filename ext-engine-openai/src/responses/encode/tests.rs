use haft_api::{
    CallId, History, Item, Part, ProviderState, ThreadId, ToolCall, ToolName, ToolResult, TurnId,
    raw_json,
};

use super::*;

fn settings(is_strict: bool) -> Arc<EncodeSettings> {
    Arc::new(EncodeSettings {
        provider: "p/responses".to_owned(),
        is_strict,
        reasoning_summary: None,
        extra_body: serde_json::Map::new(),
    })
}

fn request(items: Vec<Item>) -> EngineRequest {
    let items = items.into_iter().map(Arc::new).collect();
    EngineRequest::new(
        ThreadId::new("t").unwrap(),
        TurnId::new("u").unwrap(),
        History::new(1, items),
    )
}

fn body_of(request: &EngineRequest, model: &str, settings: &Arc<EncodeSettings>) -> Value {
    let encoded = encode(request, model, settings).unwrap();
    serde_json::from_slice(&encoded.body).unwrap_or_else(|e| {
        panic!("{e}: {}", String::from_utf8_lossy(&encoded.body));
    })
}

fn state(provider: &str, data: &str) -> Option<ProviderState> {
    Some(ProviderState {
        provider: provider.to_owned(),
        data: raw_json(data).unwrap(),
    })
}

fn call(id: &str, arguments: &str) -> Item {
    Item::ToolCall(ToolCall {
        id: CallId::new(id).unwrap(),
        name: "fs.read".to_owned(),
        arguments: raw_json(arguments).unwrap(),
        state: None,
    })
}

fn result(id: &str, is_error: bool, parts: Vec<Part>) -> Item {
    Item::ToolResult(ToolResult {
        call_id: CallId::new(id).unwrap(),
        name: "fs.read".to_owned(),
        is_error,
        parts,
    })
}

fn image() -> Part {
    Part::Image {
        media_type: "image/png".to_owned(),
        data: "AA==".to_owned(),
    }
}

fn user(content: impl Into<Value>) -> Value {
    json!({"type": "message", "role": "user", "content": content.into()})
}

fn said(text: &str) -> Value {
    json!({"type": "message", "role": "assistant",
        "content": [{"type": "output_text", "text": text}]})
}

fn wire_call(id: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "call_id": id, "name": "fs_-read", "arguments": arguments})
}

fn output(id: &str, output: impl Into<Value>) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": output.into()})
}

#[test]
fn items_become_items() {
    let check = |items: Vec<Item>, strict: bool, expected: Vec<Value>| {
        let about = format!("{items:?}");
        let body = body_of(&request(items), "m", &settings(strict));
        assert_eq!(body["input"], Value::from(expected), "{about}");
    };
    let own = r#"{"type":"reasoning","id":"rs","summary":[],"encrypted_content":"x"}"#;
    let thought = |provider: &str| Item::Reasoning {
        text: "hm".to_owned(),
        state: state(provider, own),
    };
    let reasoning: Value = serde_json::from_str(own).unwrap();
    check(vec![], true, vec![]);
    check(
        vec![Item::user("a"), Item::assistant("b"), Item::user("c")],
        true,
        vec![user("a"), said("b"), user("c")],
    );
    // What this provider wants back, and nothing of another one's.
    check(
        vec![
            Item::user("a"),
            thought("p/responses"),
            Item::assistant("b"),
            Item::user("c"),
        ],
        true,
        vec![user("a"), reasoning.clone(), said("b"), user("c")],
    );
    check(
        vec![
            Item::user("a"),
            thought("p"),
            Item::assistant("b"),
            Item::user("c"),
        ],
        true,
        vec![user("a"), said("b"), user("c")],
    );
    // Reasoning that nothing came of.
    check(
        vec![Item::user("a"), thought("p/responses"), Item::user("c")],
        true,
        vec![user("a"), user("c")],
    );
    let trailing = vec![
        Item::assistant("b"),
        thought("p/responses"),
        Item::user("c"),
    ];
    check(trailing.clone(), true, vec![said("b"), user("c")]);
    check(
        trailing,
        false,
        vec![said("b"), reasoning.clone(), user("c")],
    );
    // The order of a round stays.
    check(
        vec![
            thought("p/responses"),
            call("a", "{}"),
            thought("p/responses"),
            call("b", r#""{\"x""#),
            result("a", false, vec![Part::text("one")]),
            result("b", true, vec![Part::text("two")]),
        ],
        true,
        vec![
            reasoning.clone(),
            wire_call("a", "{}"),
            reasoning,
            wire_call("b", r#"{"invalid_arguments":"{\"x"}"#),
            output("a", "one"),
            output("b", "Error: two"),
        ],
    );
    check(
        vec![call("a", "{}"), Item::user("b")],
        true,
        vec![
            wire_call("a", "{}"),
            output("a", "The call was not run."),
            user("b"),
        ],
    );
    let phased = Item::AssistantMessage {
        text: "b".to_owned(),
        state: state("p/responses", r#"{"phase":"commentary"}"#),
    };
    let mut expected = said("b");
    expected["phase"] = Value::from("commentary");
    check(vec![phased], true, vec![expected]);
}

#[test]
fn pictures_go_where_the_server_takes_them() {
    let check = |strict: bool, expected: Vec<Value>| {
        let items = vec![
            Item::UserMessage {
                parts: vec![Part::text("look"), image()],
            },
            call("a", "{}"),
            result("a", false, vec![Part::text("here"), image()]),
        ];
        let body = body_of(&request(items), "m", &settings(strict));
        assert_eq!(body["input"], Value::from(expected));
    };
    let text = |text: &str| json!({"type": "input_text", "text": text});
    let picture = json!({"type": "input_image", "image_url": "data:image/png;base64,AA=="});
    let asked = user(vec![text("look"), picture.clone()]);
    check(
        true,
        vec![
            asked.clone(),
            wire_call("a", "{}"),
            output("a", vec![text("here"), picture.clone()]),
        ],
    );
    check(
        false,
        vec![
            asked,
            wire_call("a", "{}"),
            output("a", "here"),
            user(vec![text("From `fs.read` (call a):"), picture]),
        ],
    );
}

#[test]
fn options_and_tools_are_sent_as_this_wire_has_them() {
    let mut request = request(vec![Item::user("a")]);
    request.instructions = Arc::from("be brief");
    let tool = ToolSpec::new(ToolName::new("fs.read").unwrap(), "Reads.");
    request.tools = [tool].into();
    request.tool_choice = ToolChoice::Named("fs.read".to_owned());
    request.options.max_output_tokens = Some(7);
    request.options.reasoning_effort = Some("low".to_owned());
    request.options.parallel_tool_calls = Some(false);
    let schema = r#"{"type":"object","properties":{},"additionalProperties":false}"#;
    request.output_schema = Some(Arc::from(raw_json(schema).unwrap()));
    let body = body_of(&request, "gpt-5", &settings(true));
    assert_eq!(
        body,
        json!({
            "model": "gpt-5", "stream": true, "store": false,
            "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": "t",
            "instructions": "be brief",
            "max_output_tokens": 7,
            "reasoning": {"effort": "low"},
            "tools": [{"type": "function", "name": "fs_-read", "description": "Reads.",
                "parameters": {"type": "object", "properties": {}}, "strict": false}],
            "tool_choice": {"type": "function", "name": "fs_-read"},
            "parallel_tool_calls": false,
            "text": {"format": {"type": "json_schema", "name": "answer", "strict": true,
                "schema": {"type": "object", "properties": {}, "additionalProperties": false}}},
            "input": [user("a")],
        })
    );
    request.options.stop = vec!["x".to_owned()];
    let error = encode(&request, "m", &settings(true)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("wire"), "{error}");
}

#[test]
fn reasoning_is_asked_for_where_there_is_any() {
    let check = |model: &str, strict: bool, expected: bool| {
        let body = body_of(&request(vec![Item::user("a")]), model, &settings(strict));
        assert_eq!(body["include"].is_array(), expected, "{model}");
    };
    check("gpt-5-mini", true, true);
    check("o3", true, true);
    check("gpt-4.1", true, false);
    check("gpt-5-chat-latest", true, false);
    check("gpt-4.1", false, true);
}

#[test]
fn settings_win_and_take_out() {
    let extra = json!({"store": true, "prompt_cache_key": null, "service_tier": "flex"});
    let settings = Arc::new(EncodeSettings {
        extra_body: extra.as_object().unwrap().clone(),
        reasoning_summary: Some("auto".to_owned()),
        ..(*settings(true)).clone()
    });
    let body = body_of(&request(vec![Item::user("a")]), "m", &settings);
    assert_eq!(body["store"], true);
    assert_eq!(body["service_tier"], "flex");
    assert_eq!(body["reasoning"], json!({"summary": "auto"}));
    assert!(body.get("prompt_cache_key").is_none(), "{body}");
}

#[test]
fn a_longer_history_extends_the_bytes_and_costs_its_new_items() {
    let settings = settings(true);
    let mut request = request(vec![Item::user("a"), Item::assistant("b"), Item::user("c")]);
    let short = encode(&request, "m", &settings).unwrap();
    assert_eq!(short.items_encoded, 3);
    for item in [call("a", "{}"), result("a", false, vec![Part::text("x")])] {
        request.history.push(Arc::new(item));
    }
    let long = encode(&request, "m", &settings).unwrap();
    assert_eq!(long.items_encoded, 2);
    let shared = &short.body[..short.body.len() - 2];
    assert!(long.body.starts_with(shared));
    request.memo = haft_api::EngineMemo::new();
    assert_eq!(encode(&request, "m", &settings).unwrap().body, long.body);
}
