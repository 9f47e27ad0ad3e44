//! A conversation that was had elsewhere becomes a valid thread.

mod support;

use haft_api::{ErrorKind, Item, Part, Usage};
use haft_core::{Piece, ThreadOptions};
use haft_testkit::Round;
use support::{World, engine_id, items, run};

fn user(text: &str) -> Piece {
    Piece::User(vec![Part::text(text)])
}

fn call(id: &str, name: &str) -> Piece {
    Piece::Call {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: r#"{"x":1}"#.to_owned(),
    }
}

fn result(id: &str, text: &str) -> Piece {
    Piece::Result {
        call_id: id.to_owned(),
        is_error: false,
        parts: vec![Part::text(text)],
    }
}

fn said(text: &str) -> Piece {
    Piece::Assistant(text.to_owned())
}

fn show(item: &Item) -> String {
    match item {
        Item::UserMessage { parts } => format!("u:{}", haft_api::join_text(parts)),
        Item::AssistantMessage { text, .. } => format!("a:{text}"),
        Item::ToolCall(call) => format!("c:{} {}", call.id, call.name),
        Item::ToolResult(result) => {
            let text = result.text();
            let text = text.split(':').next().unwrap_or_default();
            let mark = if result.is_error { "!" } else { "" };
            format!("s:{} {mark}{text}", result.call_id)
        }
        other => other.type_name().to_owned(),
    }
}

async fn check(pieces: Vec<Piece>, expected: &[&str], made_up: (usize, usize)) {
    let started = World::new([Round::new().text("going on")]).start();
    let elsewhere = engine_id("elsewhere");
    let imported = started
        .runtime
        .import_thread(ThreadOptions::default(), &elsewhere, pieces);
    let (thread, report) = imported.await.unwrap();
    let counts = (report.calls_without_result, report.results_without_call);
    assert_eq!(counts, made_up);
    let shown: Vec<_> = items(&thread).await.iter().map(show).collect();
    assert_eq!(shown, expected);
    let id = thread.id().clone();
    drop(thread);
    let thread = started.runtime.open_thread(&id).await.unwrap();
    assert_eq!(run(&thread, "more").await.answer, "going on");
    assert!(started.runtime.check_thread(&id).await.unwrap().is_empty());
}

#[tokio::test]
async fn calls_get_their_results_wherever_they_stand() {
    check(
        vec![
            user("a"),
            call("1", "f"),
            call("2", "g"),
            result("2", "two"),
            said("hm"),
            result("1", "one"),
            user("b"),
            said("done"),
        ],
        &[
            "u:a", "c:1 f", "c:2 g", "s:1 one", "s:2 two", "a:hm", "u:b", "a:done",
        ],
        (0, 0),
    )
    .await;
}

#[tokio::test]
async fn what_is_missing_is_made_up_and_counted() {
    check(
        vec![
            said("begins in the middle"),
            said("  "),
            call("", "f"),
            result("", " "),
            user(""),
            call("1", "g"),
            user("b"),
            call("1", "g"),
            result("1", "late"),
            result("9", "whose?"),
        ],
        &[
            "u:(what was said before this isn't known)",
            "a:begins in the middle",
            "c:call_1 f",
            "s:call_1 (no output)",
            "c:1 g",
            "s:1 late",
            "u:b",
            "c:call_2 g",
            "s:call_2 !interrupted",
        ],
        (1, 1),
    )
    .await;
}

#[tokio::test]
async fn a_summary_stands_as_the_runtimes_own_would() {
    let started = World::new([Round::new().text("going on")]).start();
    let pieces = vec![
        Piece::Model("m".to_owned()),
        user("a"),
        said("b"),
        Piece::Usage(Usage {
            input: Some(5),
            output: Some(2),
            ..Usage::default()
        }),
        user("kept"),
        said("too"),
        Piece::Summary {
            text: "a and b".to_owned(),
            kept: 2,
        },
        user("c"),
    ];
    let options = ThreadOptions::default();
    let elsewhere = engine_id("elsewhere");
    let imported = started.runtime.import_thread(options, &elsewhere, pieces);
    let (thread, _) = imported.await.unwrap();
    run(&thread, "d").await;
    let requests = started.engine.requests();
    let shown = requests[0].history.items().iter().map(|item| show(item));
    let shown: Vec<_> = shown.collect();
    assert!(shown[0].contains("a and b"), "{shown:?}");
    assert_eq!(shown[1..], ["u:kept", "a:too", "u:c", "u:d"]);
    assert_eq!(items(&thread).await.len(), 7, "all of it stays");
    let models = thread.items(None, 0).await.models;
    assert_eq!(
        (models[0].model.as_deref(), models[0].usage.input),
        (Some("m"), Some(5))
    );
}

#[tokio::test]
async fn nothing_to_import_is_an_error_and_leaves_nothing() {
    let started = World::new([]).start();
    let pieces = vec![Piece::Model("m".to_owned()), result("1", "x")];
    let options = ThreadOptions::default();
    let elsewhere = engine_id("elsewhere");
    let imported = started.runtime.import_thread(options, &elsewhere, pieces);
    assert_eq!(imported.await.unwrap_err().kind(), ErrorKind::InvalidInput);
    let page = started
        .runtime
        .list_threads(Default::default())
        .await
        .unwrap();
    assert!(page.threads.is_empty());
}
