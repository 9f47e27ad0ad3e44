use std::time::Duration;

use futures::{FutureExt, StreamExt};
use haft_api::{Item, ToolSpec};

use super::*;
use crate::fixture::{engine_request, history, tool_call, tool_name};
use crate::gate::Gate;

fn request() -> EngineRequest {
    engine_request([Item::user("hi")])
}

/// A round's events in one line: `text(x) call(id,name,args) finished(End)`.
async fn play(engine: &ScriptedEngine) -> String {
    let stream = match engine.stream_turn(request()).await {
        Ok(stream) => stream,
        Err(error) => return format!("refused({})", error.kind()),
    };
    let words = stream.map(|event| match event {
        Ok(EngineEvent::TextDelta { text }) => format!("text({text})"),
        Ok(EngineEvent::ReasoningDelta { text }) => format!("reasoning({text})"),
        Ok(EngineEvent::Call(call)) => {
            format!(
                "call({},{},{})",
                call.id.as_deref().unwrap_or("-"),
                call.name,
                call.arguments
            )
        }
        Ok(EngineEvent::Usage(usage)) => format!("usage({:?},{:?})", usage.input, usage.output),
        Ok(EngineEvent::Finished { reason }) => format!("finished({reason:?})"),
        Ok(other) => format!("{other:?}"),
        Err(error) => format!("error({})", error.kind()),
    });
    words.collect::<Vec<_>>().await.join(" ")
}

#[tokio::test]
async fn rounds_are_played_step_by_step() {
    let check = async |round: Round, expected: &str| {
        assert_eq!(play(&ScriptedEngine::new().round(round)).await, expected);
    };
    let broken = || Error::new(ErrorKind::Unavailable, "gone");
    check(Round::new(), "finished(End)").await;
    check(
        Round::new().text("a").reasoning("b"),
        "text(a) reasoning(b) finished(End)",
    )
    .await;
    check(
        Round::new().call("c", "t", "{").call_without_id("u", ""),
        "call(c,t,{) call(-,u,) finished(ToolCalls)",
    )
    .await;
    check(
        Round::new()
            .call("c", "t", "{}")
            .finish(FinishReason::Length),
        "call(c,t,{}) finished(Length)",
    )
    .await;
    check(
        Round::new().usage(1, 2),
        "usage(Some(1),Some(2)) finished(End)",
    )
    .await;
    check(Round::new().text("a").cut(), "text(a)").await;
    check(
        Round::new().text("a").error(broken()),
        "text(a) error(unavailable)",
    )
    .await;
    check(Round::new().refuse(broken()), "refused(unavailable)").await;
    // Engines that break the contract can be played as well.
    check(
        Round::new().finish(FinishReason::End).text("more"),
        "finished(End) text(more)",
    )
    .await;
}

#[tokio::test]
async fn after_the_queue_comes_done_or_what_was_asked_for() {
    let engine = ScriptedEngine::new().round(Round::new().text("first"));
    assert_eq!(play(&engine).await, "text(first) finished(End)");
    assert_eq!(play(&engine).await, "text(done) finished(End)");
    engine.push(Round::new().text("later"));
    assert_eq!(play(&engine).await, "text(later) finished(End)");

    let engine = ScriptedEngine::new()
        .answering(|request| Round::new().text(request.history.items().len().to_string()));
    assert_eq!(play(&engine).await, "text(1) finished(End)");
}

