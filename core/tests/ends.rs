//! A turn ends once, whatever happens in extensions, and leaves a valid thread.

mod support;

use std::time::{Duration, Instant};

use haft_api::{
    Effects, Error, ErrorKind, EventBody, FinishReason, Item, OutputChannel, PolicyMode, ToolChoice,
};
use haft_core::TurnStatus;
use haft_testkit::{CountingTool, OutputTool, PanicTool, Round, SleepTool, StoreOperation};
use support::{Started, World, items, outcomes, request, run, wait_for};

/// How many turn ends were published.
fn ends(started: &Started) -> usize {
    started
        .journal
        .events()
        .iter()
        .filter(|event| event.body.is_turn_end())
        .count()
}

#[tokio::test]
async fn an_interrupt_between_calls_leaves_a_result_for_each() {
    let round = Round::new()
        .call("a", "count", "{}")
        .call("b", "sleep", "{}")
        .call("c", "count", "{}");
    let one_by_one = Effects::NETWORK;
    let started = World::new([round])
        .tool(CountingTool::new("count").effects(one_by_one))
        .tool(SleepTool::new("sleep").effects(one_by_one))
        .start();
    let thread = started.thread().await;
    let mut events = thread.subscribe(64);
    let turn = thread.start_turn(request("go")).await.unwrap();
    wait_for(
        &mut events,
        |event| matches!(&event.body, EventBody::ToolStarted { call_id, .. } if *call_id == "b"),
    )
    .await;
    let interrupted = Instant::now();
    turn.interrupt();
    assert_eq!(turn.ended().await.status, TurnStatus::Interrupted);
    assert!(
        interrupted.elapsed() < Duration::from_secs(1),
        "{:?}",
        interrupted.elapsed()
    );
    let outcomes = outcomes(&thread).await;
    assert_eq!(outcomes[0], "count: 1");
    assert!(outcomes[1].starts_with("sleep: !aborted") && outcomes[1].contains(" s"));
    assert_eq!(outcomes[2], "count: !not started: the turn was interrupted");
    assert_eq!(ends(&started), 1);
    assert_eq!(run(&thread, "again").await.status, TurnStatus::Completed);
}

#[tokio::test]
async fn an_interrupt_in_mid_stream_keeps_what_was_shown() {
    let started = World::new([Round::new().text("half an ans").stall()]).start();
    let thread = started.thread().await;
    let mut events = thread.subscribe(64);
    let turn = thread.start_turn(request("go")).await.unwrap();
    wait_for(&mut events, |event| {
        matches!(event.body, EventBody::MessageDelta { .. })
    })
    .await;
    turn.interrupt();
    assert_eq!(turn.ended().await.status, TurnStatus::Interrupted);
    assert_eq!(items(&thread).await[1], Item::assistant("half an ans"));
    assert_eq!(
        started.engine.counts().cancelled,
        1,
        "the engine's stream was dropped"
    );
}

#[tokio::test]
async fn an_engines_failure_is_the_turns_and_the_thread_goes_on() {
    let check = async |round: Round, word: &str| {
        let started = World::new([round]).start();
        let (thread, end) = started.turn("go").await;
        assert_eq!(end.status, TurnStatus::Failed);
        let error = Error::from(end.error.unwrap()).to_string();
        assert!(
            error.contains(word) && error.contains("scripted"),
            "{error}"
        );
        assert!(error.contains(thread.id().as_str()), "{error}");
        assert_eq!(ends(&started), 1);
        items(&thread).await;
        assert_eq!(run(&thread, "again").await.status, TurnStatus::Completed);
    };
    let error = || Error::new(ErrorKind::Denied, "no such key");
    check(Round::new().refuse(error()), "no such key").await;
    check(Round::new().text("x").error(error()), "no such key").await;
    check(Round::new().panic_at_once("boom"), "boom").await;
    check(Round::new().text("x").panic("boom"), "boom").await;
    check(Round::new().text("x").cut(), "broke off").await;
}

