//! Events: in order, durable before visible, lossless where they must be.

mod support;

use std::time::Duration;

use haft_api::{Effects, Error, Event, EventBody, Item};
use haft_testkit::{
    CountingTool, Gate, JournalEntry, MemoryStore, Round, StoreOperation, summarise,
};
use support::{World, request, run, wait_for};

fn deltas(count: usize) -> Round {
    (0..count).fold(Round::new(), |round, n| round.text(format!("{n} ")))
}

#[tokio::test]
async fn a_slow_subscriber_never_slows_the_turn_and_misses_nothing_that_counts() {
    let asked = Round::new().call("c", "count", "{}");
    let started = World::new([asked, deltas(10_000)])
        .tool(CountingTool::new("count").effects(Effects::NETWORK))
        .start();
    let thread = started.thread().await;
    let (mut slow, mut fast) = (thread.subscribe(16), thread.subscribe(100_000));
    let mut approver = thread.subscribe(16);
    let turn = thread
        .start_turn(request("go").mode(haft_api::PolicyMode::Ask))
        .await
        .unwrap();
    let asked = wait_for(&mut approver, |e| {
        matches!(e.body, EventBody::ApprovalRequested { .. })
    })
    .await;
    if let EventBody::ApprovalRequested { request_id, .. } = &asked.body {
        thread.answer_approval(request_id, true).await.unwrap();
    }
    turn.ended().await;
    let drain = |subscription: &mut haft_core::Subscription| -> Vec<Event> {
        std::iter::from_fn(|| subscription.try_next()).collect()
    };
    let everything = drain(&mut fast);
    let (first, last) = (everything[0].seq, everything[everything.len() - 1].seq);
    let seqs: Vec<_> = everything.iter().map(|event| event.seq).collect();
    assert_eq!(
        seqs,
        (first..=last).collect::<Vec<_>>(),
        "no gap, no duplicate"
    );
    // The slow one reads only now: as slow as can be.
    let seen = drain(&mut slow);
    let lossless = |events: &[Event]| summarise(events).replace("lagged", "");
    let without_lag: Vec<_> = seen
        .iter()
        .filter(|event| !matches!(event.body, EventBody::Lagged { .. }))
        .cloned()
        .collect();
    assert_eq!(lossless(&without_lag), lossless(&everything));
    let mut expected = first;
    for event in &seen {
        assert_eq!(
            event.seq, expected,
            "each event or its lag notice stands in its place"
        );
        expected = match event.body {
            EventBody::Lagged { to, .. } => to + 1,
            _ => event.seq + 1,
        };
    }
    assert_eq!(expected, last + 1);
    let refilled = thread.events(0, last).await.unwrap();
    assert_eq!(
        summarise(&refilled),
        format!("thread.created {}", summarise(&everything))
    );
}

#[tokio::test]
async fn a_refill_from_the_store_has_the_numbers_that_the_events_had() {
    let store = MemoryStore::new();
    let rounds = [
        Round::new().text("a").call("c", "count", "{}"),
        Round::new().text("b"),
    ];
    let world = || {
        World::new(rounds.clone())
            .store(store.shared())
            .tool(CountingTool::new("count"))
    };
    let first = world().start();
    let (thread, _) = first.turn("go").await;
    let id = thread.id().clone();
    drop(thread);
    let numbered = |events: &[Event]| -> Vec<(u64, String)> {
        let lossless = events.iter().filter(|event| !event.body.is_lossy());
        // No record stands for the start of a tool without side effects.
        lossless
            .map(|event| (event.seq, summarise(std::slice::from_ref(event))))
            .filter(|(_, name)| !name.starts_with("tool.started"))
            .collect()
    };
    let published = numbered(&first.journal.events());
    drop(first);
    let second = world().start();
    let thread = second.runtime.open_thread(&id).await.unwrap();
    let refilled = thread.events(0, u64::MAX).await.unwrap();
    assert_eq!(numbered(&refilled), published);
    run(&thread, "again").await;
    let next = &second.journal.events()[0];
    assert!(
        next.seq > published.last().unwrap().0,
        "numbers go on after a restart"
    );
}

#[tokio::test]
async fn nothing_is_visible_before_it_is_stored() {
    let rounds = [
        Round::new().text("a").call("c", "count", "{}"),
        Round::new().text("b"),
    ];
    let started = World::new(rounds).tool(CountingTool::new("count")).start();
    started
        .store
        .faults()
        .on(StoreOperation::Append)
        .always()
        .delay(Duration::from_millis(5));
    started.turn("go").await;
    let mut stored = 0;
    for entry in started.journal.entries() {
        match entry {
            JournalEntry::Stored { records, .. } => {
                stored += records
                    .iter()
                    .filter(|record| record.kind == "item")
                    .count();
            }
            JournalEntry::Published(Event {
                body: EventBody::ItemAppended { .. },
                ..
            }) => {
                assert!(stored > 0, "an item was visible before it was stored");
                stored -= 1;
            }
            JournalEntry::Published(event) if event.body.is_turn_end() => assert_eq!(stored, 0),
            _ => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn tries_that_fail_are_told_of() {
    let busy = Error::new(haft_api::ErrorKind::RateLimited, "slow down").with_retry_after_ms(2_000);
    let started = World::new([Round::new().refuse(busy), Round::new().text("ok")]).start();
    let (_, end) = started.turn("go").await;
    assert_eq!(end.answer, "ok");
    let retries: Vec<_> = started
        .journal
        .events()
        .into_iter()
        .filter_map(|event| match event.body {
            EventBody::EngineRetry {
                attempt, delay_ms, ..
            } => Some((attempt, delay_ms)),
            _ => None,
        })
        .collect();
    assert_eq!(retries, [(1, 2_000)]);
}

#[tokio::test]
async fn output_of_a_running_tool_is_shown_live() {
    let gate = Gate::new();
    let held = gate.clone();
    let tool = haft_testkit::FnTool::new("print", move |_, context| {
        let held = held.clone();
        async move {
            context
                .output
                .write(haft_api::OutputChannel::Stdout, "über".as_bytes());
            held.pass().await;
            Ok(haft_api::ToolOutput::default())
        }
    });
    let started = World::new([Round::new().call("c", "print", "{}")])
        .tool(tool)
        .start();
    let thread = started.thread().await;
    let mut events = thread.subscribe(64);
    let turn = thread.start_turn(request("go")).await.unwrap();
    let progress = wait_for(&mut events, |e| {
        matches!(e.body, EventBody::ToolProgress { .. })
    })
    .await;
    assert!(matches!(progress.body, EventBody::ToolProgress { text, .. } if text == "über"));
    gate.open();
    turn.ended().await;
    assert_eq!(support::outcomes(&thread).await, ["print: über"]);
}

#[tokio::test]
async fn a_history_is_only_ever_extended() {
    let calls = |n| Round::new().call(format!("c{n}"), "count", "{}");
    let started = World::new([calls(1), calls(2), calls(3)])
        .tool(CountingTool::new("count"))
        .start();
    let (thread, _) = started.turn("one").await;
    run(&thread, "two").await;
    let requests = started.engine.requests();
    assert_eq!(requests.len(), 5);
    haft_testkit::check_prefixes(&requests).unwrap();
    assert!(matches!(
        &*requests[4].history.items()[0],
        Item::UserMessage { .. }
    ));
}
