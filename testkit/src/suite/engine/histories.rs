//! What an engine may be given.

use std::sync::Arc;

use haft_api::{EngineMemo, Item, NoticeLevel, Part, ProviderState, ToolSpec, raw_json};

use super::subject::Subject;
use crate::fixture::{tool_call, tool_name, tool_result};
use crate::history::validate_history;
use crate::suite::expect::{ensure, ok};
use crate::suite::{Checked, Unmet};

/// A PNG of one transparent pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

fn json(text: &str) -> Box<serde_json::value::RawValue> {
    raw_json(text).unwrap_or_else(|error| panic!("{text:?} stands in a case: {error}"))
}

fn echo(name: &str) -> ToolSpec {
    let spec = ToolSpec::new(tool_name(name), "Says a text back.");
    let schema = r#"{"type":"object","properties":{"text":{"type":"string"}}}"#;
    spec.schema(schema)
        .unwrap_or_else(|error| panic!("{schema} stands in a case: {error}"))
}

/// Two rounds with calls, and everything else that a history may hold.
fn every_kind(images: bool, state: Option<&ProviderState>) -> Vec<Item> {
    let mut parts = vec![
        Part::text("What a day: ä 中 😀 \u{7f}"),
        Part::Json {
            value: json(r#"{"z":1.50,"a":[1e300]}"#),
        },
    ];
    if images {
        parts.push(Part::Image {
            media_type: "image/png".to_owned(),
            data: PIXEL.to_owned(),
        });
    }
    let mut failed = tool_result("call-2", "echo", "The arguments aren't JSON.");
    failed.is_error = true;
    let mut structured = tool_result("call-3", "echo", "text");
    structured.parts.push(Part::Json {
        value: json("[null]"),
    });
    let mut first = tool_call("call-1", "echo", r#"{"text":"ä \"quoted\" \n"}"#);
    first.state = state.cloned();
    vec![
        Item::UserMessage { parts },
        Item::Reasoning {
            text: "Let me think.".to_owned(),
            state: state.cloned(),
        },
        Item::AssistantMessage {
            text: "I'll try.".to_owned(),
            state: state.cloned(),
        },
        Item::ToolCall(first),
        Item::ToolCall(tool_call("call-2", "echo", r#""{\"text\":""#)),
        Item::ToolResult(tool_result("call-1", "echo", "ä")),
        Item::ToolResult(failed),
        Item::Notice {
            level: NoticeLevel::Warning,
            code: "conformance".to_owned(),
            text: "Not for models.".to_owned(),
        },
        Item::ToolCall(tool_call("call-3", "no_such_tool", "{}")),
        Item::ToolResult(haft_api::ToolResult {
            name: "no_such_tool".to_owned(),
            ..structured
        }),
        Item::assistant("Done.\n"),
        Item::user("Two messages"),
    ]
}

async fn takes(subject: &Subject, state: Option<&ProviderState>) -> Checked {
    let model = ok("the default model", subject.engine().model(None).await)?;
    let mut request = subject.request_after(every_kind(model.images, state));
    let valid = validate_history(request.history.items());
    ensure!(
        valid.is_ok(),
        "expected the case's own history to be valid, got {valid:?}"
    );
    request.tools = [echo("echo")].into();
    subject.play(request).await.map(drop)
}

pub(in crate::suite) async fn every_kind_of_item_is_taken(subject: Subject) -> Checked {
    takes(&subject, None).await
}

pub(in crate::suite) async fn a_foreign_state_is_left_out(subject: Subject) -> Checked {
    for data in [
        r#""opaque""#,
        r#"{"type":"thinking","signature":"x"}"#,
        "[1,{}]",
        "null",
    ] {
        let state = ProviderState {
            provider: "haft-conformance".to_owned(),
            data: json(data),
        };
        takes(&subject, Some(&state)).await?;
    }
    Ok(())
}

pub(in crate::suite) async fn a_growing_history_is_answered(subject: Subject) -> Checked {
    let mut request = subject.request();
    for round in 0..4 {
        request.round = round;
        let played = subject.play(request.clone()).await?;
        let answer = if played.text.trim().is_empty() {
            "Well."
        } else {
            &played.text
        };
        request.history.push(Arc::new(Item::assistant(answer)));
        request
            .history
            .push(Arc::new(Item::user(&subject.fixture.prompt)));
    }
    Ok(())
}

pub(in crate::suite) async fn a_memo_may_be_anything(subject: Subject) -> Checked {
    let foreign = EngineMemo::new();
    foreign.put(Box::new("not yours".to_owned()));
    let used = EngineMemo::new();
    let mut before = subject.request_after(vec![Item::user("Another history")]);
    before.memo = used.clone();
    subject.play(before).await?;
    for memo in [foreign, used, EngineMemo::new()] {
        // A history of another generation than the one the memo was made for.
        let mut request = subject.request();
        request.memo = memo;
        subject.answered(request).await?;
    }
    Ok(())
}

pub(in crate::suite) async fn tools_of_any_name_are_taken(subject: Subject) -> Checked {
    let long = "a_rather_long.name-".repeat(7)[..128].to_owned();
    let names = ["x", "fs.read", "fs_read", "A-b_c.D9", "...", "-", &long];
    let mut request = subject.request();
    request.tools = names.map(echo).into();
    let model = ok("the default model", subject.engine().model(None).await)?;
    if !model.tools {
        return Err(Unmet::NotClaimed(
            "the default model has no tools".to_owned(),
        ));
    }
    subject.play(request).await.map(drop)
}
