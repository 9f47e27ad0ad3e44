use super::*;

fn events(line: &str) -> Vec<ScriptEvent> {
    Script::parse(line).unwrap().rounds()[0].events.clone()
}

#[test]
fn every_event_type_is_read() {
    let check = |event: &str, expected: ScriptEvent| {
        assert_eq!(events(&format!(r#"{{"events":[{event}]}}"#)), [expected]);
    };
    let text = |text: &str| text.to_owned();
    check(
        r#"{"type":"text","text":"a\nb"}"#,
        ScriptEvent::Text { text: text("a\nb") },
    );
    check(
        r#"{"text":"thinking","type":"reasoning"}"#,
        ScriptEvent::Reasoning {
            text: text("thinking"),
        },
    );
    check(
        r#"{"type":"usage","input":1,"output":2,"cached":3}"#,
        ScriptEvent::Usage(Usage {
            input: Some(1),
            output: Some(2),
            cached: Some(3),
            ..Usage::default()
        }),
    );
    check(r#"{"type":"usage"}"#, ScriptEvent::Usage(Usage::default()));
    check(r#"{"type":"sleep","ms":5}"#, ScriptEvent::Sleep { ms: 5 });
    check(r#"{"type":"stall"}"#, ScriptEvent::Stall);
    check(r#"{"type":"cut"}"#, ScriptEvent::Cut);
    check(
        r#"{"type":"error","kind":"rate_limited","message":"slow down","retry_after_ms":7}"#,
        ScriptEvent::Error {
            kind: ErrorKind::RateLimited,
            message: text("slow down"),
            retry_after_ms: Some(7),
        },
    );
    for kind in ERROR_KINDS {
        check(
            &format!(r#"{{"type":"error","kind":"{kind}","message":"m"}}"#),
            ScriptEvent::Error {
                kind,
                message: text("m"),
                retry_after_ms: None,
            },
        );
    }
    for (word, reason) in [
        ("end", FinishReason::End),
        ("stop", FinishReason::End),
        ("tool_calls", FinishReason::ToolCalls),
        ("length", FinishReason::Length),
        ("content_filter", FinishReason::ContentFilter),
        ("paused", FinishReason::Other(text("paused"))),
    ] {
        check(
            &format!(r#"{{"type":"stop","reason":"{word}"}}"#),
            ScriptEvent::Stop { reason },
        );
    }
}

#[test]
fn calls_are_taken_as_they_are_written() {
    let check = |fields: &str, id: Option<&str>, arguments: &str| {
        let line = format!(r#"{{"events":[{{"type":"call","name":"n"{fields}}}]}}"#);
        let expected = ScriptEvent::Call(EngineToolCall {
            id: id.map(str::to_owned),
            name: "n".to_owned(),
            arguments: arguments.to_owned(),
            state: None,
        });
        assert_eq!(events(&line), [expected], "{line}");
    };
    check("", None, "");
    check(r#","id":null"#, None, "");
    check(r#","id":"""#, Some(""), "");
    check(r#","id":"c","arguments":"""#, Some("c"), "");
    check(r#","arguments":"{not json""#, None, "{not json");
    check(r#","arguments":"\u00e9""#, None, "é");
    check(
        r#","arguments":{"b": 1.0,"a":[ ]}"#,
        None,
        r#"{"b": 1.0,"a":[ ]}"#,
    );
    check(r#","arguments":[1,2]"#, None, "[1,2]");
    check(r#","arguments":null"#, None, "null");
    check(
        r#","arguments":12345678901234567890123"#,
        None,
        "12345678901234567890123",
    );
}

#[test]
fn blank_lines_and_a_byte_order_mark_are_skipped_and_lines_keep_their_numbers() {
    let script = Script::parse("\u{feff}\n{\"events\":[]}\r\n  \n{\"events\":[]}").unwrap();
    let lines: Vec<_> = script.rounds().iter().map(|r| r.line).collect();
    assert_eq!(lines, [2, 4]);
    assert_eq!(Script::parse("").unwrap(), Script::default());
}

#[test]
fn mistakes_are_named_with_their_line_and_what_was_meant() {
    let check = |line: &str, expected: &[&str]| {
        let error = Script::parse(&format!("{{\"events\":[]}}\n{line}")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(error.context_value("line"), Some("2"), "{error}");
        for part in expected {
            assert!(error.to_string().contains(part), "{error}: no {part:?}");
        }
    };
    let event = |event: &str| format!(r#"{{"events":[{{"type":"cut"}},{event}]}}"#);
    check(
        &event(r#"{"type":"reasonig","text":"x"}"#),
        &[
            "event 2",
            "unknown event type `reasonig`",
            "did you mean `reasoning`?",
        ],
    );
    check(&event(r#"{"type":"tool_call"}"#), &["did you mean `call`?"]);
    check(
        &event(r#"{"type":"q"}"#),
        &["unknown event type `q`; known are text, reasoning, call"],
    );
    check(
        &event(r#"{"type":"error","kind":"rate_limit","message":"x"}"#),
        &[
            "unknown error kind `rate_limit`",
            "did you mean `rate_limited`?",
        ],
    );
    check(
        &event(r#"{"type":"text"}"#),
        &["`text`: missing field `text`"],
    );
    check(
        &event(r#"{"type":"call"}"#),
        &["`call`: missing field `name`"],
    );
    check(
        &event(r#"{"type":"error"}"#),
        &["`error`: missing field `kind`"],
    );
    check(
        &event(r#"{"type":"text","text":"x","txet":"y"}"#),
        &["unknown field `txet`"],
    );
    check(
        &event(r#"{"type":"cut","now":true}"#),
        &["unknown field `now`"],
    );
    check(&event(r#"{"type":"sleep","ms":-1}"#), &["`sleep`", "-1"]);
    check(&event(r#"{"text":"x"}"#), &["event 2", "`type`"]);
    check(&event("7"), &["event 2", "an object"]);
    check(
        r#"{"event":[]}"#,
        &["a list of `events`", "unknown field `event`"],
    );
    check(
        r#"{"events":[{"type":"text","text":"x"}"#,
        &["not a round", "EOF"],
    );
    check("[]", &["not a round"]);
}