#[tokio::test]
async fn calls_of_a_round_that_broke_off_never_run() {
    let call = || Round::new().text("let me").call("c", "count", "{}");
    let check = async |round: Round, status: TurnStatus| {
        let tool = CountingTool::new("count");
        let executions = tool.executions();
        let started = World::new([round]).tool(tool).start();
        let (thread, end) = started.turn("go").await;
        assert_eq!((end.status, executions.counts().started), (status, 0));
        assert_eq!(items(&thread).await[1], Item::assistant("let me"));
    };
    check(call().cut(), TurnStatus::Failed).await;
    check(
        call().error(Error::new(ErrorKind::Denied, "x")),
        TurnStatus::Failed,
    )
    .await;
    check(call().finish(FinishReason::Length), TurnStatus::Failed).await;
}

#[tokio::test]
async fn an_answer_that_did_not_end_by_itself_is_marked() {
    let check = async |reason: FinishReason, code: &str| {
        let started = World::new([Round::new().text("so far").finish(reason)]).start();
        let (thread, end) = started.turn("go").await;
        assert_eq!(end.status, TurnStatus::Completed);
        let codes = items(&thread)
            .await
            .into_iter()
            .filter_map(|item| match item {
                Item::Notice { code, .. } => Some(code),
                _ => None,
            });
        assert_eq!(codes.collect::<Vec<_>>(), [code]);
    };
    check(FinishReason::Length, "output_limit").await;
    check(FinishReason::ContentFilter, "content_filter").await;
    check(FinishReason::Other("refusal".to_owned()), "stopped").await;
}

#[tokio::test]
async fn a_panic_anywhere_costs_only_its_part() {
    struct Policy(haft_api::ExtensionId);
    #[haft_api::async_trait]
    impl haft_api::PolicyContributor for Policy {
        fn id(&self) -> &haft_api::ExtensionId {
            &self.0
        }
        async fn review(&self, _: haft_api::PolicyRequest) -> haft_api::Result<haft_api::Decision> {
            panic!("policy bug")
        }
    }
    struct Sink;
    impl haft_api::EventSink for Sink {
        fn publish(&self, _: &haft_api::Event) {
            panic!("sink bug")
        }
    }
    let round = Round::new().call("c", "panic", "{}");
    let world = World::new([round.clone()]).tool(PanicTool::new("panic", "tool bug"));
    let (thread, end) = world.start().turn("go").await;
    assert_eq!(end.status, TurnStatus::Completed);
    assert!(outcomes(&thread).await[0].contains("tool bug"));

    let mut world = World::new([round]).tool(CountingTool::new("panic"));
    world.registry.event_sink(std::sync::Arc::new(Sink));
    let policy = Policy(haft_testkit::fixture::extension_id("careful"));
    world.registry.policy(std::sync::Arc::new(policy));
    let started = world.start();
    let (thread, end) = started.turn("go").await;
    assert_eq!(end.status, TurnStatus::Completed);
    let outcome = &outcomes(&thread).await[0];
    assert!(
        outcome.contains("denied") && outcome.contains("careful"),
        "{outcome}"
    );
    assert_eq!(ends(&started), 1);
}

#[tokio::test]
async fn a_failing_store_fails_the_turn_and_says_what_is_lost() {
    let full = || Error::new(ErrorKind::Unavailable, "no space left on device");
    // Append 0 starts the turn; 1 is the first round's items.
    for nth in [1, 2] {
        let rounds = [
            Round::new().text("shown").call("c", "count", "{}"),
            Round::new().text("end"),
        ];
        let started = World::new(rounds).tool(CountingTool::new("count")).start();
        started
            .store
            .faults()
            .on(StoreOperation::Append)
            .nth(nth)
            .fail(full());
        let (thread, end) = started.turn("go").await;
        assert_eq!(end.status, TurnStatus::Failed, "append {nth}");
        let error = Error::from(end.error.unwrap()).to_string();
        assert!(error.contains("no space left"), "{error}");
        assert!(error.contains(thread.id().as_str()), "{error}");
        if nth == 1 {
            assert!(
                error.contains("5 characters of the answer that were shown"),
                "{error}"
            );
        }
        assert_eq!(ends(&started), 1);
        assert_eq!(run(&thread, "again").await.status, TurnStatus::Completed);
        items(&thread).await;
    }
}

