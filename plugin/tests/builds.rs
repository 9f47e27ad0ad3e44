//! One list of checks for every way in which the same extension can be there:
//! linked in, over the boundary in this process, and as a shared object of
//! each way of building one.
//!
//! The builds that take long are made if `HAFT_PLUGIN_BUILDS` is `all`.
#![allow(clippy::print_stderr, reason = "a test that can't run says so")]

use std::sync::Arc;

use haft_api::{
    BatchCall, EngineEvent, EngineRequest, ErrorKind, Event, EventBody, Extension, History, Item,
    PolicyRequest, ThreadId, TurnId,
};
use haft_plugin_fixture::{Fixture, Second};

mod support;

use support::session::MemorySession;
use support::{Build, Kept, Loaded, Side, context, tool_call, within};

/// The list.
async fn check(side: &Side) {
    described(side);
    tools(side).await;
    own_runtime(side).await;
    called_back(side).await;
    streams(side).await;
    batches(side).await;
    policy_and_events(side).await;
}

fn described(side: &Side) {
    let manifests = side.registry.manifests();
    let shown: Vec<_> = manifests
        .iter()
        .map(|m| format!("{} {} ({})", m.id, m.version, m.description))
        .collect();
    let expected = [
        "fixture 1.2.3 (Does whatever a plug-in might)",
        "second 0.0.1 (Stands beside the first)",
    ];
    assert_eq!(shown, expected);
    // The specs are the same, byte for byte.
    let specs = |side: &Side| {
        let specs = side.tools.iter().map(|tool| tool.spec().clone());
        serde_json::to_string(&specs.collect::<Vec<_>>()).unwrap()
    };
    assert_eq!(specs(side), specs(&Side::linked()));
    let owners = ["echo", "hello"].map(|tool| side.tools.owner(tool).unwrap().as_str());
    assert_eq!(owners, ["fixture", "second"]);
}

