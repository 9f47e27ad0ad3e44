//! What is asked again of a server that fails, over each wire: whatever may pass,
//! as long as nothing of the answer was shown.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft_api::{ErrorKind, FinishReason, InferenceEngine};
use haft_core::layers::{Retry, RetryPolicy};
use haft_testkit::loopback::{Answer, LoopbackServer, Step, chunk, end};

use crate::spoken::{Spoken, WIRES, idle_for, round, stream};

/// A round that may be tried thrice more.
struct Tried {
    text: String,
    ended: haft_api::Result<FinishReason>,
    /// What was asked for.
    requests: Vec<String>,
    /// Why there was another try, and the wait before it.
    waits: Vec<(ErrorKind, Duration)>,
}

/// Has a round answered so, where failures of this kind are to be expected.
async fn tried(wire: &Spoken, kind: ErrorKind, answers: Vec<Answer>) -> Tried {
    let server = LoopbackServer::start(answers).await;
    let policy = RetryPolicy {
        retries: 3,
        delay: Duration::from_millis(1),
        max_delay: Duration::from_millis(100),
    };
    let waits = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&waits);
    let observer = Arc::new(move |_: &_, _, wait, error: &haft_api::Error| {
        seen.lock().unwrap().push((error.kind(), wait));
    });
    let engine = (wire.engine)(server.base_url(), idle_for(kind));
    let engine: Arc<dyn InferenceEngine> = Arc::new(Retry::new(engine, policy, observer));
    let (text, ended) = round(&engine).await;
    let waits = waits.lock().unwrap().clone();
    let requests = server.requests();
    Tried {
        text,
        ended,
        requests: requests.into_iter().map(|request| request.body).collect(),
        waits,
    }
}

fn good(wire: &Spoken) -> Answer {
    Answer::stream(&[wire.hello, wire.rest])
}

/// Answers, of which the last is good, and what the ones before it are taken for.
async fn passes(
    failures: impl Fn(&Spoken) -> Vec<Answer>,
    kinds: &[ErrorKind],
) -> Vec<Vec<Duration>> {
    let mut all = Vec::new();
    for wire in &WIRES {
        let mut answers = failures(wire);
        answers.push(good(wire));
        let tried = tried(wire, kinds[0], answers).await;
        let seen: Vec<_> = tried.waits.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(seen, kinds, "{}", wire.name);
        let ended = tried.ended.expect(wire.name);
        assert_eq!((&*tried.text, ended), ("hello", FinishReason::End));
        assert_eq!(tried.requests.len(), kinds.len() + 1, "{}", wire.name);
        // A new request, and the same one.
        let first = &tried.requests[0];
        assert!(tried.requests.iter().all(|again| again == first));
        all.push(tried.waits.iter().map(|(_, wait)| *wait).collect());
    }
    all
}

/// An answer that is not followed by another request.
async fn stays(answer: impl Fn(&Spoken) -> Answer, text: &str, kind: ErrorKind) {
    for wire in &WIRES {
        let tried = tried(wire, kind, vec![answer(wire), good(wire)]).await;
        let error = tried.ended.expect_err(wire.name);
        assert_eq!((&*tried.text, error.kind()), (text, kind), "{error}");
        assert_eq!(tried.requests.len(), 1, "{}: {error}", wire.name);
        assert!(tried.waits.is_empty(), "{}", wire.name);
    }
}

#[tokio::test]
async fn refusals_that_pass_are_waited_for() {
    use ErrorKind::{Busy, RateLimited, Timeout, Unavailable};
    let refuse = |status: &str, headers: &[&str]| Answer::whole(status, headers, "{}");
    let failures = |_: &Spoken| {
        vec![
            refuse("429 Too Many Requests", &["Retry-After: 0.03"]),
            refuse("529 Overloaded", &[]),
            refuse("503 Service Unavailable", &["Retry-After: 3600"]),
        ]
    };
    for waits in passes(failures, &[RateLimited, Unavailable, Unavailable]).await {
        // As the server asks, but not longer than is allowed.
        assert_eq!(waits[0], Duration::from_millis(30));
        assert!(waits[1] <= Duration::from_millis(2), "{waits:?}");
        assert_eq!(waits[2], Duration::from_millis(100));
    }
    let failures = |_: &Spoken| {
        vec![
            refuse("409 Conflict", &[]),
            refuse("408 Request Timeout", &[]),
            refuse("500 Internal Server Error", &[]),
        ]
    };
    passes(failures, &[Busy, Timeout, Unavailable]).await;
}

#[tokio::test]
async fn what_breaks_before_a_word_is_a_new_request() {
    use ErrorKind::{Timeout, Unavailable};
    let failures = |wire: &Spoken| {
        vec![
            Answer::stream(&[wire.overloaded]),
            Answer::of(vec![stream(), chunk(wire.ping.as_bytes()), end()]),
            Answer::of(vec![stream(), Step::Reset]),
        ]
    };
    passes(failures, &[Unavailable; 3]).await;
    let silent = |_: &Spoken| vec![Answer::of(vec![stream(), Step::Silence])];
    passes(silent, &[Timeout]).await;
}

#[tokio::test]
async fn what_breaks_after_a_word_is_an_error() {
    let hello = |wire: &Spoken| chunk(wire.hello.as_bytes());
    let overloaded = |wire: &Spoken| Answer::stream(&[wire.hello, wire.overloaded]);
    stays(overloaded, "hello", ErrorKind::Unavailable).await;
    let broken = |wire: &Spoken| Answer::of(vec![stream(), hello(wire), end()]);
    stays(broken, "hello", ErrorKind::Unavailable).await;
    let silent = |wire: &Spoken| Answer::of(vec![stream(), hello(wire), Step::Silence]);
    stays(silent, "hello", ErrorKind::Timeout).await;
}

#[tokio::test]
async fn what_does_not_pass_is_told_at_once() {
    let check = async |status: &'static str, body: &'static str, kind| {
        stays(|_| Answer::whole(status, &[], body), "", kind).await;
    };
    check("401 Unauthorized", "{}", ErrorKind::Denied).await;
    check("400 Bad Request", "{}", ErrorKind::InvalidInput).await;
    let quota = r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#;
    check("429 Too Many Requests", quota, ErrorKind::RateLimited).await;
    let too_long = r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#;
    check("400 Bad Request", too_long, ErrorKind::ContextOverflow).await;
}

#[tokio::test]
async fn a_server_that_stays_down_is_given_up_on() {
    for wire in &WIRES {
        let down = Answer::whole("503 Service Unavailable", &[], "down");
        let tried = tried(wire, ErrorKind::Unavailable, vec![down]).await;
        let error = tried.ended.expect_err(wire.name);
        assert_eq!(error.context_value("tries"), Some("4"), "{error}");
        assert!(!error.is_temporary(), "{error}");
        assert_eq!(tried.requests.len(), 4, "{}", wire.name);
    }
}