#[tokio::test(start_paused = true)]
async fn waits_hold_the_round_up() {
    let gate = Gate::new();
    let engine = Arc::new(
        ScriptedEngine::new().rounds([
            Round::new().text("a").hold(&gate).text("b"),
            Round::new()
                .accept_after(Duration::from_secs(9))
                .sleep(Duration::from_secs(1)),
            Round::new().text("a").stall(),
            Round::new().never_accept(),
        ]),
    );
    let playing = tokio::spawn({
        let engine = Arc::clone(&engine);
        async move { play(&engine).await }
    });
    gate.reached(1).await;
    assert!(!playing.is_finished());
    gate.open();
    assert_eq!(playing.await.unwrap(), "text(a) text(b) finished(End)");

    let began = tokio::time::Instant::now();
    play(&engine).await;
    assert_eq!(began.elapsed(), Duration::from_secs(10));

    for _ in 0..2 {
        let endless = tokio::time::timeout(Duration::from_secs(3600), play(&engine));
        assert!(endless.await.is_err());
    }
}

#[tokio::test]
async fn panics_are_real() {
    for round in [
        Round::new().text("a").panic("boom"),
        Round::new().panic_at_once("boom"),
    ] {
        let engine = ScriptedEngine::new().round(round);
        let caught = std::panic::AssertUnwindSafe(play(&engine))
            .catch_unwind()
            .await;
        let message = haft_api::panic_message(&*caught.unwrap_err());
        assert_eq!(message, "panicked: boom");
        assert_eq!(engine.counts().active, 0);
    }
}

#[tokio::test]
async fn cancellation_is_told_from_the_end() {
    let check = async |round: Round, read: usize, cancelled: usize| {
        let engine = ScriptedEngine::new().round(round.clone());
        let mut stream = engine.stream_turn(request()).await.unwrap();
        for _ in 0..read {
            stream.next().await;
        }
        drop(stream);
        let counts = engine.counts();
        assert_eq!(
            (counts.active, counts.cancelled),
            (0, cancelled),
            "{round:?}"
        );
    };
    check(Round::new().text("a"), 0, 1).await;
    check(Round::new().text("a"), 1, 1).await;
    check(Round::new().text("a"), 2, 0).await;
    check(Round::new().text("a"), 3, 0).await;
    check(
        Round::new().error(Error::new(ErrorKind::Denied, "no")),
        1,
        0,
    )
    .await;

    let engine = ScriptedEngine::new().round(Round::new().never_accept());
    assert!(engine.stream_turn(request()).now_or_never().is_none());
    assert_eq!(engine.counts().cancelled, 1);
}

#[tokio::test]
async fn a_history_that_no_provider_takes_is_refused() {
    let bad = || engine_request([Item::user("x"), Item::ToolCall(tool_call("c", "t", "{}"))]);
    let engine = ScriptedEngine::new();
    let error = engine.stream_turn(bad()).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(
        error.to_string().contains("call c has no result"),
        "{error}"
    );
    assert_eq!(engine.requests().len(), 1);
    assert!(
        ScriptedEngine::new()
            .lenient()
            .stream_turn(bad())
            .await
            .is_ok()
    );
}

#[test]
fn a_request_extends_the_one_before() {
    let first = request();
    let check = |change: fn(&mut EngineRequest), word: Option<&str>| {
        let mut second = first.clone();
        change(&mut second);
        let outcome = check_prefixes(&[first.clone(), second]);
        match word {
            None => assert_eq!(outcome, Ok(())),
            Some(word) => assert!(outcome.unwrap_err().contains(word)),
        }
    };
    check(|_| {}, None);
    check(|r| r.history.push(Arc::new(Item::assistant("a"))), None);
    check(|r| r.history = history([]), None);
    check(
        |r| r.history = haft_api::History::new(r.history.generation(), vec![]),
        Some("became 0"),
    );
    check(
        |r| {
            let other = vec![Arc::new(Item::user("other"))];
            r.history = haft_api::History::new(r.history.generation(), other);
        },
        Some("item 0"),
    );
    check(|r| r.instructions = "x".into(), Some("instructions"));
    check(
        |r| r.tools = vec![ToolSpec::new(tool_name("t"), "d")].into(),
        Some("tools"),
    );
    check(
        |r| {
            r.thread = crate::fixture::thread_id("another");
            r.instructions = "x".into();
        },
        None,
    );
}
