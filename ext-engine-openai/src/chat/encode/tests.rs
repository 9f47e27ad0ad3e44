use std::sync::Arc;

use haft_api::{
    CallId, EngineRequest, History, Item, NoticeLevel, Part, ProviderState, ThreadId, ToolCall,
    ToolChoice, ToolName, ToolResult, ToolSpec, TurnId, raw_json,
};
use serde_json::{Value, json};

use super::*;

fn settings() -> Arc<EncodeSettings> {
    Arc::new(EncodeSettings {
        provider: "p".to_owned(),
        max_tokens_field: Cow::Borrowed("max_tokens"),
        reasoning_field: None,
        short_call_ids: false,
        extra_body: serde_json::Map::new(),
    })
}

fn with_extra(extra: Value) -> Arc<EncodeSettings> {
    let Value::Object(extra_body) = extra else {
        panic!("extra_body is an object");
    };
    Arc::new(EncodeSettings {
        extra_body,
        ..(*settings()).clone()
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

fn body_of(request: &EngineRequest, settings: &Arc<EncodeSettings>) -> Value {
    let encoded = encode(request, "m", settings).unwrap();
    serde_json::from_slice(&encoded.body).unwrap_or_else(|e| {
        panic!("{e}: {}", String::from_utf8_lossy(&encoded.body));
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

fn result_of(id: &str, is_error: bool, parts: Vec<Part>) -> Item {
    Item::ToolResult(ToolResult {
        call_id: CallId::new(id).unwrap(),
        name: "fs.read".to_owned(),
        is_error,
        parts,
    })
}

fn result(id: &str, text: &str) -> Item {
    result_of(id, false, vec![Part::text(text)])
}

fn image() -> Part {
    Part::Image {
        media_type: "image/png".to_owned(),
        data: "AA==".to_owned(),
    }
}

fn notice() -> Item {
    Item::Notice {
        level: NoticeLevel::Info,
        code: "compaction".to_owned(),
        text: "unseen".to_owned(),
    }
}

fn thought(text: &str, state: Option<(&str, &str)>) -> Item {
    Item::Reasoning {
        text: text.to_owned(),
        state: state.map(|(provider, data)| ProviderState {
            provider: provider.to_owned(),
            data: raw_json(data).unwrap(),
        }),
    }
}

fn wire_call(id: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "fs_-read", "arguments": arguments}})
}

fn tool(id: &str, content: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": content})
}

fn user(content: impl Into<Value>) -> Value {
    json!({"role": "user", "content": content.into()})
}

#[test]
fn items_become_messages() {
    let check = |items: Vec<Item>, expected: Vec<Value>| {
        let about = format!("{items:?}");
        let body = body_of(&request(items), &settings());
        assert_eq!(body["messages"], Value::Array(expected), "{about}");
    };
    let picture = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}});
    let text = |text: &str| json!({"type": "text", "text": text});

    check(vec![], vec![]);
    check(vec![notice()], vec![]);
    check(vec![Item::user("hi \"you\"\n")], vec![user("hi \"you\"\n")]);
    check(
        vec![Item::user("a"), notice(), Item::user("b")],
        vec![user("a"), user("b")],
    );
    check(
        vec![Item::UserMessage {
            parts: vec![
                Part::text("a"),
                Part::Json {
                    value: raw_json("{\"x\": 1.0}").unwrap(),
                },
            ],
        }],
        vec![user("a\n{\"x\": 1.0}")],
    );
    check(
        vec![Item::UserMessage {
            parts: vec![Part::text("look"), image(), Part::text("")],
        }],
        vec![user(json!([text("look"), picture]))],
    );
    // A round is one message, and each call's result stands right after it.
    check(
        vec![
            Item::user("go"),
            thought("hm", None),
            Item::assistant("I look."),
            call("c1", "{\"a\": 1.0}"),
            notice(),
            call("c2", "{}"),
            result("c2", "two"),
            notice(),
            result("c1", "one"),
            Item::assistant("Done."),
        ],
        vec![
            user("go"),
            json!({"role": "assistant", "content": "I look.",
                "tool_calls": [wire_call("c1", "{\"a\": 1.0}"), wire_call("c2", "{}")]}),
            tool("c1", "one"),
            tool("c2", "two"),
            json!({"role": "assistant", "content": "Done."}),
        ],
    );
    check(
        vec![
            call("c1", "{}"),
            result("c1", "one"),
            call("c2", "{}"),
            result("c2", "two"),
        ],
        vec![
            json!({"role": "assistant", "content": null, "tool_calls": [wire_call("c1", "{}")]}),
            tool("c1", "one"),
            json!({"role": "assistant", "content": null, "tool_calls": [wire_call("c2", "{}")]}),
            tool("c2", "two"),
        ],
    );
    check(
        vec![
            Item::assistant("a"),
            thought("hm", None),
            Item::assistant("b"),
        ],
        vec![json!({"role": "assistant", "content": "a\n\nb"})],
    );
    check(vec![thought("hm", None), Item::user("x")], vec![user("x")]);
    // Pictures of results follow behind all results of the round.
    check(
        vec![
            call("c1", "{}"),
            call("c2", "{}"),
            result_of("c1", false, vec![Part::text("shot"), image(), image()]),
            result_of("c2", false, vec![image()]),
            Item::assistant("seen"),
        ],
        vec![
            json!({"role": "assistant", "content": null,
                "tool_calls": [wire_call("c1", "{}"), wire_call("c2", "{}")]}),
            tool("c1", "shot"),
            tool("c2", "The picture follows."),
            user(json!([
                text("From `fs.read` (call c1):"),
                picture,
                picture,
                text("From `fs.read` (call c2):"),
                picture
            ])),
            json!({"role": "assistant", "content": "seen"}),
        ],
    );
    // What no runtime would hand over is still a valid conversation.
    check(
        vec![call("c1", "{}"), Item::user("x"), result("c9", "late")],
        vec![
            json!({"role": "assistant", "content": null, "tool_calls": [wire_call("c1", "{}")]}),
            tool("c1", "The call was not run."),
            user("x"),
            user("Result of `fs.read` (call c9): late"),
        ],
    );
    check(
        vec![Item::UserMessage {
            parts: vec![Part::text("")],
        }],
        vec![user("(no text)")],
    );
}

