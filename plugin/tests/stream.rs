//! Engines: streams and histories through the boundary.

use std::sync::Arc;
use std::time::Duration;

use haft_api::{
    EngineEvent, EngineRequest, EngineStream, Error, ErrorKind, FinishReason, History,
    InferenceEngine, Item, ModelInfo, Part, Readiness, ThreadId, TurnId,
};

mod support;

use support::{Loaded, within};

fn engine(loaded: &Loaded) -> Arc<dyn InferenceEngine> {
    Arc::clone(loaded.registry.engine("chatter").expect("the engine"))
}

fn request(history: History) -> EngineRequest {
    let thread = ThreadId::new("thread").unwrap();
    EngineRequest::new(thread, TurnId::new("turn").unwrap(), history)
}

fn saying(script: &str) -> EngineRequest {
    request(History::new(1, vec![Arc::new(Item::user(script))]))
}

async fn next(stream: &mut EngineStream) -> Option<Result<EngineEvent, Error>> {
    within(std::future::poll_fn(|cx| stream.as_mut().poll_next(cx))).await
}

/// All deltas' text, and how it ended.
async fn read(stream: &mut EngineStream) -> (String, Option<Result<FinishReason, Error>>) {
    let mut all = String::new();
    loop {
        match next(stream).await {
            Some(Ok(EngineEvent::TextDelta { text })) => all.push_str(&text),
            Some(Ok(EngineEvent::Finished { reason })) => {
                assert!(next(stream).await.is_none());
                return (all, Some(Ok(reason)));
            }
            Some(Ok(other)) => panic!("{other:?}"),
            Some(Err(error)) => {
                assert!(next(stream).await.is_none());
                return (all, Some(Err(error)));
            }
            None => return (all, None),
        }
    }
}

