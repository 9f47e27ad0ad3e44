//! Threads: one turn at a time, listed at once, forked, mended after a crash.

mod support;

use std::collections::BTreeSet;

use haft_api::{
    Durability, ErrorKind, Item, ListThreads, MetadataPatch, NewRecord, Part, ThreadStore,
};
use haft_core::{ThreadOptions, TurnStatus};
use haft_testkit::{CountingTool, Gate, MemoryStore, Round, fixture};
use support::{World, items, outcomes, request, run};

#[tokio::test]
async fn a_second_turn_is_refused_while_one_runs() {
    let gate = Gate::new();
    let started = World::new([Round::new().text("a").hold(&gate).text("b")]).start();
    let thread = started.thread().await;
    let turn = thread.start_turn(request("one")).await.unwrap();
    let refused = thread.start_turn(request("two")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Busy);
    assert_eq!(refused.context_value("turn"), Some(turn.id().as_str()));
    gate.open();
    assert_eq!(turn.ended().await.answer, "ab");
    assert_eq!(run(&thread, "two").await.status, TurnStatus::Completed);
    assert_eq!(items(&thread).await.len(), 4, "never two interleaved");
}

#[tokio::test]
async fn whoever_hears_of_the_end_may_start_the_next_turn() {
    let started = World::new([]).start();
    let thread = started.thread().await;
    let mut events = thread.subscribe(64);
    for n in 0..50 {
        thread.start_turn(request(&n.to_string())).await.unwrap();
        support::wait_for(&mut events, |event| event.body.is_turn_end()).await;
    }
    assert_eq!(items(&thread).await.len(), 100);
}

#[tokio::test]
async fn what_is_said_meanwhile_is_heard_before_the_next_round() {
    let gate = Gate::new();
    let rounds = [
        Round::new().text("a").hold(&gate),
        Round::new().text("heard"),
    ];
    let started = World::new(rounds).start();
    let thread = started.thread().await;
    assert!(!thread.steer(vec![Part::text("nobody listens")]));
    let turn = thread.start_turn(request("one")).await.unwrap();
    assert!(thread.steer(vec![Part::text("and also")]));
    gate.open();
    assert_eq!(turn.ended().await.answer, "heard");
    let said: Vec<_> = items(&thread).await;
    assert_eq!(said[2], Item::user("and also"));
}

#[tokio::test]
async fn what_is_said_too_late_is_kept_for_the_next_turn() {
    let started = World::new([Round::new().text("a").stall()]).start();
    let thread = started.thread().await;
    let turn = thread.start_turn(request("one")).await.unwrap();
    assert!(thread.steer(vec![Part::text("and also")]));
    turn.interrupt();
    turn.ended().await;
    assert!(items(&thread).await.contains(&Item::user("and also")));
}

#[tokio::test]
async fn two_hundred_threads_created_at_once_are_all_listed() {
    let store = MemoryStore::new();
    let started = World::new([]).store(store.shared()).start();
    let create = (0..200).map(|_| started.runtime.create_thread(ThreadOptions::default()));
    let threads = futures::future::join_all(create).await;
    let created: BTreeSet<_> = threads
        .iter()
        .map(|t| t.as_ref().unwrap().id().clone())
        .collect();
    assert_eq!(created.len(), 200);
    for runtime in [
        started.runtime,
        World::new([]).store(store.shared()).start().runtime,
    ] {
        let mut listed = BTreeSet::new();
        let mut request = ListThreads::default().limit(64);
        loop {
            let page = runtime.list_threads(request.clone()).await.unwrap();
            listed.extend(page.threads.into_iter().map(|thread| thread.id));
            match page.next {
                Some(next) => request = request.after(next),
                None => break,
            }
        }
        assert_eq!(listed, created);
    }
}

