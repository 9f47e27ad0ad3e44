//! Everything that goes wrong between an engine and its server, over each wire.

use std::time::Duration;

use futures::StreamExt as _;
use haft_api::{Error, ErrorKind, FinishReason};
use haft_testkit::loopback::{Answer, LoopbackServer, Step, chunk, end, head};

use crate::spoken::{LONG, Spoken, WIRES, idle_for, request, round, stream};

/// What is expected of a round that fails.
struct Failure {
    text: &'static str,
    kind: ErrorKind,
    temporary: bool,
    says: &'static str,
}

/// Plays an answer over each wire, which has to fail so.
async fn fails(answer: impl Fn(&Spoken) -> Answer, expected: Failure) -> Vec<Error> {
    let mut errors = Vec::new();
    for wire in &WIRES {
        let server = LoopbackServer::start(vec![answer(wire)]).await;
        let engine = (wire.engine)(server.base_url(), idle_for(expected.kind));
        let (text, ended) = round(&engine).await;
        let error = ended.expect_err(wire.name);
        let about = format!("{}: {error}", wire.name);
        assert_eq!(text, expected.text, "{about}");
        assert_eq!(error.kind(), expected.kind, "{about}");
        assert_eq!(error.is_temporary(), expected.temporary, "{about}");
        assert!(error.to_string().contains(expected.says), "{about}");
        assert_eq!(error.operation_name(), Some("stream_turn"), "{about}");
        assert_eq!(error.context_value("engine"), Some("test"), "{about}");
        assert!(error.context_value("url").is_some(), "{about}");
        let requested = &server.requests()[0].head;
        assert!(
            requested.starts_with(&format!("post {}", wire.path)),
            "{requested}"
        );
        errors.push(error);
    }
    errors
}

/// Plays an answer over each wire, which has to be heard whole.
async fn succeeds(answer: impl Fn(&Spoken) -> Answer) {
    for wire in &WIRES {
        let server = LoopbackServer::start(vec![answer(wire)]).await;
        let engine = (wire.engine)(server.base_url(), 30_000);
        let (text, ended) = round(&engine).await;
        assert_eq!(text, "hello", "{}", wire.name);
        assert_eq!(ended.expect(wire.name), FinishReason::End, "{}", wire.name);
    }
}

#[tokio::test]
async fn a_rate_limit_says_when_to_return() {
    let check = async |headers: &'static [&'static str], body: &'static str, delay| {
        let limited = Failure {
            text: "",
            kind: ErrorKind::RateLimited,
            temporary: true,
            says: "429",
        };
        let answer = |_: &Spoken| Answer::whole("429 Too Many Requests", headers, body);
        for error in fails(answer, limited).await {
            assert_eq!(error.retry_after_ms(), delay, "{headers:?}");
        }
    };
    check(&[], "{}", None).await;
    check(&["Retry-After: 3"], "{}", Some(3_000)).await;
    check(&["Retry-After: 0.5"], "{}", Some(500)).await;
    check(&["retry-after-ms: 120"], "{}", Some(120)).await;
    check(
        &[
            "Date: Wed, 21 Oct 2015 07:28:00 GMT",
            "Retry-After: Wed, 21 Oct 2015 07:28:09 GMT",
        ],
        "{}",
        Some(9_000),
    )
    .await;
    let body = r#"{"error":{"message":"Please try again in 1.5s.","type":"rate_limit_error"}}"#;
    check(&[], body, Some(1_500)).await;
}

#[tokio::test]
async fn a_server_that_is_busy_is_worth_another_try() {
    for (status, says) in [
        ("503 Service Unavailable", "503"),
        ("529 Overloaded", "529"),
    ] {
        let busy = Failure {
            text: "",
            kind: ErrorKind::Unavailable,
            temporary: true,
            says,
        };
        fails(|_| Answer::whole(status, &[], "busy"), busy).await;
    }
    for wire in &WIRES {
        let busy = Answer::whole("503 Service Unavailable", &[], "busy");
        let good = Answer::stream(&[wire.hello, wire.rest]);
        let server = LoopbackServer::start(vec![busy, good]).await;
        let engine = (wire.engine)(server.base_url(), 30_000);
        assert!(
            round(&engine).await.1.unwrap_err().is_temporary(),
            "{}",
            wire.name
        );
        let (text, ended) = round(&engine).await;
        assert_eq!(
            (&*text, ended.unwrap()),
            ("hello", FinishReason::End),
            "{}",
            wire.name
        );
    }
}

#[tokio::test]
async fn an_error_after_the_head_is_an_error() {
    let failure = |text| Failure {
        text,
        kind: ErrorKind::Unavailable,
        temporary: true,
        says: "Overloaded",
    };
    fails(|w| Answer::stream(&[w.overloaded]), failure("")).await;
    fails(
        |w| Answer::stream(&[w.hello, w.overloaded, w.rest]),
        failure("hello"),
    )
    .await;
}

