//! What a runtime sees of the engine.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use haft_api::{
    CallId, EngineEvent, EngineRequest, Error, ErrorKind, ExtensionConfig,
    ExtensionRegistryBuilder, FinishReason, History, InferenceEngine, Item, Part, Readiness,
    ThreadId, ToolCall, ToolResult, TurnId, linked_extensions, raw_json,
};
use haft_ext_engine_replay::{ReplayEngine, ReplayExtension, script_from_items};
use tempfile::TempDir;

struct Played {
    events: Vec<EngineEvent>,
    error: Option<Error>,
}

fn request(thread: &str, script: Option<&Path>) -> EngineRequest {
    let mut request = EngineRequest::new(
        ThreadId::new(thread).unwrap(),
        TurnId::new("turn").unwrap(),
        History::new(1, vec![Arc::new(Item::user("hi"))]),
    );
    request.model = script.map(|path| path.to_str().unwrap().to_owned());
    request
}

/// One round; an error is the one before or in the stream.
async fn round(engine: &ReplayEngine, request: EngineRequest) -> Played {
    let mut played = Played {
        events: Vec::new(),
        error: None,
    };
    match engine.stream_turn(request).await {
        Err(error) => played.error = Some(error),
        Ok(mut stream) => {
            while let Some(event) = stream.next().await {
                match event {
                    Ok(event) => played.events.push(event),
                    Err(error) => {
                        assert!(played.error.is_none(), "two errors in one stream");
                        played.error = Some(error);
                    }
                }
            }
        }
    }
    played
}

fn script(lines: &str) -> (TempDir, std::path::PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("script.jsonl");
    std::fs::write(&path, lines).unwrap();
    (folder, path)
}

fn text(text: &str) -> EngineEvent {
    EngineEvent::TextDelta {
        text: text.to_owned(),
    }
}

fn finished(reason: FinishReason) -> EngineEvent {
    EngineEvent::Finished { reason }
}

#[tokio::test]
async fn each_round_of_a_thread_plays_the_next_line_and_then_done() {
    let (_folder, path) = script(
        "{\"events\":[{\"type\":\"text\",\"text\":\"one\"}]}\n{\"events\":[{\"type\":\"text\",\"text\":\"two\"}]}\n",
    );
    let engine = ReplayEngine::new(None).unwrap();
    let hear = async |thread: &str| {
        let played = round(&engine, request(thread, Some(&path))).await;
        assert!(played.error.is_none());
        played.events
    };
    let end = || finished(FinishReason::End);
    assert_eq!(hear("a").await, [text("one"), end()]);
    assert_eq!(hear("b").await, [text("one"), end()]);
    assert_eq!(hear("a").await, [text("two"), end()]);
    assert_eq!(hear("a").await, [text("done"), end()]);
    assert_eq!(hear("a").await, [text("done"), end()]);
    assert_eq!(hear("b").await, [text("two"), end()]);
}

