//! Hand-made streams, one for each rule.

use haft_api::{EngineToolCall, ErrorKind, ToolName, ToolSpec};
use haft_engine_http::AnswerDecoder as _;

use super::*;

const DONE: &str = "[DONE]";

fn sse(events: &[&str]) -> String {
    events.iter().map(|e| format!("data: {e}\n\n")).collect()
}

fn decode_with(mut decoder: ChatDecoder, stream: &str) -> (Vec<EngineEvent>, Option<Error>) {
    let mut events = Vec::new();
    let error = decoder
        .push(stream.as_bytes(), &mut events)
        .and_then(|()| decoder.finish(&mut events))
        .err();
    (events, error)
}

fn decode(events: &[&str]) -> (Vec<EngineEvent>, Option<Error>) {
    decode_with(ChatDecoder::default(), &sse(events))
}

fn text(text: &str) -> EngineEvent {
    EngineEvent::TextDelta {
        text: text.to_owned(),
    }
}

fn reasoning(text: &str) -> EngineEvent {
    EngineEvent::ReasoningDelta {
        text: text.to_owned(),
    }
}

fn finished(reason: FinishReason) -> EngineEvent {
    EngineEvent::Finished { reason }
}

fn call(id: &str, name: &str, arguments: &str) -> EngineEvent {
    EngineEvent::Call(EngineToolCall {
        id: Some(id.to_owned()),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        state: None,
    })
}

fn usage(input: u64, output: u64) -> EngineEvent {
    EngineEvent::Usage(Usage {
        input: Some(input),
        output: Some(output),
        ..Usage::default()
    })
}

/// A chunk whose first choice has this delta and finish reason.
fn chunk(delta: &str, reason: &str) -> String {
    format!(
        r#"{{"id":"x","object":"chat.completion.chunk","choices":[{{"index":0,"delta":{delta},"finish_reason":{reason}}}]}}"#
    )
}

/// The events of an answer that ends well, but for those that show calls.
#[track_caller]
fn check(events: &[&str], expected: &[EngineEvent]) {
    let (seen, error) = decode(events);
    assert!(error.is_none(), "{events:?}: {error:?}");
    let seen: Vec<_> = seen
        .into_iter()
        .filter(|e| !matches!(e, EngineEvent::CallDelta { .. }))
        .collect();
    assert_eq!(seen, expected, "{events:?}");
}

