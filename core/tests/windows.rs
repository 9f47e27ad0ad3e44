//! A history that no longer fits a model's window is summarised, not broken.

mod support;

use haft_api::{
    Error, ErrorKind, EventBody, Item, ModelInfo, OutputChannel, PolicyMode, ReadRange,
};
use haft_core::{RuntimeOptions, Thread, TurnRequest, TurnStatus};
use haft_testkit::{CountingTool, OutputTool, Round, ScriptedEngine};
use support::{Started, World, items, request, run, wait_for};

const WINDOW: u64 = 10_000;

fn model(window: Option<u64>) -> ModelInfo {
    let mut model = ModelInfo::new("scripted-model");
    model.context_tokens = window;
    model
}

fn world(window: Option<u64>, rounds: impl IntoIterator<Item = Round>) -> World {
    let engine = ScriptedEngine::new()
        .with_models([model(window)])
        .rounds(rounds);
    World::with_engine(engine)
}

fn too_long() -> Round {
    Round::new().refuse(Error::new(ErrorKind::ContextOverflow, "too long"))
}

/// What the model was shown in its rounds, a word for each item.
fn shown(started: &Started) -> Vec<String> {
    let word = |item: &Item| match item {
        Item::UserMessage { parts } => {
            let text = haft_api::join_text(parts);
            match text {
                text if text.contains("<transcript>") => "TRANSCRIPT".to_owned(),
                text if text.contains("replaced by these notes") => "NOTES".to_owned(),
                text => text.chars().take(9).collect(),
            }
        }
        Item::AssistantMessage { text, .. } => format!("~{}", &text[..text.len().min(9)]),
        Item::ToolCall(call) => format!("{}()", call.name),
        Item::ToolResult(result) => format!("={}", result.name),
        _ => String::new(),
    };
    let requests = started.engine.requests();
    let words = requests.iter().map(|request| {
        let items = request.history.items().iter().map(|item| word(item));
        items
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    });
    words.collect()
}

async fn notices(thread: &Thread) -> Vec<String> {
    let codes = items(thread)
        .await
        .into_iter()
        .filter_map(|item| match item {
            Item::Notice { code, .. } => Some(code),
            _ => None,
        });
    codes.collect()
}

#[tokio::test]
async fn a_filling_window_is_emptied_between_rounds() {
    let long = "x".repeat(8_000);
    let rounds = [
        Round::new().text(long.clone()).usage(3_000, 2_000),
        // With what the user says next, this is too much.
        Round::new().text("second").usage(7_900, 50),
        Round::new().text("the user greets").usage(4_000, 10),
        Round::new().text("third").usage(900, 10),
    ];
    let started = world(Some(WINDOW), rounds).start();
    let (thread, _) = started.turn("first?").await;
    run(&thread, "second?").await;
    let mut events = thread.subscribe(64);
    let end = run(&thread, &format!("third? {}", "y".repeat(400))).await;
    assert_eq!(
        (end.status, end.answer.as_str()),
        (TurnStatus::Completed, "third")
    );
    assert_eq!(
        shown(&started),
        [
            "first?",
            "first? ~xxxxxxxxx second?",
            "TRANSCRIPT",
            "NOTES second? ~second third? yy",
        ]
    );
    let begun = wait_for(&mut events, |event| {
        matches!(event.body, EventBody::CompactionStarted { .. })
    });
    let EventBody::CompactionStarted { tokens, window } = begun.await.body else {
        unreachable!();
    };
    assert!(tokens.unwrap() > 8_000 && window == Some(WINDOW));
    // The summary's own tokens are the turn's too.
    assert_eq!(end.usage.input, Some(4_900));
    assert_eq!(notices(&thread).await, ["compaction"]);
    // All of it stays in the thread.
    assert!(items(&thread).await.contains(&Item::assistant(long)));
}

#[tokio::test]
async fn in_a_long_turn_calls_keep_their_results_and_the_request_its_words() {
    let call = |id: &str, used| Round::new().call(id, "dump", "{}").usage(used, 20);
    let rounds = [
        call("a", 500),
        call("b", 2_000),
        call("c", 8_200),
        Round::new().text("a and b were dumped"),
        Round::new().text("done"),
    ];
    let started = world(Some(WINDOW), rounds)
        .tool(OutputTool::new(
            "dump",
            [(OutputChannel::Stdout, "z".repeat(1_500))],
        ))
        .start();
    let (_, end) = started.turn("dump it thrice").await;
    assert_eq!(end.answer, "done");
    let shown = shown(&started);
    assert_eq!(shown[3..], ["TRANSCRIPT", "NOTES dump() =dump"]);
    let last = &started.engine.requests()[4];
    let Item::UserMessage { parts } = &*last.history.items()[0] else {
        panic!("{shown:?}");
    };
    let notes = haft_api::join_text(parts);
    assert!(
        notes.contains("a and b were dumped") && notes.contains("dump it thrice"),
        "{notes}"
    );
}

