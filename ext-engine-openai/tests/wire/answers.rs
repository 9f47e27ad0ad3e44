//! Answers that end well, however they come, and those that are given up on.

use std::time::{Duration, Instant};

use futures::StreamExt;
use haft_api::{ErrorKind, FinishReason, InferenceEngine};
use haft_ext_engine_openai::OpenAiConfig;

use crate::{DONE, HELLO, LONG, STOP, engine, request, round, with};
use haft_testkit::loopback::{Answer, LoopbackServer, Step, chunk, end, head};

#[tokio::test]
async fn an_answer_ends_well_however_it_is_cut_and_framed() {
    with(Answer::stream(&[HELLO, STOP, DONE]))
        .await
        .ends("hello");
    let whole = format!("{HELLO}{STOP}{DONE}");

    // Byte by byte: each in a chunk of its own, and each in a packet of its own.
    let mut steps = vec![head("text/event-stream; charset=utf-8")];
    steps.extend(whole.bytes().map(|byte| chunk(&[byte])));
    steps.push(end());
    with(Answer::of(steps)).await.ends("hello");
    let Step::Send(framed) = chunk(whole.as_bytes()) else {
        unreachable!("chunks are sent");
    };
    with(Answer::of(vec![
        head("text/event-stream"),
        Step::Trickle(framed),
        end(),
    ]))
    .await
    .ends("hello");

    let crlf = format!("\u{feff}{}", whole.replace('\n', "\r\n"));
    with(Answer::stream(&[&crlf])).await.ends("hello");
    with(Answer::stream(&[": ping\n\n", HELLO, ": ping\n\n", STOP]))
        .await
        .ends("hello");

    // Ended by the connection's end alone, and without a content type.
    let closed = format!("HTTP/1.1 200 OK\r\n\r\n{whole}");
    with(Answer::of(vec![Step::Send(closed.into())]))
        .await
        .ends("hello");
    // Named wrongly.
    with(Answer::of(vec![
        head("text/plain"),
        chunk(whole.as_bytes()),
        end(),
    ]))
    .await
    .ends("hello");
    with(Answer::of(vec![
        head("application/json"),
        chunk(whole.as_bytes()),
        end(),
    ]))
    .await
    .ends("hello");
    // Not a stream at all.
    let body = r#"{"choices":[{"index":0,"message":{"content":"hello"},"finish_reason":"stop"}]}"#;
    let json = "Content-Type: application/json; charset=utf-8";
    with(Answer::whole("200 OK", &[json], body))
        .await
        .ends("hello");
}

#[tokio::test]
async fn a_huge_event_arrives() {
    let text = "x".repeat(8 * 1024 * 1024);
    let event = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n");
    let heard = with(Answer::stream(&[&event, STOP])).await;
    assert!(heard.text == text, "{} bytes", heard.text.len());
    assert_eq!(heard.finished, Some(FinishReason::End));
}

#[tokio::test]
async fn once_all_is_said_the_connection_does_not_matter() {
    let said = || {
        let whole = format!("{HELLO}{STOP}{DONE}");
        vec![head("text/event-stream"), chunk(whole.as_bytes())]
    };
    // Left open, kept alive, or lost.
    for last in [
        Step::Silence,
        Step::Repeat(b"3\r\n: \n\r\n".to_vec(), Duration::from_millis(20)),
        Step::Wait(Duration::ZERO),
    ] {
        let mut steps = said();
        steps.push(last);
        with(Answer::of(steps)).await.ends("hello");
    }
    // The reason of the end was given, and `[DONE]` never comes.
    let no_done = format!("{HELLO}{STOP}");
    let silent = Answer::of(vec![
        head("text/event-stream"),
        chunk(no_done.as_bytes()),
        Step::Silence,
    ]);
    with(silent).await.ends("hello");
}

#[tokio::test]
async fn a_model_that_says_nothing_is_given_up_on_even_under_keep_alive() {
    let idle = |config: &mut OpenAiConfig| config.idle_timeout_ms = 400;
    let keep_alive = || Step::Repeat(b"8\r\n: ping\n\n\r\n".to_vec(), Duration::from_millis(50));
    let events = || {
        Step::Repeat(
            {
                let event = "event: ping\ndata: {\"type\":\"ping\"}\n\n";
                format!("{:x}\r\n{event}\r\n", event.len()).into_bytes()
            },
            Duration::from_millis(50),
        )
    };
    let stream = || head("text/event-stream");
    for (steps, text) in [
        (vec![Step::Silence], ""),
        (vec![stream(), Step::Silence], ""),
        (vec![stream(), keep_alive()], ""),
        (
            vec![stream(), chunk(HELLO.as_bytes()), keep_alive()],
            "hello",
        ),
        (vec![stream(), chunk(HELLO.as_bytes()), events()], "hello"),
    ] {
        let server = LoopbackServer::start(vec![Answer::of(steps)]).await;
        let started = Instant::now();
        let heard = round(&engine(server.base_url(), idle)).await;
        heard.fails(text, ErrorKind::Timeout, true, &["400 ms"]);
        assert!(started.elapsed() >= Duration::from_millis(400));
        // ... and the connection is closed.
        tokio::time::timeout(LONG, server.connection_ended())
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_slow_model_is_heard_out_while_it_says_something() {
    let mut steps = vec![head("text/event-stream")];
    for _ in 0..6 {
        steps.push(Step::Wait(Duration::from_millis(400)));
        steps.push(chunk(HELLO.as_bytes()));
    }
    steps.extend([chunk(STOP.as_bytes()), end()]);
    let server = LoopbackServer::start(vec![Answer::of(steps)]).await;
    let engine = engine(server.base_url(), |config| config.idle_timeout_ms = 2_000);
    round(&engine).await.ends(&"hello".repeat(6));
}

#[tokio::test]
async fn dropping_closes_the_connection() {
    // While the model speaks.
    let speaking = vec![
        head("text/event-stream"),
        chunk(HELLO.as_bytes()),
        Step::Silence,
    ];
    let server = LoopbackServer::start(vec![Answer::of(speaking)]).await;
    let engine_1 = engine(server.base_url(), |_| ());
    let mut stream = engine_1.stream_turn(request()).await.unwrap();
    stream.next().await.unwrap().unwrap();
    drop(stream);
    tokio::time::timeout(LONG, server.connection_ended())
        .await
        .unwrap();

    // Before it has begun.
    let server = LoopbackServer::start(vec![Answer::of(vec![Step::Silence])]).await;
    let engine_2 = engine(server.base_url(), |_| ());
    let asked = tokio::time::timeout(Duration::from_millis(300), engine_2.stream_turn(request()));
    assert!(asked.await.is_err(), "the server says nothing");
    tokio::time::timeout(LONG, server.connection_ended())
        .await
        .unwrap();
}