#[test]
fn text_comes_in_every_form() {
    let end = || finished(FinishReason::End);
    let says = |delta: &str, expected: &[EngineEvent]| {
        let mut expected = expected.to_vec();
        expected.push(end());
        check(
            &[&chunk(delta, "null"), &chunk("{}", r#""stop""#), DONE],
            &expected,
        );
    };
    says(
        r#"{"role":"assistant","content":"a\n\"é\u00fc\ud83d\ude00"}"#,
        &[text("a\n\"éü\u{1f600}")],
    );
    says(r#"{"content":""}"#, &[]);
    says(r#"{"content":null}"#, &[]);
    says("null", &[]);
    says(
        r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#,
        &[text("ab")],
    );
    says(r#"{"content":{"type":"text","text":"a"}}"#, &[text("a")]);
    says(
        r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"a"}]}"#,
        &[reasoning("hm"), text("a")],
    );
    says(
        r#"{"content":[{"type":"reference","reference_ids":[1]}]}"#,
        &[],
    );
    says(r#"{"content":"half \ud83d"}"#, &[text("half \u{fffd}")]);
    for field in ["reasoning_content", "reasoning", "thinking"] {
        says(
            &format!(r#"{{"content":null,"{field}":"hm"}}"#),
            &[reasoning("hm")],
        );
    }
    // The same under two names is said once.
    says(
        r#"{"reasoning":"hm","reasoning_content":"hm"}"#,
        &[reasoning("hm")],
    );
    says(
        r#"{"reasoning":"hm","reasoning_content":""}"#,
        &[reasoning("hm")],
    );
    says(
        r#"{"reasoning_content":"hm","content":"a"}"#,
        &[reasoning("hm"), text("a")],
    );
}

#[test]
fn a_refusal_is_how_an_answer_ends() {
    let end = || finished(FinishReason::Other("refusal: I can't.".to_owned()));
    let a = chunk(r#"{"content":"","refusal":"I "}"#, "null");
    let b = chunk(r#"{"content":null,"refusal":"can't."}"#, r#""stop""#);
    check(&[&a, &b, DONE], &[end()]);
    let part = chunk(
        r#"{"content":[{"type":"refusal","refusal":"I can't."}]}"#,
        r#""stop""#,
    );
    check(&[&part, DONE], &[end()]);
    let none = chunk(r#"{"content":"a","refusal":null}"#, r#""stop""#);
    check(&[&none, DONE], &[text("a"), finished(FinishReason::End)]);
}

#[test]
fn the_calls_decide_how_an_answer_ends() {
    let calls = r#"{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}"#;
    for reason in ["tool_calls", "stop", "function_call", "whatever"] {
        check(
            &[
                &chunk(calls, "null"),
                &chunk("{}", &format!("{reason:?}")),
                DONE,
            ],
            &[call("c", "f", "{}"), finished(FinishReason::ToolCalls)],
        );
    }
    let no_calls = |word: &str, expected: FinishReason| {
        check(
            &[&chunk(r#"{"content":"a"}"#, &format!("{word:?}")), DONE],
            &[text("a"), finished(expected)],
        );
    };
    no_calls("stop", FinishReason::End);
    no_calls("STOP", FinishReason::End);
    no_calls("tool_calls", FinishReason::End);
    no_calls("length", FinishReason::Length);
    no_calls("MAX_TOKENS", FinishReason::Length);
    no_calls("model_length", FinishReason::Length);
    no_calls("content_filter", FinishReason::ContentFilter);
    no_calls("paused", FinishReason::Other("paused".to_owned()));
}

#[test]
fn a_call_of_an_answer_that_was_cut_off_is_never_given() {
    let calls = |arguments: &str| {
        let arguments = serde_json::to_string(arguments).unwrap();
        format!(
            r#"{{"tool_calls":[{{"index":0,"id":"a","function":{{"name":"f","arguments":"{{}}"}}}},{{"index":1,"id":"b","function":{{"name":"g","arguments":{arguments}}}}}]}}"#
        )
    };
    let ends = |arguments: &str, word: &str, expected: FinishReason| {
        let word = format!("{word:?}");
        check(
            &[&chunk(&calls(arguments), "null"), &chunk("{}", &word), DONE],
            &[finished(expected)],
        );
    };
    ends("{}", "length", FinishReason::Length);
    ends("{}", "content_filter", FinishReason::ContentFilter);
    ends("{\"a\":", "length", FinishReason::Length);
    ends("{\"a\":", "tool_calls", FinishReason::Length);
    ends("{\"a\":\"x", "stop", FinishReason::Length);
}

#[test]
fn arguments_come_whole_in_pieces_as_objects_or_not_at_all() {
    let ends_with = |deltas: &[&str], expected: &[EngineEvent]| {
        let chunks: Vec<_> = deltas.iter().map(|d| chunk(d, "null")).collect();
        let mut events: Vec<&str> = chunks.iter().map(String::as_str).collect();
        let end = chunk("{}", r#""tool_calls""#);
        events.extend([end.as_str(), DONE]);
        let mut expected = expected.to_vec();
        expected.push(finished(FinishReason::ToolCalls));
        check(&events, &expected);
    };
    ends_with(
        &[
            r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":""}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]}"#,
            r#"{"tool_calls":[{"index":0,"id":"","function":{"name":"","arguments":"1}"}}]}"#,
        ],
        &[call("c", "f", "{\"a\":1}")],
    );
    ends_with(
        &[r#"{"tool_calls":[{"id":"c","function":{"name":"f","arguments":{"b": 1.0,"a":[]}}}]}"#],
        &[call("c", "f", r#"{"b": 1.0,"a":[]}"#)],
    );
    ends_with(
        &[r#"{"tool_calls":[{"id":"c","function":{"name":"f","arguments":null}}]}"#],
        &[call("c", "f", "")],
    );
    ends_with(
        &[r#"{"tool_calls":[{"id":"c","function":{"name":"f"}}]}"#],
        &[call("c", "f", "")],
    );
    ends_with(
        &[r#"{"tool_calls":{"id":7,"index":"0","function":{"name":"f","arguments":"{}"}}}"#],
        &[call("7", "f", "{}")],
    );
    ends_with(
        &[
            r#"{"tool_calls":[null,{"id":"c","function":null}]}"#,
            r#"{"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]}"#,
        ],
        &[call("c", "f", "{}")],
    );
    ends_with(
        &[
            r#"{"function_call":{"name":"f","arguments":"{\"a\""}}"#,
            r#"{"function_call":{"arguments":":1}"}}"#,
        ],
        &[EngineEvent::Call(EngineToolCall {
            id: None,
            name: "f".to_owned(),
            arguments: "{\"a\":1}".to_owned(),
            state: None,
        })],
    );
}

#[test]
fn calls_are_shown_while_they_are_written_and_given_at_the_end() {
    let first = chunk(
        r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{\"a\""}}]}"#,
        "null",
    );
    let second = chunk(
        r#"{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}"#,
        r#""tool_calls""#,
    );
    let mut decoder = ChatDecoder::default();
    let mut events = Vec::new();
    decoder
        .push(sse(&[&first, &second, DONE]).as_bytes(), &mut events)
        .unwrap();
    let shown = |name: Option<&str>, arguments: &str| EngineEvent::CallDelta {
        index: 0,
        name: name.map(str::to_owned),
        arguments: arguments.to_owned(),
    };
    assert_eq!(events, [shown(Some("f"), "{\"a\""), shown(None, ":1}")]);
    assert!(decoder.is_done());
    events.clear();
    decoder.finish(&mut events).unwrap();
    assert_eq!(
        events,
        [
            call("c", "f", "{\"a\":1}"),
            finished(FinishReason::ToolCalls)
        ]
    );
}

#[test]
fn the_last_usage_counts_wherever_it_stands() {
    let with_usage = |usage: &str| format!(r#"{{"choices":[],"usage":{usage}}}"#);
    let stop = chunk(r#"{"content":"a"}"#, r#""stop""#);
    let some = with_usage(r#"{"prompt_tokens":1,"completion_tokens":2}"#);
    let more = with_usage(r#"{"prompt_tokens":1,"completion_tokens":3}"#);
    let groq = r#"{"choices":[],"x_groq":{"usage":{"prompt_tokens":4,"completion_tokens":5}}}"#;
    let end = || finished(FinishReason::End);
    check(&[&stop, &some, DONE], &[text("a"), usage(1, 2), end()]);
    check(
        &[&some, &more, &stop, DONE],
        &[text("a"), usage(1, 3), end()],
    );
    check(
        &[&stop, &some, &with_usage("null"), DONE],
        &[text("a"), usage(1, 2), end()],
    );
    check(&[&stop, DONE, &some], &[text("a"), usage(1, 2), end()]);
    check(&[&stop, groq, DONE], &[text("a"), usage(4, 5), end()]);
    check(&[&stop, &with_usage("[1]"), DONE], &[text("a"), end()]);
    // An answer that fails has used something, too.
    let (events, error) = decode(&[&some, r#"{"error":{"message":"boom"}}"#, &more]);
    assert_eq!(events, [usage(1, 2)]);
    assert!(error.is_some());
    let (events, error) = decode(&[&some]);
    assert_eq!(events, [usage(1, 2)]);
    assert!(error.is_some());
}

#[test]
fn only_what_the_server_calls_whole_is_finished() {
    let a = chunk(r#"{"content":"a"}"#, "null");
    let stop = chunk("{}", r#""stop""#);
    let empty_reason = chunk("{}", r#""""#);
    let end = || finished(FinishReason::End);
    // `[DONE]` may be missing, come twice, or be all there is.
    check(&[&a, &stop], &[text("a"), end()]);
    check(&[&a, &stop, DONE, DONE], &[text("a"), end()]);
    check(&[&a, DONE], &[text("a"), end()]);
    check(&[DONE], &[end()]);
    check(&[&a, &stop, DONE, &a], &[text("a"), text("a"), end()]);
    for cut in [vec![], vec![&*a], vec![&*a, &*empty_reason]] {
        let (events, error) = decode(&cut);
        let error = error.unwrap();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{cut:?}");
        assert!(error.is_temporary());
        assert!(
            !events
                .iter()
                .any(|e| matches!(e, EngineEvent::Finished { .. }))
        );
    }
    // The end may lack its blank line, its line end, or come within an event.
    let whole = sse(&[&a, &stop]);
    for (stream, ends) in [
        (whole.trim_end().to_owned(), true),
        (format!("{whole}data: [DO"), true),
        (format!("{}data: {{\"cho", sse(&[&a])), false),
        (format!("{}data: [DO", sse(&[&a])), false),
    ] {
        let (events, error) = decode_with(ChatDecoder::default(), &stream);
        assert_eq!(error.is_none(), ends, "{stream:?}");
        assert_eq!(events.last() == Some(&end()), ends, "{stream:?}");
        assert!(error.is_none_or(|e| e.kind() == ErrorKind::Unavailable));
    }
}

#[test]
fn errors_in_the_stream_end_it_and_no_error_is_none() {
    let a = chunk(r#"{"content":"a"}"#, "null");
    let fails = |event: &str, kind: ErrorKind, says: &str| {
        let (events, error) = decode(&[&a, event, &a, DONE]);
        let error = error.unwrap_or_else(|| panic!("no error of {event}"));
        assert_eq!(events, [text("a")], "{event}");
        assert_eq!(error.kind(), kind, "{event}");
        assert!(error.message().contains(says), "{error}");
    };
    fails(
        r#"{"error":{"message":"Overloaded","code":503}}"#,
        ErrorKind::Unavailable,
        "Overloaded",
    );
    fails(
        r#"{"error":{"message":"slow","code":429},"choices":[]}"#,
        ErrorKind::RateLimited,
        "slow",
    );
    fails(r#"{"error":"boom"}"#, ErrorKind::Unavailable, "boom");
    fails(
        r#"{"object":"error","message":"too bad","code":400}"#,
        ErrorKind::InvalidInput,
        "too bad",
    );
    fails(
        r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#,
        ErrorKind::Unavailable,
        "busy",
    );
    fails(r#"{"detail":"no"}"#, ErrorKind::Unavailable, "no");
    fails(
        r#"{"choices":[{"index":0,"delta":{},"error":{"code":502,"message":"lost"}}]}"#,
        ErrorKind::Unavailable,
        "lost",
    );
    fails(r#"{"choices":[{"index":0,"#, ErrorKind::Corrupt, "choices");
    fails(r#"{"choices":7}"#, ErrorKind::Corrupt, "choices");
    fails(
        "<html>bad gateway</html>",
        ErrorKind::Corrupt,
        "bad gateway",
    );
    fails("\u{fffd}{\"", ErrorKind::Corrupt, "isn't valid");

    let stop = chunk("{}", r#""stop""#);
    for fine in [
        r#"{"error":null,"choices":[]}"#,
        r#"{"error":{},"choices":[]}"#,
        r#"{"error":"","choices":[]}"#,
        r#"{"type":"ping"}"#,
        r#"{"choices":null}"#,
        r#"{"choices":[null]}"#,
        r#"{"id":"x","message":"queued"}"#,
        "{}",
        "[]",
        "7",
        "\"text\"",
        "",
    ] {
        check(
            &[fine, &a, fine, &stop, fine, DONE],
            &[text("a"), finished(FinishReason::End)],
        );
    }
    let failed = chunk("{}", r#""error""#);
    let (_, error) = decode(&[&a, &failed, DONE]);
    assert!(error.unwrap().message().contains("`error`"));
}

#[test]
fn events_of_the_servers_own_are_skipped_unless_they_are_errors() {
    let a = sse(&[&chunk(r#"{"content":"a"}"#, r#""stop""#)]);
    let (events, error) = decode_with(
        ChatDecoder::default(),
        &format!(": ping\n\nevent: ping\ndata: not json\n\nevent: message\n{a}data: [DONE]\n\n"),
    );
    assert_eq!(events, [text("a"), finished(FinishReason::End)]);
    assert!(error.is_none());
    for failing in [
        "event: error\ndata: {\"message\":\"boom\"}\n\n",
        "event: error\ndata: boom\n\n",
        "error: {\"code\":500,\"message\":\"boom\"}\n\n",
    ] {
        let (events, error) = decode_with(ChatDecoder::default(), &format!("{a}{failing}"));
        assert_eq!(events, [text("a")]);
        assert!(error.unwrap().message().contains("boom"), "{failing}");
    }
}

#[test]
fn one_choice_of_several_is_followed() {
    let choice = |index: u8, text: &str| {
        format!(r#"{{"index":{index},"delta":{{"content":"{text}"}},"finish_reason":"stop"}}"#)
    };
    let both = format!(r#"{{"choices":[{},{}]}}"#, choice(0, "a"), choice(1, "b"));
    let other = format!(r#"{{"choices":[{}]}}"#, choice(1, "c"));
    check(
        &[&both, &other, DONE],
        &[text("a"), finished(FinishReason::End)],
    );
    check(&[&other, DONE], &[text("c"), finished(FinishReason::End)]);
}

#[test]
fn an_answer_that_is_no_stream_is_taken_whole() {
    let mut decoder = ChatDecoder::default();
    let mut events = Vec::new();
    let body = br#"{"object":"chat.completion","choices":[{"index":0,"finish_reason":"tool_calls",
        "message":{"role":"assistant","reasoning_content":"hm","content":"a",
        "tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}}],
        "usage":{"prompt_tokens":1,"completion_tokens":2}}"#;
    decoder.whole(body, &mut events).unwrap();
    events.retain(|e| !matches!(e, EngineEvent::CallDelta { .. }));
    assert_eq!(
        events,
        [
            reasoning("hm"),
            text("a"),
            call("c", "f", "{}"),
            usage(1, 2),
            finished(FinishReason::ToolCalls),
        ]
    );
    let whole = |body: &str| ChatDecoder::default().whole(body.as_bytes(), &mut Vec::new());
    let error = whole(r#"{"error":{"code":"context_length_exceeded","message":"m"}}"#).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ContextOverflow);
    assert_eq!(
        whole(r#"{"choices":["#).unwrap_err().kind(),
        ErrorKind::Corrupt
    );
    let error = whole(r#"[{"error":{"code":404,"message":"no such model"}}]"#).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(whole("{}").unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
fn tools_get_their_own_names_back() {
    let tools = [ToolSpec::new(ToolName::new("fs.read").unwrap(), "d")];
    let decoder = ChatDecoder::new(ChatRules::new(ToolNames::of(&tools).unwrap(), "p"));
    let calls = chunk(
        r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"fs_-read","arguments":"{}"}}]}"#,
        r#""tool_calls""#,
    );
    let (events, error) = decode_with(decoder, &sse(&[&calls, DONE]));
    assert!(error.is_none());
    assert!(
        matches!(&events[0], EngineEvent::CallDelta { name: Some(name), .. } if name == "fs.read")
    );
    assert_eq!(events[1], call("c", "fs.read", "{}"));
}

#[test]
fn what_the_provider_needs_back_travels_with_what_it_belongs_to() {
    let state = |json: &str| {
        Some(ProviderState {
            provider: "p".to_owned(),
            data: RawValue::from_string(json.to_owned()).unwrap(),
        })
    };
    let detail = r#"[{"type":"reasoning.text","text":"hm","index":0,"signature":"s"}]"#;
    let thinks = chunk(
        &format!(r#"{{"content":"","reasoning":"hm","reasoning_details":{detail}}}"#),
        "null",
    );
    let only_details = chunk(&format!(r#"{{"reasoning_details":{detail}}}"#), "null");
    let says = chunk(r#"{"content":"a"}"#, r#""stop""#);
    let calls = chunk(
        r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"z"}}}]}"#,
        r#""tool_calls""#,
    );
    let check = |events: &[&str], expected: &[EngineEvent]| {
        let decoder = ChatDecoder::new(ChatRules::new(ToolNames::default(), "p"));
        let (mut seen, error) = decode_with(decoder, &sse(events));
        assert!(error.is_none());
        seen.retain(|e| !matches!(e, EngineEvent::CallDelta { .. }));
        assert_eq!(seen, expected);
    };
    let end = |details: &str| EngineEvent::ReasoningEnd {
        state: state(details),
    };
    let kept = r#"[{"index":0,"signature":"s","text":"hm","type":"reasoning.text"}]"#;
    check(
        &[&thinks, &says, DONE],
        &[
            reasoning("hm"),
            end(kept),
            text("a"),
            finished(FinishReason::End),
        ],
    );
    check(
        &[&only_details, &says, DONE],
        &[
            reasoning("hm"),
            end(kept),
            text("a"),
            finished(FinishReason::End),
        ],
    );
    let call = EngineEvent::Call(EngineToolCall {
        id: Some("c".to_owned()),
        name: "f".to_owned(),
        arguments: "{}".to_owned(),
        state: state(r#"{"google":{"thought_signature":"z"}}"#),
    });
    check(
        &[&thinks, &calls, DONE],
        &[
            reasoning("hm"),
            end(kept),
            call,
            finished(FinishReason::ToolCalls),
        ],
    );
}

#[test]
fn progress_is_what_the_model_says_and_not_what_the_server_does() {
    let mut decoder = ChatDecoder::default();
    let mut progress = |bytes: &str| {
        let before = decoder.progress();
        decoder.push(bytes.as_bytes(), &mut Vec::new()).unwrap();
        decoder.progress() > before
    };
    assert!(!progress(": keep-alive\n\n"));
    assert!(!progress("event: ping\ndata: {}\n\n"));
    assert!(!progress("data: {\"choices\":[]}\n\n"));
    assert!(!progress("data: {\"choices\":[{\"del"));
    assert!(progress("ta\":{\"content\":\"a\"}}]}\n\n"));
}

/// Numbers that are the same in every run.
struct Noise(u64);

impl Noise {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

#[test]
fn no_stream_however_damaged_breaks_the_decoder() {
    let whole = sse(&[
        &chunk(r#"{"role":"assistant","reasoning":"hm","reasoning_details":[{"type":"t","text":"hm"}]}"#, "null"),
        &chunk(r#"{"content":[{"type":"text","text":"a \ud83d\ude00 é"}]}"#, "null"),
        &chunk(r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{\"a\":"}}]}"#, "null"),
        &chunk(r#"{"tool_calls":[{"index":0,"function":{"arguments":"[1,\"}\"]}"}}]}"#, r#""tool_calls""#),
        r#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#,
        DONE,
    ])
    .into_bytes();
    let mut noise = Noise(7);
    let mut well = 0;
    for _ in 0..20_000 {
        let mut bytes = whole.clone();
        for _ in 0..=noise.below(3) {
            let at = noise.below(bytes.len());
            let to = (at + noise.below(40)).min(bytes.len());
            match noise.below(4) {
                0 => bytes[at] ^= 1 << noise.below(8),
                1 => drop(bytes.drain(at..to)),
                2 => bytes.truncate(at),
                _ => {
                    let piece = bytes[at..to].to_vec();
                    let target = noise.below(bytes.len());
                    bytes.splice(target..target, piece);
                }
            }
            if bytes.is_empty() {
                break;
            }
        }
        let mut decoder = ChatDecoder::default();
        let mut events = Vec::new();
        let outcome = bytes
            .chunks(1 + noise.below(200))
            .try_for_each(|chunk| decoder.push(chunk, &mut events))
            .and_then(|()| decoder.finish(&mut events));
        let ends = |e: &EngineEvent| matches!(e, EngineEvent::Finished { .. });
        let finished = events.iter().filter(|e| ends(e)).count();
        assert_eq!(finished, usize::from(outcome.is_ok()));
        if outcome.is_ok() {
            assert!(events.last().is_some_and(ends));
            well += 1;
        } else {
            assert!(!events.iter().any(|e| matches!(e, EngineEvent::Call(_))));
        }
    }
    assert!((1_000..19_000).contains(&well), "{well}");
}
