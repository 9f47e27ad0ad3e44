//! Approvals and external calls: asked, answered in any order, and durable.

mod support;

use haft_api::{Effects, ErrorKind, EventBody, PolicyMode, ToolName, ToolOutput, ToolSpec};
use haft_core::{Runtime, Thread, TurnStatus};
use haft_testkit::{CountingTool, MemoryStore, Round, fixture};
use support::{World, outcomes, request, wait_for};

fn world(rounds: impl IntoIterator<Item = Round>) -> World {
    World::new(rounds)
        .tool(CountingTool::new("send").effects(Effects::NETWORK))
        .tool(CountingTool::new("count"))
}

fn ask(text: &str) -> haft_core::TurnRequest {
    request(text).mode(PolicyMode::Ask)
}

/// Waits until so many questions are open.
async fn open(thread: &Thread, count: usize) -> Vec<haft_core::OpenRequest> {
    for _ in 0..2_000 {
        let open = thread.open_requests().await;
        if open.len() == count {
            return open;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("{count} open requests never came");
}

#[tokio::test]
async fn approvals_come_at_once_and_may_be_answered_in_any_order() {
    let round = Round::new()
        .call("a", "send", "{}")
        .call("b", "send", "{}")
        .call("c", "count", "{}");
    let started = world([round]).start();
    let thread = started.thread().await;
    let turn = thread.start_turn(ask("go")).await.unwrap();
    let questions = open(&thread, 2).await;
    thread
        .answer_approval(&questions[1].id, true)
        .await
        .unwrap();
    let late = thread
        .answer_approval(&questions[1].id, false)
        .await
        .unwrap_err();
    assert_eq!(late.kind(), ErrorKind::NotFound);
    thread
        .answer_approval(&questions[0].id, false)
        .await
        .unwrap();
    assert_eq!(turn.ended().await.status, TurnStatus::Completed);
    assert_eq!(
        outcomes(&thread).await,
        [
            "send: !denied: the user did not approve this call",
            "send: 1",
            "count: 1"
        ]
    );
}

#[tokio::test]
async fn an_interrupt_ends_the_wait() {
    let started = world([Round::new().call("a", "send", "{}")]).start();
    let thread = started.thread().await;
    let turn = thread.start_turn(ask("go")).await.unwrap();
    let question = open(&thread, 1).await.remove(0);
    turn.interrupt();
    assert_eq!(turn.ended().await.status, TurnStatus::Interrupted);
    assert_eq!(
        outcomes(&thread).await,
        ["send: !not started: the turn was interrupted"]
    );
    let late = thread
        .answer_approval(&question.id, true)
        .await
        .unwrap_err();
    assert_eq!(late.kind(), ErrorKind::NotFound);
}

/// A turn that waits for an approval, in a process that is gone.
async fn left_waiting(store: &MemoryStore, round: Round) -> haft_api::ThreadId {
    // The process's end: its runtime is dropped with all of its tasks.
    let id = fixture::fresh_thread();
    let (store, thread_id) = (store.clone(), id.clone());
    let process = std::thread::spawn(move || {
        let tokio = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        tokio.block_on(async {
            let started = world([round]).store(store.shared()).start();
            let mut options = haft_core::ThreadOptions::default();
            options.id = Some(thread_id);
            let thread = started.runtime.create_thread(options).await.unwrap();
            let mut events = thread.subscribe(64);
            thread.start_turn(ask("go")).await.unwrap();
            wait_for(&mut events, |e| {
                matches!(e.body, EventBody::ApprovalRequested { .. })
            })
            .await;
        });
    });
    process.join().unwrap();
    id
}

async fn reopen(store: &MemoryStore, id: &haft_api::ThreadId) -> (Runtime, Thread) {
    let runtime = world([Round::new().text("sent")])
        .store(store.shared())
        .start()
        .runtime;
    let thread = runtime.open_thread(id).await.unwrap();
    (runtime, thread)
}

#[tokio::test]
async fn an_approval_survives_a_restart() {
    for (approved, expected) in [
        (true, "send: 1"),
        (false, "send: !denied: the user did not approve this call"),
    ] {
        let store = MemoryStore::new();
        let id = left_waiting(&store, Round::new().call("a", "send", "{}")).await;
        let (_runtime, thread) = reopen(&store, &id).await;
        let question = open(&thread, 1).await.remove(0);
        assert_eq!(question.name, "send");
        thread
            .answer_approval(&question.id, approved)
            .await
            .unwrap();
        let end = thread.resume_turn(ask("")).await.unwrap().ended().await;
        assert_eq!(
            (end.status, end.answer.as_str()),
            (TurnStatus::Completed, "sent")
        );
        assert_eq!(outcomes(&thread).await, [expected]);
    }
}

#[tokio::test]
async fn a_resumed_turn_asks_again_what_was_not_answered() {
    let store = MemoryStore::new();
    let id = left_waiting(&store, Round::new().call("a", "send", "{}")).await;
    let (_runtime, thread) = reopen(&store, &id).await;
    let turn = thread.resume_turn(ask("")).await.unwrap();
    let question = open(&thread, 1).await.remove(0);
    thread.answer_approval(&question.id, true).await.unwrap();
    assert_eq!(turn.ended().await.status, TurnStatus::Completed);
    assert_eq!(outcomes(&thread).await, ["send: 1"]);
}

#[tokio::test]
async fn a_new_turn_closes_what_an_old_process_left() {
    let store = MemoryStore::new();
    let id = left_waiting(&store, Round::new().call("a", "send", "{}")).await;
    let (_runtime, thread) = reopen(&store, &id).await;
    let before = store.records(&id).len();
    let shown = outcomes(&thread).await;
    assert!(
        shown[0].contains("interrupted"),
        "a reader sees it closed: {shown:?}"
    );
    assert_eq!(
        store.records(&id).len(),
        before,
        "and reading writes nothing"
    );
    support::run(&thread, "next").await;
    assert_eq!(outcomes(&thread).await, shown);
    let records = store.records(&id);
    let recovered = records
        .iter()
        .filter(|record| record.kind == "turn_recovered");
    assert_eq!(recovered.count(), 1, "one record says so");
}

/// A runtime whose model asks the user through an external tool.
fn external() -> support::Started {
    let name = ToolName::new("ask_user").unwrap();
    let spec = ToolSpec::new(name, "Asks the user").effects(Effects::PURE);
    World::new([Round::new().call("a", "ask_user", r#"{"q":1}"#)])
        .external(spec)
        .start()
}

/// The request of an external call.
fn external_request(event: haft_api::Event) -> haft_api::RequestId {
    match event.body {
        EventBody::ExternalCallRequested {
            request_id,
            arguments,
            ..
        } => {
            assert_eq!(arguments.get(), r#"{"q":1}"#);
            request_id
        }
        other => panic!("not an external call: {other:?}"),
    }
}

fn is_external(event: &haft_api::Event) -> bool {
    matches!(event.body, EventBody::ExternalCallRequested { .. })
}

#[tokio::test]
async fn an_external_call_is_answered_once_by_its_request() {
    let started = external();
    let thread = started.thread().await;
    let mut events = thread.subscribe(64);
    let turn = thread.start_turn(request("go")).await.unwrap();
    let id = external_request(wait_for(&mut events, is_external).await);
    assert_eq!(
        thread.answer_approval(&id, true).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    thread.answer_external(&id, ToolOutput::text("42")).unwrap();
    let second = thread
        .answer_external(&id, ToolOutput::text("43"))
        .unwrap_err();
    assert_eq!(second.kind(), ErrorKind::NotFound);
    assert_eq!(turn.ended().await.status, TurnStatus::Completed);
    assert_eq!(outcomes(&thread).await, ["ask_user: 42"]);
}

#[tokio::test]
async fn an_interrupt_ends_the_wait_for_an_external_answer() {
    let started = external();
    let thread = started.thread().await;
    let mut events = thread.subscribe(64);
    let turn = thread.start_turn(request("go")).await.unwrap();
    let id = external_request(wait_for(&mut events, is_external).await);
    turn.interrupt();
    assert_eq!(turn.ended().await.status, TurnStatus::Interrupted);
    let late = thread
        .answer_external(&id, ToolOutput::text("late"))
        .unwrap_err();
    assert_eq!(late.kind(), ErrorKind::NotFound);
    assert!(outcomes(&thread).await[0].contains("aborted"));
}
