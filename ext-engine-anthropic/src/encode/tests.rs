use haft_api::{
    CallId, ErrorKind, History, Item, Part, ProviderState, ThreadId, ToolCall, ToolName,
    ToolResult, TurnId, raw_json,
};

use super::*;

fn settings() -> Arc<EncodeSettings> {
    Arc::new(EncodeSettings {
        provider: "p/messages".to_owned(),
        max_tokens: None,
        cache: false,
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

fn thought(provider: &str, data: &str) -> Item {
    Item::Reasoning {
        text: "hm".to_owned(),
        state: Some(ProviderState {
            provider: provider.to_owned(),
            data: raw_json(data).unwrap(),
        }),
    }
}

const THINKING: &str = r#"{"type":"thinking","thinking":"hm","signature":"s"}"#;

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
    json!({"role": "user", "content": content.into()})
}

fn said(blocks: &[Value]) -> Value {
    json!({"role": "assistant", "content": blocks})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn wire_call(id: &str, input: Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": "fs_-read", "input": input})
}

fn wire_result(id: &str, content: impl Into<Value>) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": content.into()})
}

#[test]
fn items_become_messages() {
    let check = |items: Vec<Item>, expected: Vec<Value>| {
        let about = format!("{items:?}");
        let body = body_of(&request(items), "m", &settings());
        assert_eq!(body["messages"], Value::from(expected), "{about}");
    };
    let thinking: Value = serde_json::from_str(THINKING).unwrap();
    check(vec![], vec![]);
    check(
        vec![Item::user("a"), Item::assistant("b"), Item::user(" \n")],
        vec![user("a"), said(&[text("b")]), user("(no text)")],
    );
    // What this provider wants back, and nothing of another one's.
    let redacted = r#"{"type":"redacted_thinking","data":"x"}"#;
    check(
        vec![
            Item::user("a"),
            thought("p/messages", redacted),
            thought("p/messages", THINKING),
            thought("p", THINKING),
            Item::assistant("b"),
            call("c1", r#"{"x":1}"#),
            result("c1", false, vec![Part::text("y")]),
        ],
        vec![
            user("a"),
            said(&[
                serde_json::from_str(redacted).unwrap(),
                thinking.clone(),
                text("b"),
                wire_call("c1", json!({"x": 1})),
            ]),
            user(vec![wire_result("c1", "y")]),
        ],
    );
    check(
        vec![
            Item::user("a"),
            thought("p/messages", THINKING),
            Item::user("b"),
        ],
        vec![user("a"), user("b")],
    );
    // Results stand in the order of their calls, in one message.
    let mut failed = wire_result("c2", "two");
    failed["is_error"] = Value::from(true);
    check(
        vec![
            Item::user("a"),
            call("c1", "{}"),
            call("c2", r#""{\"x""#),
            result("c2", true, vec![Part::text("two")]),
            result("c1", false, vec![Part::text("here"), image()]),
        ],
        vec![
            user("a"),
            said(&[
                wire_call("c1", json!({})),
                wire_call("c2", json!({"invalid_arguments": "{\"x"})),
            ]),
            user(vec![
                wire_result(
                    "c1",
                    vec![
                        text("here"),
                        json!({"type": "image", "source":
                            {"type": "base64", "media_type": "image/png", "data": "AA=="}}),
                    ],
                ),
                failed,
            ]),
        ],
    );
    // A call without a result, a result without a call, no user at first.
    let mut missing = wire_result("c1", "The call was not run.");
    missing["is_error"] = Value::from(true);
    check(
        vec![call("c1", "{}"), Item::user("b")],
        vec![
            user("(The conversation goes on.)"),
            said(&[wire_call("c1", json!({}))]),
            user(vec![missing]),
            user("b"),
        ],
    );
    check(
        vec![Item::user("a"), result("c9", false, vec![Part::text("y")])],
        vec![
            user("a"),
            user(vec![text("Result of `fs.read` (call c9): y")]),
        ],
    );
}

#[test]
fn marks_stand_where_they_do_not_move() {
    let mut request = request(vec![Item::user("a")]);
    request.instructions = Arc::from("be brief");
    let tool = |name: &str| ToolSpec::new(ToolName::new(name).unwrap(), "");
    request.tools = [tool("a"), tool("b")].into();
    let settings = Arc::new(EncodeSettings {
        cache: true,
        ..(*settings()).clone()
    });
    let mark = json!({"type": "ephemeral"});
    let body = body_of(&request, "m", &settings);
    assert_eq!(body["cache_control"], mark);
    assert_eq!(body["system"][0]["cache_control"], mark);
    assert_eq!(body["tools"][1]["cache_control"], mark);
    assert!(body["tools"][0].get("cache_control").is_none());
    assert_eq!(body.to_string().matches("cache_control").count(), 3);
}

#[test]
fn options_are_sent_as_this_wire_has_them() {
    let mut request = request(vec![Item::user("a")]);
    let tool = ToolSpec::new(ToolName::new("fs.read").unwrap(), "Reads.");
    request.tools = [tool].into();
    request.options.temperature = Some(0.5);
    request.options.stop = vec!["x".to_owned()];
    let body = body_of(&request, "qwen", &settings());
    assert_eq!(body["max_tokens"], 8_192);
    assert_eq!(body["temperature"], 0.5);
    assert_eq!(body["stop_sequences"], json!(["x"]));
    assert!(body.get("tool_choice").is_none(), "{body}");
    let schema = json!({"type": "object", "properties": {}});
    let tools = json!([{"name": "fs_-read", "description": "Reads.", "input_schema": schema}]);
    assert_eq!(body["tools"], tools);

    let mut check = |choice: ToolChoice, parallel: Option<bool>, expected: Value| {
        request.tool_choice = choice;
        request.options.parallel_tool_calls = parallel;
        let body = body_of(&request, "m", &settings());
        assert_eq!(body["tool_choice"], expected);
    };
    check(
        ToolChoice::Auto,
        Some(false),
        json!({"type": "auto", "disable_parallel_tool_use": true}),
    );
    check(ToolChoice::Required, None, json!({"type": "any"}));
    check(ToolChoice::None, Some(false), json!({"type": "none"}));
    check(
        ToolChoice::Named("fs.read".to_owned()),
        Some(true),
        json!({"type": "tool", "name": "fs_-read", "disable_parallel_tool_use": false}),
    );

    request.options.temperature = Some(f64::NAN);
    let error = encode(&request, "m", &settings()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn the_most_tokens_are_the_requests_else_the_settings_else_the_models() {
    let check = |asked: Option<u64>, set: Option<u64>, model: &str, expected: u64| {
        let mut request = request(vec![Item::user("a")]);
        request.options.max_output_tokens = asked;
        let settings = Arc::new(EncodeSettings {
            max_tokens: set,
            ..(*settings()).clone()
        });
        let body = body_of(&request, model, &settings);
        assert_eq!(body["max_tokens"], expected, "{model}");
    };
    check(Some(7), Some(8), "claude-sonnet-5-5", 7);
    check(None, Some(8), "claude-sonnet-5-5", 8);
    check(None, None, "claude-sonnet-5-5", 32_000);
    check(None, None, "claude-3-haiku-20240307", 4_096);
}

#[test]
fn thinking_is_asked_for_as_the_model_takes_it() {
    let check = |items: Vec<Item>, effort: &str, model: &str, thinking: Value, config: Value| {
        let about = format!("{items:?} {effort} {model}");
        let mut request = request(items);
        request.options.reasoning_effort = Some(effort.to_owned());
        let body = body_of(&request, model, &settings());
        assert_eq!(body["thinking"], thinking, "{about}");
        assert_eq!(body["output_config"], config, "{about}");
    };
    let asked = || vec![Item::user("a")];
    let adaptive = || json!({"type": "adaptive", "display": "summarized"});
    let budget = |tokens: u64| json!({"type": "enabled", "budget_tokens": tokens});
    check(
        asked(),
        "high",
        "claude-opus-5",
        adaptive(),
        json!({"effort": "high"}),
    );
    check(
        asked(),
        "minimal",
        "claude-opus-5",
        adaptive(),
        json!({"effort": "low"}),
    );
    check(
        asked(),
        "medium",
        "claude-haiku-4-5",
        budget(10_240),
        Value::Null,
    );
    check(
        asked(),
        "none",
        "claude-haiku-4-5",
        Value::Null,
        Value::Null,
    );
    check(asked(), "high", "claude-3-haiku", Value::Null, Value::Null);
    // A round that began without it, or elsewhere, goes on without it.
    let round = |thought: Option<Item>| {
        let mut items = asked();
        items.extend(thought);
        items.push(call("c1", "{}"));
        items.push(result("c1", false, vec![Part::text("y")]));
        items
    };
    let model = "claude-haiku-4-5";
    check(round(None), "low", model, Value::Null, Value::Null);
    let foreign = Some(thought("p", THINKING));
    check(round(foreign), "low", model, Value::Null, Value::Null);
    let own = Some(thought("p/messages", THINKING));
    check(round(own), "low", model, budget(4_096), Value::Null);
}

#[test]
fn settings_win_and_take_out() {
    let extra = json!({"max_tokens": 9, "stream": null, "metadata": {"user_id": "u"}});
    let settings = Arc::new(EncodeSettings {
        extra_body: extra.as_object().unwrap().clone(),
        ..(*settings()).clone()
    });
    let body = body_of(&request(vec![Item::user("a")]), "m", &settings);
    assert_eq!(body["max_tokens"], 9);
    assert_eq!(body["metadata"], json!({"user_id": "u"}));
    assert!(body.get("stream").is_none(), "{body}");
}

#[test]
fn a_longer_history_extends_the_bytes_and_costs_its_new_items() {
    let settings = settings();
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
