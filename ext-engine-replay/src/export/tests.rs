use haft_api::{CallId, NoticeLevel, ToolResult, raw_json};

use super::*;
use crate::script::{Script, ScriptEvent};

fn call(id: &str, arguments: &str) -> Item {
    Item::ToolCall(ToolCall {
        id: CallId::new(id).unwrap(),
        name: "look".to_owned(),
        arguments: raw_json(arguments).unwrap(),
        state: None,
    })
}

fn result(id: &str) -> Item {
    Item::ToolResult(ToolResult {
        call_id: CallId::new(id).unwrap(),
        name: "look".to_owned(),
        is_error: false,
        parts: vec![haft_api::Part::text("seen")],
    })
}

fn notice(code: &str) -> Item {
    Item::Notice {
        level: NoticeLevel::Info,
        code: code.to_owned(),
        text: format!("a notice of {code}"),
    }
}

fn thought(text: &str) -> Item {
    Item::Reasoning {
        text: text.to_owned(),
        state: None,
    }
}

#[test]
fn a_round_is_what_stands_between_user_messages_and_results() {
    let check = |items: &[Item], lines: &[&str]| {
        let script = script_from_items(items);
        assert_eq!(script.lines().collect::<Vec<_>>(), lines);
        assert_eq!(Script::parse(&script).unwrap().rounds().len(), lines.len());
    };
    check(&[], &[]);
    check(&[Item::user("hi")], &[]);
    check(
        &[
            Item::user("hi"),
            thought("hm"),
            thought(""),
            Item::assistant("looking"),
            call("c1", r#"{"n": 1.0}"#),
            call("c2", r#""{broken""#),
            result("c1"),
            result("c2"),
            notice("compaction"),
            Item::assistant("seen \"it\""),
            Item::user("again"),
            Item::assistant("no"),
        ],
        &[
            concat!(
                r#"{"events":[{"type":"reasoning","text":"hm"},{"type":"text","text":"looking"},"#,
                r#"{"type":"call","id":"c1","name":"look","arguments":{"n": 1.0}},"#,
                r#"{"type":"call","id":"c2","name":"look","arguments":"{broken"}]}"#
            ),
            r#"{"events":[{"type":"text","text":"seen \"it\""}]}"#,
            r#"{"events":[{"type":"text","text":"no"}]}"#,
        ],
    );
}

#[test]
fn an_interrupted_round_ends_where_it_did() {
    let script = script_from_items(&[
        Item::user("go"),
        call("c1", "{}"),
        result("c1"),
        notice("interrupted"),
        Item::user("on"),
        Item::assistant("half an ans"),
        notice("interrupted"),
    ]);
    assert_eq!(
        script.lines().collect::<Vec<_>>(),
        [
            r#"{"events":[{"type":"call","id":"c1","name":"look","arguments":{}}]}"#,
            r#"{"events":[{"type":"error","kind":"cancelled","message":"a notice of interrupted"}]}"#,
            concat!(
                r#"{"events":[{"type":"text","text":"half an ans"},"#,
                r#"{"type":"error","kind":"cancelled","message":"a notice of interrupted"}]}"#
            ),
        ]
    );
}

#[test]
fn arguments_over_several_lines_stay_on_the_rounds_line() {
    let script = script_from_items(&[call("c", "{\n  \"a\": 1\r\n}")]);
    assert_eq!(script.lines().count(), 1);
    let script = Script::parse(&script).unwrap();
    assert!(matches!(
        &script.rounds()[0].events[0],
        ScriptEvent::Call(call) if call.arguments == "{\n  \"a\": 1\r\n}"
    ));
}

#[test]
fn a_round_that_was_cut_off_stops_for_the_same_reason() {
    let check = |code: &str, reason: &str| {
        let items = [
            Item::user("go"),
            Item::assistant("so"),
            notice(code),
            Item::user("on"),
        ];
        let expected = format!(
            r#"{{"events":[{{"type":"text","text":"so"}},{{"type":"stop","reason":"{reason}"}}]}}"#
        );
        assert_eq!(script_from_items(&items).trim_end(), expected);
    };
    check("output_limit", "length");
    check("content_filter", "content_filter");
}