#[tokio::test]
async fn a_refused_round_is_shortened_at_most_twice() {
    let talk = |n: usize| (0..n).map(|_| Round::new().text("w".repeat(3_000)));
    let check = async |refusals: usize, status: TurnStatus, compactions: usize| {
        let mut rounds: Vec<_> = talk(3).collect();
        for _ in 0..refusals {
            rounds.push(too_long());
            rounds.push(Round::new().text("notes on it"));
        }
        rounds.push(Round::new().text("at last"));
        let started = world(None, rounds).start();
        let thread = started.thread().await;
        for said in ["a", "b", "c"] {
            run(&thread, said).await;
        }
        let end = run(&thread, "d").await;
        assert_eq!(end.status, status, "{refusals}");
        assert_eq!(notices(&thread).await, vec!["compaction"; compactions]);
        if let Some(error) = end.error {
            assert_eq!(Error::from(error).kind(), ErrorKind::ContextOverflow);
        }
        // Whatever came of it, the thread goes on.
        let end = run(&thread, "e").await;
        assert_eq!(end.status, TurnStatus::Completed, "{refusals}: {end:?}");
    };
    check(0, TurnStatus::Completed, 0).await;
    check(1, TurnStatus::Completed, 1).await;
    check(2, TurnStatus::Completed, 2).await;
    check(3, TurnStatus::Failed, 2).await;
}

#[tokio::test]
async fn a_message_too_long_by_itself_fails_and_is_summarised_by_the_next_turn() {
    let rounds = [
        too_long(),
        too_long(),
        Round::new().text("they pasted a wall of w"),
        Round::new().text("hello"),
    ];
    let started = world(None, rounds).start();
    let (thread, end) = started.turn(&"w".repeat(50_000)).await;
    assert_eq!(
        Error::from(end.error.unwrap()).kind(),
        ErrorKind::ContextOverflow
    );
    let end = run(&thread, "hi").await;
    assert_eq!(end.answer, "hello");
    assert_eq!(shown(&started)[2..], ["TRANSCRIPT", "NOTES hi"]);
}

#[tokio::test]
async fn a_summary_that_cannot_be_had_costs_only_itself() {
    let check = async |summary: Round, word: &str| {
        let rounds = [
            Round::new().text("x".repeat(9_000)).usage(8_500, 100),
            summary,
            Round::new().text("it fit").usage(8_800, 10),
        ];
        let started = world(Some(WINDOW), rounds).start();
        let (thread, _) = started.turn("first").await;
        let end = run(&thread, "second").await;
        assert_eq!(
            (end.status, end.answer.as_str()),
            (TurnStatus::Completed, "it fit")
        );
        let told = items(&thread)
            .await
            .into_iter()
            .find_map(|item| match item {
                Item::Notice { code, text, .. } if code == "compaction_failed" => Some(text),
                _ => None,
            });
        assert!(told.as_ref().unwrap().contains(word), "{told:?}");
    };
    let denied = Error::new(ErrorKind::Denied, "no more money");
    check(Round::new().refuse(denied), "no more money").await;
    check(Round::new(), "wrote no summary").await;
    check(Round::new().panic("boom"), "boom").await;
}

#[tokio::test]
async fn a_compaction_outlives_the_process_and_can_be_forked_around() {
    let rounds = [
        Round::new().text("x".repeat(9_000)).usage(8_500, 100),
        Round::new().text("it was about x"),
        Round::new().text("second").usage(300, 10),
    ];
    let started = world(Some(WINDOW), rounds).start();
    let (thread, _) = started.turn("first").await;
    let before = thread.metadata().await.next_seq - 1;
    run(&thread, "second").await;
    let id = thread.id().clone();
    drop(thread);
    let thread = started.runtime.open_thread(&id).await.unwrap();
    run(&thread, "third").await;
    let fork = started.runtime.fork_thread(&id, Some(before), None);
    run(&fork.await.unwrap(), "instead").await;
    assert_eq!(
        shown(&started)[3..],
        ["NOTES second ~second third", "TRANSCRIPT", "NOTES instead"]
    );
    assert!(started.runtime.check_thread(&id).await.unwrap().is_empty());
    let page = started
        .store
        .shared()
        .read(
            &id,
            ReadRange::Forward {
                seq: 0,
                limit: None,
            },
        )
        .await
        .unwrap();
    assert!(page.records.iter().any(|record| record.kind == "compacted"));
}