#[tokio::test]
async fn a_stream_comes_whole_and_ends_as_it_ended() {
    let loaded = Loaded::fixture();
    let engine = engine(&loaded);
    let run = async |script: &str| {
        let mut stream = engine.stream_turn(saying(script)).await.unwrap();
        read(&mut stream).await
    };
    let (text, end) = run(r#"{"deltas":1000,"text":"ab"}"#).await;
    assert_eq!(text, "ab".repeat(1000));
    assert_eq!(end.unwrap().unwrap(), FinishReason::End);

    let (text, end) = run(r#"{"deltas":3,"text":"x","ms":5,"then":"cut"}"#).await;
    assert_eq!((&*text, end.is_none()), ("xxx", true));

    let (text, end) = run(r#"{"deltas":2,"text":"x","then":"error"}"#).await;
    let error = end.unwrap().unwrap_err();
    assert_eq!((&*text, error.kind()), ("xx", ErrorKind::RateLimited));
    assert_eq!(error.retry_after_ms(), Some(1500));

    let (text, end) = run(r#"{"deltas":2,"text":"x","then":"panic"}"#).await;
    let error = end.unwrap().unwrap_err();
    assert_eq!((&*text, error.kind()), ("xx", ErrorKind::Unexpected));
    assert!(error.to_string().contains("lost the thread"), "{error}");
    assert!(loaded.log.contains("lost the thread"));
    loaded.at_rest().await;
}

#[tokio::test]
async fn what_fails_before_the_stream_fails_the_call() {
    let loaded = Loaded::fixture();
    let engine = engine(&loaded);
    let fail = async |script: &str| {
        let started = engine.stream_turn(saying(script)).await;
        started.err().expect("no stream")
    };
    let error = fail(r#"{"instead":"error"}"#).await;
    assert_eq!(error.kind(), ErrorKind::ContextOverflow);
    let error = fail(r#"{"instead":"panic"}"#).await;
    assert!(error.to_string().contains("the model is upset"), "{error}");
    loaded.at_rest().await;
}

#[tokio::test]
async fn a_stream_dropped_half_way_is_dropped_in_the_plug_in() {
    let loaded = Loaded::fixture();
    let engine = engine(&loaded);
    let script = r#"{"deltas":1000000,"text":"ab","ms":1}"#;
    let mut stream = engine.stream_turn(saying(script)).await.unwrap();
    for _ in 0..3 {
        assert!(matches!(next(&mut stream).await, Some(Ok(_))));
    }
    assert_eq!(loaded.drops().await, 0);
    drop(stream);
    assert_eq!(loaded.drops().await, 1);

    // The same for one that hasn't begun, and for one that says nothing.
    let stalled = engine.stream_turn(saying(r#"{"instead":"stall"}"#));
    let cancelled = tokio::time::timeout(Duration::from_millis(20), stalled).await;
    assert!(cancelled.is_err());
    assert_eq!(loaded.drops().await, 2);
    let script = r#"{"deltas":1,"text":"x","then":"stall"}"#;
    let mut stream = engine.stream_turn(saying(script)).await.unwrap();
    assert!(matches!(next(&mut stream).await, Some(Ok(_))));
    let stalled = std::future::poll_fn(|cx| stream.as_mut().poll_next(cx));
    let stalled = tokio::time::timeout(Duration::from_millis(20), stalled).await;
    assert!(stalled.is_err());
    drop(stream);
    assert_eq!(loaded.drops().await, 3);
    loaded.at_rest().await;
}

#[tokio::test]
async fn models_and_readiness_are_asked_for() {
    let loaded = Loaded::fixture();
    let engine = engine(&loaded);
    let names = |models: Vec<ModelInfo>| models.into_iter().map(|m| m.name).collect::<Vec<_>>();
    assert_eq!(names(engine.models().await.unwrap()), ["small", "large"]);
    assert_eq!(engine.model(None).await.unwrap().name, "small");
    assert_eq!(engine.model(Some("huge")).await.unwrap().name, "huge");
    assert_eq!(engine.readiness().await, Readiness::Ready);
    loaded.plugin.close();
    let Readiness::Unavailable { reason } = engine.readiness().await else {
        panic!("ready though it is closed");
    };
    assert!(reason.contains("shut down"), "{reason}");
    assert!(engine.models().await.is_err());
}

/// Every round arrives with its whole history, however much of it was sent.
#[tokio::test]
async fn histories_arrive_whole() {
    let loaded = Loaded::fixture();
    let engine = engine(&loaded);
    let report = || Arc::new(Item::user(r#"{"report":true}"#));
    let run = async |thread: &str, history: &History| {
        let mut request = request(history.clone());
        request.thread = ThreadId::new(thread).unwrap();
        let mut stream = engine.stream_turn(request).await.unwrap();
        read(&mut stream).await.0
    };
    let says = |items: usize, bytes: usize, rounds: usize, generation: u64| {
        format!(
            "{items} items, {bytes} image bytes, {rounds} rounds before, generation {generation}"
        )
    };
    let mut history = History::new(7, vec![report()]);
    assert_eq!(run("a", &history).await, says(1, 0, 0, 7));
    history.push(Arc::new(Item::UserMessage {
        parts: vec![
            Part::Image {
                media_type: "image/png".to_owned(),
                data: "A".repeat(1000),
            },
            Part::text("look"),
        ],
    }));
    history.push(report());
    assert_eq!(run("a", &history).await, says(3, 1000, 1, 7));
    // The same again, as after a failed round.
    assert_eq!(run("a", &history).await, says(3, 1000, 2, 7));
    // A shorter one of the same generation.
    let shorter = History::new(7, history.items()[..1].to_vec());
    assert_eq!(run("a", &shorter).await, says(1, 0, 3, 7));
    assert_eq!(run("a", &history).await, says(3, 1000, 4, 7));
    // A new generation begins anew.
    let mut other = History::new(8, vec![report()]);
    assert_eq!(run("a", &other).await, says(1, 0, 5, 8));
    // Equal numbers, but other items: loaded from the store again, say.
    other.push(report());
    let reloaded = other.items().iter().map(|item| Arc::new(Item::clone(item)));
    let reloaded = History::new(8, reloaded.collect());
    assert_eq!(run("a", &reloaded).await, says(2, 0, 6, 8));
    // Other threads are other histories, more than are kept.
    for index in 0..100 {
        let thread = format!("thread-{index}");
        assert_eq!(run(&thread, &history).await, says(3, 1000, 0, 7));
    }
    // Fallen out of what the plug-in keeps: sent anew, with a fresh memo.
    history.push(report());
    let mut fallen = reloaded.clone();
    fallen.push(report());
    assert_eq!(run("a", &fallen).await, says(3, 0, 0, 8));
    loaded.at_rest().await;
}