#[tokio::test]
async fn a_fork_has_its_parents_history_and_a_life_of_its_own() {
    let started = World::new([]).start();
    let (parent, _) = started.turn("one").await;
    let at = parent
        .items(None, usize::MAX)
        .await
        .items
        .last()
        .unwrap()
        .seq;
    run(&parent, "two").await;
    let runtime = &started.runtime;
    let fork = runtime
        .fork_thread(parent.id(), Some(at), None)
        .await
        .unwrap();
    assert_eq!(items(&fork).await, items(&parent).await[..2]);
    run(&fork, "other").await;
    assert_eq!(items(&fork).await[2], Item::user("other"));
    assert_eq!(items(&parent).await[2], Item::user("two"));
    let beyond = runtime
        .fork_thread(parent.id(), Some(9_999), None)
        .await
        .unwrap_err();
    assert_eq!(beyond.kind(), ErrorKind::InvalidInput);
    let whole = runtime.fork_thread(parent.id(), None, None).await.unwrap();
    assert_eq!(items(&whole).await, items(&parent).await);
}

#[tokio::test]
async fn an_open_thread_is_one_and_the_same() {
    let started = World::new([]).start();
    let thread = started.thread().await;
    let again = started.runtime.open_thread(thread.id()).await.unwrap();
    thread
        .patch_metadata(MetadataPatch::default().title("named"))
        .await
        .unwrap();
    assert_eq!(again.metadata().await.title.as_deref(), Some("named"));
    let missing = started
        .runtime
        .open_thread(&fixture::fresh_thread())
        .await
        .unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn another_process_with_the_writer_is_named_and_may_be_read_past() {
    let store = MemoryStore::new();
    let (one, two) = (
        World::new([]).store(store.shared()).start(),
        World::new([]).store(store.shared()).start(),
    );
    let (thread, _) = one.turn("one").await;
    let other = two.runtime.open_thread(thread.id()).await.unwrap();
    assert_eq!(items(&other).await.len(), 2);
    let refused = other.start_turn(request("two")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Busy);
    // The first goes away; what it wrote after the second had read is there.
    run(&thread, "more").await;
    drop((thread, one));
    assert_eq!(run(&other, "two").await.status, TurnStatus::Completed);
    assert_eq!(items(&other).await.len(), 6);
}

/// A thread whose process ended after these records.
async fn crashed(store: &MemoryStore, records: &[(&str, String)]) -> haft_api::ThreadId {
    let id = fixture::fresh_thread();
    let mut writer = store
        .create(haft_api::NewThread::new(id.clone()))
        .await
        .unwrap();
    let group = records
        .iter()
        .map(|(kind, data)| NewRecord {
            kind: (*kind).to_owned(),
            data: haft_api::raw_json(data.clone()).unwrap(),
        })
        .collect();
    writer.append(group, Durability::Barrier).await.unwrap();
    id
}

#[tokio::test]
async fn a_crash_at_any_record_leaves_a_thread_that_goes_on() {
    // Record a whole turn, then cut it after each of its records.
    let whole = MemoryStore::new();
    let calls = Round::new()
        .call("a", "count", "{}")
        .call("b", "send", "{}")
        .call("c", "count", "{}");
    let send = || CountingTool::new("send").effects(haft_api::Effects::NETWORK);
    let started = World::new([calls, Round::new().text("done")])
        .store(whole.shared())
        .tool(CountingTool::new("count"))
        .tool(send())
        .start();
    let (thread, _) = started.turn("go").await;
    let records = whole.records(thread.id());
    for cut in 1..records.len() {
        let store = MemoryStore::new();
        let kept: Vec<_> = records[1..=cut]
            .iter()
            .map(|record| (record.kind.as_str(), record.data.get().to_owned()))
            .collect();
        let id = crashed(&store, &kept).await;
        let started = World::new([]).store(store.shared()).start();
        let thread = started.runtime.open_thread(&id).await.unwrap();
        items(&thread).await;
        assert_eq!(
            run(&thread, "go on").await.status,
            TurnStatus::Completed,
            "cut after {cut}"
        );
        let items = items(&thread).await;
        assert_eq!(items[items.len() - 2], Item::user("go on"));
    }
}

#[tokio::test]
async fn a_resumed_turn_runs_nothing_twice_that_is_not_idempotent() {
    let check = async |effects: haft_api::Effects, started_record: bool, expected: &str| {
        let store = MemoryStore::new();
        let item = |item: &str| format!(r#"{{"e":1,"turn":"t","item":{item}}}"#);
        let mut records = vec![
            (
                "turn_started",
                r#"{"e":1,"turn":"t","engine":"scripted","mode":"bypass"}"#.to_owned(),
            ),
            (
                "item",
                item(r#"{"type":"user_message","parts":[{"type":"text","text":"q"}]}"#),
            ),
            (
                "item",
                item(r#"{"type":"tool_call","id":"a","name":"send","arguments":{}}"#),
            ),
        ];
        if started_record {
            let record = r#"{"e":2,"turn":"t","call_ids":["a"]}"#.to_owned();
            records.push(("tool_started", record));
        }
        let id = crashed(&store, &records).await;
        let tool = CountingTool::new("send").effects(effects);
        let started = World::new([]).store(store.shared()).tool(tool).start();
        let thread = started.runtime.open_thread(&id).await.unwrap();
        let end = thread.resume_turn(request("")).await.unwrap().ended().await;
        assert_eq!(end.status, TurnStatus::Completed);
        let outcome = outcomes(&thread).await.remove(0);
        assert!(outcome.contains(expected), "{outcome}");
        let none = thread.resume_turn(request("")).await.unwrap_err();
        assert_eq!(none.kind(), ErrorKind::NotFound);
    };
    let mut idempotent = haft_api::Effects::NETWORK;
    idempotent.idempotent = true;
    check(haft_api::Effects::NETWORK, true, "outcome is unknown").await;
    check(haft_api::Effects::NETWORK, false, "send: 1").await;
    check(idempotent, true, "send: 1").await;
}

#[tokio::test]
async fn what_another_process_wrote_before_it_died_counts_when_a_turn_goes_on() {
    for resumes in [true, false] {
        let store = MemoryStore::new();
        let item = |item: &str| format!(r#"{{"e":1,"turn":"t","item":{item}}}"#);
        let first = [(
            "turn_started",
            r#"{"e":1,"turn":"t","engine":"scripted","mode":"bypass"}"#.to_owned(),
        )];
        let id = crashed(&store, &first).await;
        let tool = CountingTool::new("send").effects(haft_api::Effects::NETWORK);
        let count = tool.executions();
        let started = World::new([]).store(store.shared()).tool(tool).start();
        let thread = started.runtime.open_thread(&id).await.unwrap();
        // The other process goes on after the thread was read here, and dies
        // while its call runs.
        let later = [
            (
                "item",
                item(r#"{"type":"user_message","parts":[{"type":"text","text":"q"}]}"#),
            ),
            (
                "item",
                item(r#"{"type":"tool_call","id":"a","name":"send","arguments":{}}"#),
            ),
            (
                "tool_started",
                r#"{"e":2,"turn":"t","call_ids":["a"]}"#.to_owned(),
            ),
        ];
        let mut writer = store.open_writer(&id).await.unwrap();
        let busy = thread.resume_turn(request("")).await.unwrap_err();
        assert_eq!(busy.kind(), ErrorKind::Busy);
        let busy = thread.start_turn(request("x")).await.unwrap_err();
        assert_eq!(busy.kind(), ErrorKind::Busy);
        let group = later.map(|(kind, data)| NewRecord {
            kind: kind.to_owned(),
            data: haft_api::raw_json(data).unwrap(),
        });
        writer
            .append(group.into(), Durability::Barrier)
            .await
            .unwrap();
        drop(writer);
        let turn = match resumes {
            true => thread.resume_turn(request("")).await,
            false => thread.start_turn(request("x")).await,
        };
        assert_eq!(turn.unwrap().ended().await.status, TurnStatus::Completed);
        assert_eq!(count.counts().started, 0, "it may have been sent already");
        let outcome = outcomes(&thread).await.remove(0);
        assert!(outcome.starts_with("send: !"), "{outcome}");
    }
}

#[tokio::test]
async fn a_turn_needs_an_engine_and_something_to_say() {
    let started = World::new([]).start();
    let thread = started.thread().await;
    let other = fixture::extension_id("other");
    let missing = thread
        .start_turn(request("x").engine(other))
        .await
        .unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert_eq!(missing.context_value("engines"), Some("scripted"));
    for text in ["", "x"] {
        let outcome = thread.start_turn(request(text)).await;
        assert_eq!(outcome.is_ok(), !text.is_empty(), "{text:?}");
        if let Ok(turn) = outcome {
            turn.ended().await;
        }
    }
    let mut relative = ThreadOptions::default();
    relative.workspace = Some("not/absolute".to_owned());
    let refused = started.runtime.create_thread(relative).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
}
