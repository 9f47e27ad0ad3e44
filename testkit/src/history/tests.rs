use haft_api::{NoticeLevel, raw_json};

use super::*;
use crate::fixture::{tool_call, tool_result};

fn call(id: &str) -> Item {
    Item::ToolCall(tool_call(id, "tool", "{}"))
}

fn result(id: &str) -> Item {
    Item::ToolResult(tool_result(id, "tool", "fine"))
}

fn user() -> Item {
    Item::user("hello")
}

fn said() -> Item {
    Item::assistant("well")
}

fn thought() -> Item {
    Item::Reasoning {
        text: "hm".to_owned(),
        state: None,
    }
}

fn notice() -> Item {
    Item::Notice {
        level: NoticeLevel::Info,
        code: "note".to_owned(),
        text: "note".to_owned(),
    }
}

fn part(part: Part) -> Item {
    Item::UserMessage { parts: vec![part] }
}

fn image(media_type: &str, data: &str) -> Item {
    part(Part::Image {
        media_type: media_type.to_owned(),
        data: data.to_owned(),
    })
}

fn arguments(text: &str) -> [Item; 3] {
    [
        user(),
        Item::ToolCall(tool_call("a", "tool", text)),
        result("a"),
    ]
}

/// Checks which rules are broken, and at which items.
#[track_caller]
fn check(items: impl IntoIterator<Item = Item>, expected: &[(usize, Rule)]) {
    let items: Vec<Item> = items.into_iter().collect();
    let found = validate_history(&items).err().unwrap_or_default();
    let found: Vec<_> = found.iter().map(|v| (v.item, v.rule)).collect();
    assert_eq!(found, expected, "{items:#?}");
}