#[tokio::test]
async fn keep_alives_do_not_count_as_words() {
    let silent = || Failure {
        text: "hello",
        kind: ErrorKind::Timeout,
        temporary: true,
        says: "idle_timeout_ms",
    };
    let stalls =
        |wire: &Spoken, what: Step| Answer::of(vec![stream(), chunk(wire.hello.as_bytes()), what]);
    fails(|w| stalls(w, Step::Silence), silent()).await;
    let ping = |w: &Spoken| {
        let mut piece = format!("{:x}\r\n", w.ping.len()).into_bytes();
        piece.extend_from_slice(w.ping.as_bytes());
        piece.extend_from_slice(b"\r\n");
        Step::Repeat(piece, Duration::from_millis(100))
    };
    fails(|w| stalls(w, ping(w)), silent()).await;
    // Not even the head comes.
    let nothing = Failure {
        text: "",
        ..silent()
    };
    fails(|_| Answer::of(vec![Step::Silence]), nothing).await;
}

#[tokio::test]
async fn an_answer_that_breaks_off_never_ends_well() {
    let broken = || Failure {
        text: "hello",
        kind: ErrorKind::Unavailable,
        temporary: true,
        says: "broke off",
    };
    let hello = |w: &Spoken| chunk(w.hello.as_bytes());
    fails(|w| Answer::of(vec![stream(), hello(w), end()]), broken()).await;
    fails(|w| Answer::of(vec![stream(), hello(w)]), broken()).await;
    let reset = |w: &Spoken| {
        // The wait lets the text arrive: a reset throws away what wasn't read.
        let wait = Step::Wait(Duration::from_millis(300));
        Answer::of(vec![stream(), hello(w), wait, Step::Reset])
    };
    fails(reset, broken()).await;
    let before = Failure {
        text: "",
        says: "broke before",
        ..broken()
    };
    fails(|_| Answer::of(vec![Step::Reset]), before).await;
}

#[tokio::test]
async fn what_is_no_answer_of_a_model_is_named() {
    let corrupt = |says| Failure {
        text: "",
        kind: ErrorKind::Corrupt,
        temporary: false,
        says,
    };
    let page = |_: &Spoken| Answer::whole("200 OK", &["Content-Type: text/html"], "<html>Log in");
    fails(page, corrupt("Log in")).await;
    let zipped = |_: &Spoken| {
        let headers = ["Content-Type: text/event-stream", "Content-Encoding: gzip"];
        Answer::whole("200 OK", &headers, "\u{1f}")
    };
    fails(zipped, corrupt("gzip")).await;
    let elsewhere = Failure {
        text: "",
        kind: ErrorKind::InvalidInput,
        temporary: false,
        says: "https://elsewhere.test/v1",
    };
    let redirect = |_: &Spoken| {
        let to = "Location: https://elsewhere.test/v1?key=secret";
        Answer::whole("307 Temporary Redirect", &[to], "")
    };
    for error in fails(redirect, elsewhere).await {
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn an_event_of_any_size_up_to_a_limit_is_read() {
    let padded = |w: &Spoken, size: usize| {
        let blanks = " ".repeat(size);
        let hello = w.hello.replacen('{', &format!("{{{blanks}"), 1);
        Answer::stream(&[&hello, w.rest])
    };
    succeeds(|w| padded(w, 8 << 20)).await;
    let too_large = Failure {
        text: "",
        kind: ErrorKind::Corrupt,
        temporary: false,
        says: "64 MiB",
    };
    fails(|w| padded(w, 65 << 20), too_large).await;
}

#[tokio::test]
async fn odd_but_good_answers_are_heard() {
    // A byte order mark; the bytes one by one.
    let bom = |w: &Spoken| format!("\u{feff}{}{}", w.hello, w.rest);
    succeeds(|w| Answer::stream(&[&bom(w)])).await;
    let trickle = |w: &Spoken| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
        let text = format!("{head}{}{}", bom(w), w.ping);
        Answer::of(vec![Step::Trickle(text.into_bytes())])
    };
    succeeds(trickle).await;
    // A connection that the server doesn't close.
    let open = |w: &Spoken| {
        let text = format!("{}{}", w.hello, w.rest);
        Answer::of(vec![stream(), chunk(text.as_bytes()), Step::Silence])
    };
    succeeds(open).await;
    // A stream under another name.
    let named = |w: &Spoken| {
        let text = format!("{}{}", w.hello, w.rest);
        Answer::of(vec![
            head("application/json"),
            chunk(text.as_bytes()),
            end(),
        ])
    };
    succeeds(named).await;
}

#[tokio::test]
async fn whoever_stops_listening_closes_the_connection() {
    for wire in &WIRES {
        let steps = vec![stream(), chunk(wire.hello.as_bytes()), Step::Silence];
        let server = LoopbackServer::start(vec![Answer::of(steps)]).await;
        let engine = (wire.engine)(server.base_url(), 30_000);
        let mut stream = engine.stream_turn(request()).await.unwrap();
        assert!(
            stream.next().await.is_some_and(|event| event.is_ok()),
            "{}",
            wire.name
        );
        drop(stream);
        tokio::time::timeout(LONG, server.connection_ended())
            .await
            .unwrap_or_else(|_| panic!("{}: the connection stays", wire.name));
    }
}