#[tokio::test]
async fn it_can_be_asked_for() {
    let rounds = [
        Round::new().text("one"),
        Round::new().text("two"),
        Round::new().text("they counted"),
        Round::new().text("three"),
    ];
    let started = world(None, rounds).start();
    let thread = started.thread().await;
    let compact = async || thread.compact(request("")).await.unwrap().ended().await;
    assert_eq!(compact().await.status, TurnStatus::Completed);
    assert_eq!(started.engine.requests().len(), 0, "nothing to summarise");
    run(&thread, "first").await;
    run(&thread, "second").await;
    assert_eq!(compact().await.status, TurnStatus::Completed);
    run(&thread, "third").await;
    assert_eq!(shown(&started)[2..], ["TRANSCRIPT", "NOTES third"]);
}

#[tokio::test]
async fn an_interrupt_ends_a_summary_too() {
    let rounds = [
        Round::new().text("x".repeat(9_000)).usage(8_500, 100),
        Round::new().text("it was").stall(),
    ];
    let started = world(Some(WINDOW), rounds).start();
    let (thread, _) = started.turn("first").await;
    let mut events = thread.subscribe(64);
    let turn = thread.start_turn(request("second")).await.unwrap();
    wait_for(&mut events, |event| {
        matches!(event.body, EventBody::CompactionStarted { .. })
    })
    .await;
    turn.interrupt();
    assert_eq!(turn.ended().await.status, TurnStatus::Interrupted);
    assert_eq!(run(&thread, "third").await.status, TurnStatus::Completed);
}

#[tokio::test]
async fn it_can_be_left_to_the_models_refusal() {
    let rounds = [
        Round::new().text("x".repeat(9_000)).usage(9_500, 100),
        Round::new().text("fine"),
    ];
    let started = world(Some(WINDOW), rounds)
        .options(|options: &mut RuntimeOptions| options.compact_at = 0.0)
        .start();
    let (thread, _) = started.turn("first").await;
    assert_eq!(run(&thread, "second").await.answer, "fine");
    assert_eq!(notices(&thread).await, Vec::<String>::new());
}

#[tokio::test]
async fn another_engine_takes_over_and_the_thread_says_why() {
    let down = || Round::new().refuse(Error::new(ErrorKind::Denied, "key revoked"));
    let other = ScriptedEngine::new()
        .with_id("other")
        .round(Round::new().call("c", "count", "{}").usage(100, 10))
        .round(Round::new().text("hello").usage(200, 20));
    let mut world = world(None, [down()])
        .tool(CountingTool::new("count"))
        .options(|options| options.fallbacks = vec![support::fallback("other", Some("big"))]);
    world.registry.engine(std::sync::Arc::new(other));
    let started = world.start();
    let thread = started.thread().await;
    let asked = TurnRequest::text("hi")
        .engine(support::engine_id("scripted"))
        .mode(PolicyMode::Bypass);
    let end = thread.start_turn(asked).await.unwrap().ended().await;
    assert_eq!(end.answer, "hello");
    let told: Vec<_> = items(&thread)
        .await
        .into_iter()
        .filter_map(|item| match item {
            Item::Notice { code, text, .. } if code == "engine_fallback" => Some(text),
            _ => None,
        })
        .collect();
    assert_eq!(told.len(), 1, "once for both rounds");
    assert!(
        told[0].contains("key revoked") && told[0].contains("other"),
        "{told:?}"
    );
    let models = thread.items(None, 0).await.models;
    let paid: Vec<_> = models
        .iter()
        .map(|m| (m.engine.as_str(), m.model.as_deref(), m.usage.input))
        .collect();
    assert_eq!(paid, [("other", Some("big"), Some(300))]);
}

#[tokio::test]
async fn an_engine_to_fall_back_on_must_be_there() {
    let world = world(None, [])
        .options(|options| options.fallbacks = vec![support::fallback("nowhere", None)]);
    let error = world.try_start().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("nowhere"), "{error}");
}