#[test]
fn valid_histories() {
    check([], &[]);
    check([user()], &[]);
    check([user(), said(), user()], &[]);
    check([user(), user()], &[]);
    check([user(), call("a"), result("a"), said()], &[]);
    check(
        [user(), call("a"), call("b"), result("a"), result("b")],
        &[],
    );
    // Two rounds.
    check(
        [user(), call("a"), result("a"), call("b"), result("b")],
        &[],
    );
    // All of a round's pieces, in any order the model wrote them.
    check(
        [
            user(),
            thought(),
            said(),
            call("a"),
            thought(),
            said(),
            call("b"),
        ]
        .into_iter()
        .chain([result("a"), result("b"), thought(), said()]),
        &[],
    );
    // Models don't see notices.
    check(
        [notice(), user(), call("a"), notice(), result("a"), notice()],
        &[],
    );
    check(
        [
            user(),
            call("a"),
            call("b"),
            result("a"),
            notice(),
            result("b"),
        ],
        &[],
    );
    check(arguments("{}"), &[]);
    check(arguments(r#"{"a":{"b":[1,2.50,1e300]}}"#), &[]);
    check(arguments(r#""{\"a\":""#), &[]);
    check([image("image/png", "iVBORw0KGgo=")], &[]);
}

#[test]
fn calls_and_results_pair() {
    use Rule::*;
    check([user(), call("a")], &[(2, MissingResult)]);
    check([user(), call("a"), user()], &[(2, MissingResult)]);
    check(
        [user(), call("a"), call("b"), result("b")],
        &[(3, ResultOrder), (4, MissingResult)],
    );
    check([user(), result("a")], &[(1, ResultWithoutCall)]);
    check(
        [user(), result("a"), call("a")],
        &[(1, ResultWithoutCall), (3, MissingResult)],
    );
    check(
        [user(), call("a"), result("a"), result("a")],
        &[(3, DuplicateResult)],
    );
    check(
        [user(), call("a"), call("b"), result("b"), result("a")],
        &[(3, ResultOrder)],
    );
    check(
        [user(), call("a"), result("a"), call("a"), result("a")],
        &[(3, DuplicateCallId)],
    );
    for between in [user(), said(), thought(), call("c")] {
        let c_has_no_result = matches!(between, Item::ToolCall(_));
        let mut expected = vec![(5, Interleaved)];
        if c_has_no_result {
            expected.push((6, MissingResult));
        }
        check(
            [
                user(),
                call("a"),
                call("b"),
                result("a"),
                between,
                result("b"),
            ],
            &expected,
        );
    }
    check(
        [user(), call("a"), user(), result("a")],
        &[(3, Interleaved)],
    );
    check(
        [user(), call("a"), call("b"), result("a"), said()],
        &[(4, MissingResult)],
    );
    let other_name = Item::ToolResult(tool_result("a", "another", "fine"));
    check([user(), call("a"), other_name], &[(2, NameMismatch)]);
    let nameless = Item::ToolCall(tool_call("a", " ", "{}"));
    let its_result = Item::ToolResult(tool_result("a", " ", "fine"));
    check([user(), nameless, its_result], &[(1, EmptyName)]);
}

#[test]
fn nothing_is_empty() {
    use Rule::EmptyContent;
    check([part(Part::text(""))], &[(0, EmptyContent)]);
    check([Item::UserMessage { parts: vec![] }], &[(0, EmptyContent)]);
    check([user(), Item::assistant("")], &[(1, EmptyContent)]);
    let empty_result = Item::ToolResult(tool_result("a", "tool", ""));
    check([user(), call("a"), empty_result], &[(2, EmptyContent)]);
    let mut no_parts = tool_result("a", "tool", "");
    no_parts.parts.clear();
    check(
        [user(), call("a"), Item::ToolResult(no_parts)],
        &[(2, EmptyContent)],
    );
    let reasoning = |state: Option<&str>| Item::Reasoning {
        text: String::new(),
        state: state.map(|data| ProviderState {
            provider: "p".to_owned(),
            data: raw_json(data).unwrap(),
        }),
    };
    check([user(), reasoning(None)], &[(1, EmptyContent)]);
    check([user(), reasoning(Some(r#""opaque""#))], &[]);
    check([user(), reasoning(Some(r#""\ud800""#))], &[(1, Rule::Json)]);
}

#[test]
fn blocks_are_what_providers_take() {
    for bad in ["null", "[1]", "1", "true", r#"{"a":"\ud800"}"#] {
        check(arguments(bad), &[(1, Rule::Arguments)]);
    }
    let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(200), "]".repeat(200));
    check(arguments(&deep), &[(1, Rule::Arguments)]);
    for (media_type, data) in [
        ("image/bmp", "AAAA"),
        ("image/png", ""),
        ("image/png", "AAA"),
        ("image/png", "AA=A"),
        ("image/png", "A==="),
        ("image/png", "AA\nA"),
        ("image/png", "data:image/png;base64,AAAA"),
    ] {
        check([image(media_type, data)], &[(0, Rule::Image)]);
    }
}

#[test]
fn the_wires_differ() {
    let check = |items: &[Item], rule: Rule, wires: &[Wire]| {
        let found = validate_history(items).unwrap_err();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].rule, &*found[0].wires), (rule, wires));
        for wire in Wire::ALL {
            let refuses = validate_history_for(wire, items).is_err();
            assert_eq!(refuses, wires.contains(&wire), "{wire:?} {items:?}");
        }
    };
    let long = "x".repeat(41);
    check(
        &[user(), call(&long), result(&long)],
        Rule::CallIdShape,
        &[Wire::OpenAiChat],
    );
    check(
        &[user(), Item::assistant(" \n")],
        Rule::EmptyContent,
        &[Wire::Anthropic],
    );
    check(&[said(), user()], Rule::FirstItem, &[Wire::Anthropic]);
    check(&[user(), call("a")], Rule::MissingResult, &Wire::ALL);
}

#[test]
fn a_violation_says_where_and_what() {
    let items = [user(), call("a"), user(), said()];
    let text = validate_history(&items).unwrap_err()[0].to_string();
    assert_eq!(
        text,
        "item 2: MissingResult: call a has no result before a user message"
    );
    let text = validate_history(&[user(), Item::assistant(" ")]).unwrap_err()[0].to_string();
    assert!(text.ends_with("([Anthropic] only)"), "{text}");
}

#[test]
fn shared_items_are_taken_as_they_are() {
    let items: Vec<_> = [user(), call("a")]
        .into_iter()
        .map(std::sync::Arc::new)
        .collect();
    assert!(validate_history(&items).is_err());
}