#[test]
fn results_and_arguments_are_what_servers_take() {
    let arguments = |raw: &str, expected: &str| {
        let body = body_of(&request(vec![call("c", raw)]), &settings());
        let sent = &body["messages"][0]["tool_calls"][0]["function"]["arguments"];
        assert_eq!(sent, expected, "{raw}");
        serde_json::from_str::<serde_json::Map<String, Value>>(expected).unwrap();
    };
    arguments("{\"a\":\n 1.0}", "{\"a\":\n 1.0}");
    arguments(r#""""#, "{}");
    arguments(r#"" ""#, "{}");
    arguments(r#""{\"a\": ""#, r#"{"invalid_arguments":"{\"a\": "}"#);
    arguments("[1]", r#"{"invalid_arguments":"[1]"}"#);

    let content = |is_error: bool, parts: Vec<Part>, expected: &str| {
        let items = vec![call("c", "{}"), result_of("c", is_error, parts)];
        let body = body_of(&request(items), &settings());
        assert_eq!(body["messages"][1]["content"], expected);
    };
    let json = || Part::Json {
        value: raw_json("{\"n\": 1.0}").unwrap(),
    };
    content(
        false,
        vec![Part::text("a"), Part::text("b"), json()],
        "a\nb\n{\"n\": 1.0}",
    );
    content(false, vec![], "(no output)");
    content(false, vec![Part::text("")], "(no output)");
    content(
        true,
        vec![Part::text("no such file")],
        "Error: no such file",
    );
    content(
        true,
        vec![Part::text("error: no such file")],
        "error: no such file",
    );
    content(true, vec![Part::text("é")], "Error: é");
}

#[test]
fn ids_are_shortened_alike_in_call_and_result() {
    let short = Arc::new(EncodeSettings {
        short_call_ids: true,
        ..(*settings()).clone()
    });
    let items = vec![
        call("call_from_elsewhere", "{}"),
        result("call_from_elsewhere", "x"),
    ];
    let body = body_of(&request(items), &short);
    let id = &body["messages"][0]["tool_calls"][0]["id"];
    assert_eq!(id.as_str().map(str::len), Some(9));
    assert_eq!(&body["messages"][1]["tool_call_id"], id);
}

#[test]
fn the_head_says_what_was_asked_for_and_nothing_else() {
    let plain = body_of(&request(vec![Item::user("x")]), &settings());
    assert_eq!(
        plain,
        json!({"model": "m", "stream": true, "stream_options": {"include_usage": true},
            "messages": [user("x")]})
    );

    let schema = r#"{"type":"object","properties":{"b":{},"a":{}}}"#;
    let mut full = request(vec![Item::user("x")]);
    full.instructions = Arc::from("be kind");
    full.options.temperature = Some(0.5);
    full.options.max_output_tokens = Some(7);
    full.options.reasoning_effort = Some("low".to_owned());
    full.options.parallel_tool_calls = Some(false);
    full.options.stop = vec!["end".to_owned()];
    full.tools = Arc::from([
        ToolSpec::new(ToolName::new("fs.read").unwrap(), "reads")
            .schema(schema)
            .unwrap(),
        ToolSpec::new(ToolName::new("plain").unwrap(), ""),
    ]);
    full.output_schema = Some(Arc::from(raw_json(r#"{"type":"object"}"#).unwrap()));
    let body = body_of(&full, &settings());
    assert_eq!(
        body,
        json!({
            "model": "m", "stream": true, "stream_options": {"include_usage": true},
            "temperature": 0.5, "max_tokens": 7, "reasoning_effort": "low", "stop": ["end"],
            "tools": [
                {"type": "function", "function": {"name": "fs_-read", "description": "reads",
                    "parameters": {"type": "object", "properties": {"a": {}, "b": {}}}}},
                {"type": "function", "function": {"name": "plain",
                    "parameters": {"type": "object", "properties": {}}}},
            ],
            "parallel_tool_calls": false,
            "response_format": {"type": "json_schema",
                "json_schema": {"name": "answer", "schema": {"type": "object"}}},
            "messages": [{"role": "system", "content": "be kind"}, user("x")],
        })
    );
    let bytes = encode(&full, "m", &settings()).unwrap().body;
    let bytes = String::from_utf8(bytes).unwrap();
    assert!(
        bytes.contains(schema),
        "the schema is passed on as it is: {bytes}"
    );

    let mut choice = |choice: ToolChoice, expected: Value| {
        full.tool_choice = choice;
        assert_eq!(body_of(&full, &settings())["tool_choice"], expected);
    };
    choice(ToolChoice::Auto, Value::Null);
    choice(ToolChoice::Required, json!("required"));
    choice(ToolChoice::None, json!("none"));
    choice(
        ToolChoice::Named("fs.read".to_owned()),
        json!({"type": "function", "function": {"name": "fs_-read"}}),
    );
    full.options.temperature = Some(f64::NAN);
    assert!(encode(&full, "m", &settings()).is_err());
}

#[test]
fn the_settings_fields_win_and_null_takes_one_out() {
    let mut request = request(vec![]);
    request.options.temperature = Some(1.0);
    let extra = with_extra(json!({"temperature": 0.1, "stream_options": null, "top_k": [1]}));
    assert_eq!(
        body_of(&request, &extra),
        json!({"model": "m", "stream": true, "temperature": 0.1, "top_k": [1], "messages": []})
    );
}

#[test]
fn provider_state_goes_back_to_its_provider_alone() {
    let call_with = |provider: &str| {
        Item::ToolCall(ToolCall {
            id: CallId::new("c").unwrap(),
            name: "f".to_owned(),
            arguments: raw_json("{}").unwrap(),
            state: Some(ProviderState {
                provider: provider.to_owned(),
                data: raw_json(r#"{"google":1}"#).unwrap(),
            }),
        })
    };
    let message = |items: Vec<Item>, settings: &Arc<EncodeSettings>| {
        body_of(&request(items), settings)["messages"][0].clone()
    };
    let own = message(
        vec![
            thought("a", Some(("p", r#"[{"x":1},{"y":2}]"#))),
            thought("", Some(("p", r#"[{"z":3}]"#))),
            call_with("p"),
        ],
        &settings(),
    );
    assert_eq!(
        own["reasoning_details"],
        json!([{"x": 1}, {"y": 2}, {"z": 3}])
    );
    assert_eq!(own["tool_calls"][0]["extra_content"], json!({"google": 1}));
    assert_eq!(own["reasoning_content"], Value::Null);

    let others = message(
        vec![thought("a", Some(("q", r#"[{"x":1}]"#))), call_with("q")],
        &settings(),
    );
    assert_eq!(others["reasoning_details"], Value::Null);
    assert_eq!(others["tool_calls"][0]["extra_content"], Value::Null);

    let wanted = Arc::new(EncodeSettings {
        reasoning_field: Some(Cow::Borrowed("reasoning_content")),
        ..(*settings()).clone()
    });
    let sent = message(
        vec![thought("a", None), thought("b", None), Item::assistant("x")],
        &wanted,
    );
    assert_eq!(sent["reasoning_content"], "a\n\nb");
}

/// The items of a long thread, as they grow.
fn conversation(rounds: usize) -> Vec<Arc<Item>> {
    let mut items = vec![Item::user("start")];
    for round in 0..rounds {
        let id = format!("c{round}");
        items.extend([
            thought("hm", None),
            Item::assistant(format!("round {round}")),
            call(&id, "{\"x\":1}"),
            result(&id, &"output ".repeat(20)),
            notice(),
        ]);
        if round % 5 == 4 {
            items.extend([
                Item::assistant("all done"),
                Item::user(format!("more {round}")),
            ]);
        }
    }
    items.into_iter().map(Arc::new).collect()
}

/// The lengths of a history at which a request is made: behind a user's
/// message or a result.
fn request_points(items: &[Arc<Item>]) -> Vec<usize> {
    let asks = |item: &Item| matches!(item, Item::UserMessage { .. } | Item::ToolResult(_));
    (1..=items.len())
        .filter(|len| asks(&items[len - 1]))
        .collect()
}

#[test]
fn a_longer_history_extends_a_shorter_ones_bytes() {
    let items = conversation(40);
    let memo = haft_api::EngineMemo::new();
    let encode_first = |len: usize, memo: &haft_api::EngineMemo| {
        let mut request = request(vec![]);
        request.instructions = Arc::from("be kind");
        request.history = History::new(7, items[..len].to_vec());
        request.memo = memo.clone();
        encode(&request, "m", &settings()).unwrap().body
    };
    let mut shorter: Option<Vec<u8>> = None;
    for len in request_points(&items) {
        let body = encode_first(len, &memo);
        assert_eq!(
            String::from_utf8_lossy(&body),
            String::from_utf8_lossy(&encode_first(len, &haft_api::EngineMemo::new())),
            "what is kept changes nothing"
        );
        if let Some(shorter) = shorter {
            let prefix = shorter.strip_suffix(b"]}").unwrap();
            assert!(body.starts_with(prefix), "at {len} items");
        }
        shorter = Some(body);
    }
}

#[test]
fn a_round_costs_its_new_items_however_long_the_thread_is() {
    let items = conversation(500);
    let memo = haft_api::EngineMemo::new();
    let mut before = 0;
    let mut most = 0;
    for len in request_points(&items) {
        let mut request = request(vec![]);
        request.history = History::new(7, items[..len].to_vec());
        request.memo = memo.clone();
        let encoded = encode(&request, "m", &settings()).unwrap().items_encoded;
        let new = len - before;
        assert!(
            encoded <= new + 1,
            "{encoded} items for {new} new ones at {len}"
        );
        most = most.max(encoded);
        before = len;
    }
    assert!(before > 2_000 && most < 12, "{most} of {before}");
}

#[test]
fn what_is_kept_serves_its_own_history_and_settings_only() {
    let memo = haft_api::EngineMemo::new();
    let body = |generation: u64, items: Vec<Item>, settings: &Arc<EncodeSettings>| {
        let mut request = request(items);
        request.history = History::new(generation, request.history.items().to_vec());
        request.memo = memo.clone();
        String::from_utf8(encode(&request, "m", settings).unwrap().body).unwrap()
    };
    let said = |text: &str| vec![Item::user(text), Item::user("last")];
    assert!(body(1, said("one"), &settings()).contains("one"));
    // Another generation: after compaction, or of a fork.
    assert!(body(2, said("two"), &settings()).contains("two"));
    // The same one, shorter.
    let short = body(2, vec![Item::user("two")], &settings());
    assert!(short.contains("two") && !short.contains("last"), "{short}");
    // Other settings, which change the messages.
    let thinks = || vec![thought("deep", None), Item::assistant("a"), Item::user("b")];
    assert!(!body(3, thinks(), &settings()).contains("deep"));
    let wanted = Arc::new(EncodeSettings {
        reasoning_field: Some(Cow::Borrowed("reasoning_content")),
        ..(*settings()).clone()
    });
    assert!(body(3, thinks(), &wanted).contains("deep"));
}