async fn tools(side: &Side) {
    assert_eq!(side.text("echo", r#"{"text":"grüße"}"#).await, "grüße");
    assert_eq!(side.text("hello", "{}").await, "hello from the second");
    let image = side.call("image", r#"{"count":5000}"#).await.unwrap();
    assert_eq!(image.parts.len(), 2);
    let error = side.call("fail", r#"{"text":"slow","ms":7}"#).await;
    let error = error.unwrap_err();
    assert_eq!(error.retry_after_ms(), Some(7));
    assert_eq!(error.to_string(), "fail: slow (why: asked to): the cause");
}

async fn own_runtime(side: &Side) {
    assert_eq!(side.text("sleep", r#"{"ms":5}"#).await, "slept");
    assert_eq!(side.text("timeout", r#"{"ms":5}"#).await, "timed out");
    assert_eq!(side.text("blocking", r#"{"ms":5}"#).await, "blocked");
    assert_eq!(side.text("process", r#"{"text":"x y"}"#).await, "x y");
    assert_eq!(side.text("tcp", r#"{"text":"abc"}"#).await, "cba");
    assert_eq!(side.text("panic_spawned", "{}").await, "seen: true");
}

async fn called_back(side: &Side) {
    let output = Arc::new(Kept::default());
    let session = Arc::new(MemorySession::with("a", vec![0x9f; 100_000]));
    let with = || {
        context()
            .with_output(Arc::clone(&output) as _)
            .with_workspace(Arc::clone(&session) as _)
    };
    side.text_in(with(), "output", r#"{"text":"x","count":2}"#)
        .await;
    side.text_in(with(), "output_thread", r#"{"text":"t"}"#)
        .await;
    assert_eq!(output.text(), "x0\nx1\nt");
    side.text_in(with(), "copy", r#"{"path":"a"}"#).await;
    side.text_in(with(), "copy_spawned", r#"{"path":"a.copy"}"#)
        .await;
    assert_eq!(session.file("a.copy.copy").unwrap(), vec![0x9f; 100_000]);
    let missing = side.call_in(with(), "copy", r#"{"path":"b"}"#).await;
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
}

async fn streams(side: &Side) {
    let engine = side.registry.engine("chatter").unwrap();
    let script = r#"{"deltas":50,"text":"ab","ms":1}"#;
    let history = History::new(1, vec![Arc::new(Item::user(script))]);
    let request = EngineRequest::new(
        ThreadId::new("t").unwrap(),
        TurnId::new("u").unwrap(),
        history,
    );
    let mut stream = within(engine.stream_turn(request)).await.unwrap();
    let mut text = String::new();
    while let Some(event) = within(std::future::poll_fn(|cx| stream.as_mut().poll_next(cx))).await {
        if let EngineEvent::TextDelta { text: delta } = event.unwrap() {
            text += &delta;
        }
    }
    assert_eq!(text, "ab".repeat(50));
    let before = side.drops().await;
    let call = side.call("forever", "{}");
    let cancelled = tokio::time::timeout(std::time::Duration::from_millis(10), call).await;
    assert!(cancelled.is_err());
    assert_eq!(side.drops().await, before + 1);
}

async fn batches(side: &Side) {
    struct All(std::sync::Mutex<Vec<String>>);
    impl haft_api::BatchOutcomes for All {
        fn complete(
            &self,
            call: &haft_api::CallId,
            outcome: haft_api::Result<haft_api::ToolOutput>,
        ) -> bool {
            let output = outcome.map(|output| haft_api::join_text(&output.parts));
            let text = output.unwrap_or_else(|e| e.to_string());
            self.0.lock().unwrap().push(format!("{call}: {text}"));
            true
        }
    }
    let source = &side.registry.tool_sources()[0].part;
    let slots = Arc::new(All(std::sync::Mutex::default()));
    let call = |how: &str| BatchCall {
        call: tool_call("slot", how),
        context: context(),
    };
    let calls = vec![call("{}"), call(r#"{"how":"error","ms":20}"#)];
    let outcomes = Arc::clone(&slots) as Arc<dyn haft_api::BatchOutcomes>;
    within(source.call_batch(calls, outcomes)).await.unwrap();
    assert_eq!(*slots.0.lock().unwrap(), ["c1: c1 is done", "c1: not now"]);
}

async fn policy_and_events(side: &Side) {
    let policy = &side.registry.policies()[0].part;
    let request = PolicyRequest::new(
        ThreadId::new("t").unwrap(),
        TurnId::new("u").unwrap(),
        tool_call("read", r#"{"path":".env"}"#),
        haft_api::Effects::READS,
    );
    let decision = within(policy.review(request)).await.unwrap();
    assert!(matches!(decision, haft_api::Decision::Deny { .. }));
    let sink = &side.registry.event_sinks()[0].part;
    let text = "x".to_owned();
    let body = EventBody::MessageDelta { text };
    sink.publish(&Event::new(1, ThreadId::new("t").unwrap(), None, 0, body));
    let counts = side.text("counts", "{}").await;
    assert!(counts.starts_with("1 events"), "{counts}");
}

/// What can only be seen of a plug-in.
async fn check_loaded(loaded: &Loaded) {
    check(loaded).await;
    for name in ["panic_poll", "panic_call", "panic_drop", "panic_payload"] {
        let error = loaded.call(name, "{}").await.unwrap_err();
        assert!(error.to_string().contains("panicked"), "{error}");
    }
    loaded.at_rest().await;
}

fn takes_too_long(build: &str) -> bool {
    let all = std::env::var_os("HAFT_PLUGIN_BUILDS").is_some_and(|builds| builds == "all");
    if !all {
        eprintln!("skipped: the {build} is built if HAFT_PLUGIN_BUILDS is `all`");
    }
    !all
}

#[tokio::test]
async fn linked_in() {
    check(&Side::linked()).await;
}

#[tokio::test]
async fn over_the_boundary_in_this_process() {
    let extensions: Vec<Box<dyn Extension>> = vec![Box::new(Fixture), Box::new(Second)];
    check_loaded(&Loaded::all_in_process(extensions)).await;
}

#[tokio::test]
async fn a_debug_build() {
    check_loaded(&Loaded::fixture()).await;
}

#[tokio::test]
async fn a_build_with_an_allocator_of_its_own() {
    check_loaded(&Loaded::new(&Build::Allocator.path())).await;
}

#[tokio::test]
async fn a_release_build() {
    if !takes_too_long("release build") {
        check_loaded(&Loaded::new(&Build::Release.path())).await;
    }
}

#[tokio::test]
async fn a_build_for_size_without_symbols() {
    if !takes_too_long("build for size") {
        check_loaded(&Loaded::new(&Build::Small.path())).await;
    }
}

#[tokio::test]
async fn a_build_of_another_compiler() {
    if takes_too_long("build of another compiler") {
        return;
    }
    match Build::Debug.path_with("nightly") {
        Some(path) => {
            let loaded = Loaded::new(&path);
            let built_with = &loaded.plugin.info().build_info;
            assert!(built_with.contains("nightly"), "{built_with}");
            check_loaded(&loaded).await;
        }
        None => eprintln!("skipped: no other compiler is installed"),
    }
}

#[tokio::test]
async fn two_files_and_two_instances_at_once() {
    let debug = Loaded::fixture();
    let again = Loaded::fixture();
    let other = Loaded::new(&Build::Allocator.path());
    let linked = Side::linked();
    tokio::join!(
        check_loaded(&debug),
        check_loaded(&again),
        check_loaded(&other),
        check(&linked)
    );
}
