//! When a connection is used again, and when it isn't.

use std::time::Duration;

use futures::future::join_all;
use haft_api::ErrorKind;

use crate::{DONE, HELLO, STOP, engine, round};
use haft_testkit::loopback::{Answer, LoopbackServer, Step, chunk, end, head};

fn hello() -> Answer {
    Answer::stream(&[HELLO, STOP, DONE])
}

#[tokio::test]
async fn connections_are_used_again() {
    let server = LoopbackServer::start(vec![hello()]).await;
    let engine = engine(server.base_url(), |_| ());
    for _ in 0..3 {
        round(&engine).await.ends("hello");
    }
    assert_eq!(server.requests().len(), 3);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn an_answers_end_is_waited_for_by_the_next_request_and_not_for_long() {
    let said = format!("{HELLO}{STOP}{DONE}");
    let and_then = |rest: Step| {
        let said = chunk(said.as_bytes());
        Answer::of(vec![head("text/event-stream"), said, rest, end()]).kept()
    };
    let comment = || Step::Repeat(b"3\r\n: \n\r\n".to_vec(), Duration::from_millis(5));
    let connections = async |rest: Step| {
        let server = LoopbackServer::start(vec![and_then(rest), hello()]).await;
        let engine = engine(server.base_url(), |_| ());
        round(&engine).await.ends("hello");
        round(&engine).await.ends("hello");
        server.connections()
    };
    assert_eq!(connections(Step::Silence).await, 2);
    assert_eq!(connections(comment()).await, 2);
    // A loaded machine may be late with it now and then, not always.
    let mut used_again = false;
    for _ in 0..10 {
        used_again |= connections(Step::Wait(Duration::from_millis(20))).await == 1;
    }
    assert!(used_again);
}

#[tokio::test]
async fn rounds_at_once_have_connections_of_their_own() {
    let server = LoopbackServer::start(vec![hello()]).await;
    let engine = engine(server.base_url(), |_| ());
    for _ in 0..2 {
        for heard in join_all((0..20).map(|_| round(&engine))).await {
            heard.ends("hello");
        }
    }
    assert_eq!(server.requests().len(), 40);
    assert!(server.connections() <= 20, "{}", server.connections());
}

#[tokio::test]
async fn a_connection_that_the_server_closed_is_not_used_again() {
    let said = format!("{HELLO}{STOP}{DONE}");
    let and_close = || {
        Answer::of(vec![
            head("text/event-stream"),
            chunk(said.as_bytes()),
            end(),
        ])
    };
    let server = LoopbackServer::start(vec![and_close()]).await;
    let engine = engine(server.base_url(), |_| ());
    for _ in 0..3 {
        round(&engine).await.ends("hello");
    }
    assert_eq!(server.requests().len(), 3);
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn a_request_that_a_closing_connection_lost_is_sent_once_more() {
    let lost = [Answer::of(vec![]), Answer::of(vec![Step::Reset])];
    for lost in lost {
        let server = LoopbackServer::start(vec![hello(), lost.clone(), hello()]).await;
        let recovered = engine(server.base_url(), |_| ());
        round(&recovered).await.ends("hello");
        round(&recovered).await.ends("hello");
        assert_eq!(server.requests().len(), 3);
        assert_eq!(server.connections(), 2);

        // Once, and not if it was the connection's first request.
        let server = LoopbackServer::start(vec![hello(), lost.clone(), lost]).await;
        let given_up = engine(server.base_url(), |_| ());
        round(&given_up).await.ends("hello");
        for requests in [3, 4] {
            let heard = round(&given_up).await;
            heard.fails("", ErrorKind::Unavailable, true, &["broke before"]);
            assert_eq!(server.requests().len(), requests);
        }
    }
}

#[tokio::test]
async fn a_request_that_was_answered_is_not_sent_again() {
    let broken = Answer::of(vec![head("text/event-stream"), chunk(HELLO.as_bytes())]);
    let refused = Answer::whole("503 Service Unavailable", &[], "busy");
    for (answer, text, says) in [(broken, "hello", "broke off"), (refused, "", "busy")] {
        let server = LoopbackServer::start(vec![hello(), answer]).await;
        let engine = engine(server.base_url(), |_| ());
        round(&engine).await.ends("hello");
        let heard = round(&engine).await;
        heard.fails(text, ErrorKind::Unavailable, true, &[says]);
        assert_eq!(server.requests().len(), 2);
    }
}

#[tokio::test]
async fn what_does_not_speak_http_is_told_so() {
    let greeting = Answer::of(vec![Step::Send(b"SSH-2.0-OpenSSH_9.6\r\n".to_vec())]);
    let server = LoopbackServer::start(vec![greeting]).await;
    let heard = round(&engine(server.base_url(), |_| ())).await;
    heard.fails("", ErrorKind::Unavailable, true, &["HTTP/1.1", "base_url"]);
}