#[tokio::test]
async fn a_store_that_stays_broken_still_ends_the_turn_once() {
    let gate = haft_testkit::Gate::new();
    let started = World::new([Round::new().text("shown").hold(&gate)]).start();
    let thread = started.thread().await;
    let turn = thread.start_turn(request("go")).await.unwrap();
    let broken = Error::new(ErrorKind::Unavailable, "the disk is gone");
    // The turn's start is stored; everything after it fails.
    started
        .store
        .faults()
        .on(StoreOperation::Append)
        .always()
        .fail(broken);
    gate.open();
    let end = turn.ended().await;
    assert_eq!(end.status, TurnStatus::Failed);
    assert_eq!(ends(&started), 1);
}

#[tokio::test(start_paused = true)]
async fn at_the_deadline_tools_are_cut_and_the_model_answers() {
    let tool = OutputTool::hanging("slow", [(OutputChannel::Stdout, "partial output")]);
    let rounds = [
        Round::new().call("c", "slow", "{}"),
        Round::new().text("as far as I got"),
    ];
    let started = World::new(rounds).tool(tool).start();
    let thread = started.thread().await;
    let turn = request("go").time_limit(Duration::from_secs(1));
    let end = thread.start_turn(turn).await.unwrap().ended().await;
    assert_eq!(
        (end.status, end.answer.as_str()),
        (TurnStatus::Completed, "as far as I got")
    );
    let outcome = &outcomes(&thread).await[0];
    assert!(
        outcome.contains("partial output") && outcome.contains("deadline"),
        "{outcome}"
    );
    let requests = started.engine.requests();
    assert_eq!(
        requests[1].tool_choice,
        ToolChoice::None,
        "the last round has no tools"
    );
}

#[tokio::test(start_paused = true)]
async fn a_model_that_never_answers_is_cut_after_the_reserve() {
    let started = World::new([Round::new().text("hm").stall()]).start();
    let thread = started.thread().await;
    let turn = request("go").time_limit(Duration::from_secs(10));
    let end = thread.start_turn(turn).await.unwrap().ended().await;
    assert_eq!(end.status, TurnStatus::Failed);
    assert_eq!(end.error.unwrap().kind, ErrorKind::Timeout);
}

#[tokio::test]
async fn endless_rounds_end() {
    let round = Round::new().call_without_id("count", "{}");
    let started = World::new(vec![round; 10])
        .tool(CountingTool::new("count"))
        .options(|options| options.max_rounds = 3)
        .start();
    let (thread, end) = started.turn("go").await;
    assert_eq!(end.status, TurnStatus::Failed);
    assert!(
        Error::from(end.error.unwrap())
            .to_string()
            .contains("rounds")
    );
    assert_eq!(outcomes(&thread).await.len(), 3);
}

#[tokio::test]
async fn the_whole_of_a_turn_in_order() {
    let rounds = [
        Round::new()
            .reasoning("hm")
            .text("Let me count.")
            .call("c", "count", "{}")
            .usage(10, 5),
        Round::new().text("One.").usage(20, 2),
    ];
    let started = World::new(rounds).tool(CountingTool::new("count")).start();
    let (thread, end) = started.turn("how many?").await;
    assert_eq!(end.answer, "One.");
    assert_eq!((end.usage.input, end.usage.output), (Some(30), Some(7)));
    assert_eq!(
        started.journal.summary(),
        "thread.created turn.started item.appended(user_message) item.appended(reasoning) \
         item.appended(assistant_message) item.appended(tool_call:count) usage \
         tool.started(count) item.appended(tool_result:count) tool.completed(count) \
         item.appended(assistant_message) usage turn.completed"
    );
    let shown: Vec<_> = items(&thread).await.iter().map(Item::type_name).collect();
    assert_eq!(
        shown,
        [
            "user_message",
            "reasoning",
            "assistant_message",
            "tool_call",
            "tool_result",
            "assistant_message"
        ]
    );
    assert_eq!(PolicyMode::default(), PolicyMode::Ask);
}