#[tokio::test]
async fn the_reason_follows_the_calls_unless_the_script_names_one() {
    let check = async |events: &str, reason: FinishReason| {
        let (_folder, path) = script(&format!("{{\"events\":[{events}]}}"));
        let engine = ReplayEngine::new(None).unwrap();
        let played = round(&engine, request("t", Some(&path))).await;
        assert_eq!(played.events.last(), Some(&finished(reason)), "{events}");
        let ends = |e: &&EngineEvent| matches!(e, EngineEvent::Finished { .. });
        assert_eq!(played.events.iter().filter(ends).count(), 1, "{events}");
    };
    let call = r#"{"type":"call","name":"n"}"#;
    check("", FinishReason::End).await;
    check(r#"{"type":"text","text":"x"}"#, FinishReason::End).await;
    check(call, FinishReason::ToolCalls).await;
    check(
        &format!(r#"{call},{{"type":"stop","reason":"length"}}"#),
        FinishReason::Length,
    )
    .await;
    // Usage after the reason, as most servers send it.
    check(
        r#"{"type":"stop","reason":"content_filter"},{"type":"usage","input":1}"#,
        FinishReason::ContentFilter,
    )
    .await;
}

#[tokio::test]
async fn calls_reach_the_runtime_untouched_and_in_place() {
    let (_folder, path) = script(
        r#"{"events":[{"type":"call","id":"x","name":"a","arguments":"{broken"},{"type":"text","text":"mid"},{"type":"call","id":"x","name":"","arguments":{"k": 1.0}},{"type":"call","name":"c"}]}"#,
    );
    let engine = ReplayEngine::new(None).unwrap();
    let played = round(&engine, request("t", Some(&path))).await;
    let call = |id: Option<&str>, name: &str, arguments: &str| {
        EngineEvent::Call(haft_api::EngineToolCall {
            id: id.map(str::to_owned),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
            state: None,
        })
    };
    assert_eq!(
        played.events,
        [
            call(Some("x"), "a", "{broken"),
            text("mid"),
            call(Some("x"), "", r#"{"k": 1.0}"#),
            call(None, "c", ""),
            finished(FinishReason::ToolCalls),
        ]
    );
}

#[tokio::test]
async fn a_leading_error_refuses_the_round_and_a_later_one_breaks_it_off() {
    let (_folder, path) = script(concat!(
        r#"{"events":[{"type":"error","kind":"rate_limited","message":"slow down","retry_after_ms":40}]}"#,
        "\n",
        r#"{"events":[{"type":"text","text":"so far"},{"type":"error","kind":"denied","message":"no"},{"type":"text","text":"never"}]}"#,
        "\n",
        r#"{"events":[{"type":"text","text":"after all"}]}"#,
    ));
    let engine = ReplayEngine::new(None).unwrap();
    let request = || request("t", Some(&path));

    let error = engine.stream_turn(request()).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::RateLimited);
    assert!(error.is_temporary());
    assert_eq!(error.retry_after_ms(), Some(40));
    assert_eq!(error.message(), "slow down");
    assert_eq!(error.context_value("line"), Some("1"));

    let broken = round(&engine, request()).await;
    assert_eq!(broken.events, [text("so far")]);
    let error = broken.error.unwrap();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(!error.is_temporary());
    assert_eq!(error.context_value("line"), Some("2"));

    let retried = round(&engine, request()).await;
    assert_eq!(
        retried.events,
        [text("after all"), finished(FinishReason::End)]
    );
}

#[tokio::test]
async fn a_cut_ends_the_stream_without_a_completion() {
    let (_folder, path) = script(
        r#"{"events":[{"type":"text","text":"so"},{"type":"cut"},{"type":"text","text":"never"}]}"#,
    );
    let engine = ReplayEngine::new(None).unwrap();
    let played = round(&engine, request("t", Some(&path))).await;
    assert_eq!(played.events, [text("so")]);
    assert!(played.error.is_none());
}

#[tokio::test(start_paused = true)]
async fn sleep_takes_its_time_and_a_stall_all_of_it() {
    let (_folder, path) = script(
        r#"{"events":[{"type":"sleep","ms":60000},{"type":"text","text":"late"},{"type":"stall"},{"type":"text","text":"never"}]}"#,
    );
    let engine = ReplayEngine::new(None).unwrap();
    let mut stream = engine.stream_turn(request("t", Some(&path))).await.unwrap();
    let started = tokio::time::Instant::now();
    assert_eq!(stream.next().await.unwrap().unwrap(), text("late"));
    assert!(started.elapsed() >= Duration::from_secs(60));
    let more = tokio::time::timeout(Duration::from_secs(1_000_000), stream.next()).await;
    assert!(more.is_err(), "a stall said something");
}

#[tokio::test]
async fn what_is_wrong_with_a_script_is_said_and_counts_no_round() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("late.jsonl");
    let engine = ReplayEngine::new(None).unwrap();
    let request = || request("t", Some(&path));

    let error = engine.stream_turn(request()).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("late.jsonl"), "{error}");

    std::fs::write(
        &path,
        "{\"events\":[]}\n{\"events\":[{\"type\":\"tekst\"}]}",
    )
    .unwrap();
    let error = engine.stream_turn(request()).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(error.context_value("line"), Some("2"));
    for part in ["late.jsonl", "event 1", "tekst", "did you mean `text`?"] {
        assert!(error.to_string().contains(part), "{error}: no {part:?}");
    }

    std::fs::write(&path, b"\xff\xfe").unwrap();
    let error = engine.stream_turn(request()).await.err().unwrap();
    assert!(error.to_string().contains("isn't UTF-8"), "{error}");

    std::fs::write(&path, r#"{"events":[{"type":"text","text":"one"}]}"#).unwrap();
    assert_eq!(round(&engine, request()).await.events[0], text("one"));

    let error = engine
        .stream_turn(self::request("t", None))
        .await
        .err()
        .unwrap();
    assert!(error.to_string().contains("--model FILE"), "{error}");
}

#[tokio::test]
async fn a_default_script_makes_it_ready() {
    let (folder, path) = script(r#"{"events":[{"type":"text","text":"by default"}]}"#);
    let none = ReplayEngine::new(None).unwrap();
    assert!(matches!(
        none.readiness().await,
        Readiness::Unavailable { reason } if reason.contains("--model")
    ));
    assert!(none.models().await.unwrap().is_empty());
    assert!(none.model(None).await.is_err());
    assert_eq!(none.model(Some("x")).await.unwrap().name, "x");

    let missing = ReplayEngine::new(Some(folder.path().join("missing"))).unwrap();
    assert!(matches!(
        missing.readiness().await,
        Readiness::Unavailable { reason } if reason.contains("missing")
    ));

    let engine = ReplayEngine::new(Some(path.clone())).unwrap();
    assert_eq!(engine.readiness().await, Readiness::Ready);
    assert_eq!(
        engine.models().await.unwrap()[0].name,
        path.to_str().unwrap()
    );
    let played = round(&engine, request("t", None)).await;
    assert_eq!(played.events[0], text("by default"));
}

#[test]
fn the_extension_registers_its_engine_and_refuses_unknown_settings() {
    let register = |settings: &str| {
        let mut builder = ExtensionRegistryBuilder::new();
        builder.extension(
            &ReplayExtension,
            &ExtensionConfig::from_json(settings).unwrap(),
        )?;
        builder.build()
    };
    let registry = register("{}").unwrap();
    assert_eq!(registry.manifests()[0].id, "engine-replay");
    assert!(registry.engine("replay").is_some());
    assert!(register(r#"{"script":"a.jsonl"}"#).is_ok());
    let error = register(r#"{"skript":"a.jsonl"}"#).unwrap_err();
    assert!(error.to_string().contains("skript"), "{error}");
    assert!(
        linked_extensions()
            .iter()
            .any(|l| l.name == "ReplayExtension")
    );
}

/// What a runtime would make of a round's events, less the ids it gives.
fn items_of(events: &[EngineEvent]) -> Vec<Item> {
    events
        .iter()
        .filter_map(|event| match event {
            EngineEvent::TextDelta { text } => Some(Item::assistant(text)),
            EngineEvent::ReasoningDelta { text } => Some(Item::Reasoning {
                text: text.clone(),
                state: None,
            }),
            EngineEvent::Call(call) => Some(Item::ToolCall(ToolCall {
                id: CallId::new(call.id.as_deref().unwrap()).unwrap(),
                name: call.name.clone(),
                arguments: raw_json(&call.arguments)
                    .ok()
                    .filter(|raw| raw.get().starts_with('{'))
                    .unwrap_or_else(|| {
                        raw_json(serde_json::to_string(&call.arguments).unwrap()).unwrap()
                    }),
                state: None,
            })),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn a_recorded_thread_plays_again_as_it_was() {
    let call = |id: &str, arguments: &str| {
        Item::ToolCall(ToolCall {
            id: CallId::new(id).unwrap(),
            name: "look".to_owned(),
            arguments: raw_json(arguments).unwrap(),
            state: None,
        })
    };
    let result = |id: &str| {
        Item::ToolResult(ToolResult {
            call_id: CallId::new(id).unwrap(),
            name: "look".to_owned(),
            is_error: false,
            parts: vec![Part::text("seen")],
        })
    };
    let recorded = [
        Item::user("look"),
        Item::Reasoning {
            text: "hm \u{1f914}\n\"quoted\"".to_owned(),
            state: None,
        },
        Item::assistant("I'll look."),
        call("c1", r#"{"b": 1.0, "a": [1e400]}"#),
        call("c2", r#""{not json \" \n""#),
        call("c3", r#""""#),
        call("c4", "{\n\"x\":\n1}"),
        result("c1"),
        result("c2"),
        result("c3"),
        result("c4"),
        Item::assistant("All seen."),
        Item::user("more?"),
        Item::assistant("No."),
    ];
    let (_folder, path) = script(&script_from_items(&recorded));
    let engine = ReplayEngine::new(Some(path)).unwrap();
    let mut played = Vec::new();
    for _ in 0..3 {
        played.extend(items_of(&round(&engine, request("t", None)).await.events));
    }
    let from_model: Vec<_> = recorded
        .iter()
        .filter(|i| !matches!(i, Item::UserMessage { .. } | Item::ToolResult(_)))
        .cloned()
        .collect();
    assert_eq!(played, from_model);
    let after = round(&engine, request("t", None)).await;
    assert_eq!(after.events[0], text("done"));
}
