//! Refusals, and answers that go wrong.

use std::time::Duration;

use haft_api::ErrorKind;

use crate::{DONE, HELLO, STOP, engine, round, with};
use haft_testkit::loopback::{Answer, Step, chunk, end, head};

#[tokio::test]
async fn a_rate_limit_says_when_to_return() {
    let check = async |headers: &[&str], body: &str, delay: Option<u64>| {
        let heard = with(Answer::whole("429 Too Many Requests", headers, body)).await;
        heard.fails("", ErrorKind::RateLimited, true, &["429"]);
        assert_eq!(heard.error.unwrap().retry_after_ms(), delay, "{headers:?}");
    };
    check(&[], "{}", None).await;
    check(&["Retry-After: 3"], "{}", Some(3_000)).await;
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
    let body = r#"{"error":{"message":"Please try again in 1.5s.","code":"rate_limit_exceeded"}}"#;
    check(&[], body, Some(1_500)).await;

    let body =
        r#"{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}"#;
    let heard = with(Answer::whole(
        "429 Too Many Requests",
        &["Retry-After: 3"],
        body,
    ))
    .await;
    heard.fails("", ErrorKind::RateLimited, false, &["quota"]);
}

#[tokio::test]
async fn refusals_are_told_apart() {
    let check = async |status: &str, body: &str, kind: ErrorKind, temporary: bool, says: &str| {
        let heard = with(Answer::whole(status, &[], body)).await;
        heard.fails(
            "",
            kind,
            temporary,
            &[says, "127.0.0.1", "/v1/chat/completions"],
        );
    };
    check(
        "503 Service Unavailable",
        "busy",
        ErrorKind::Unavailable,
        true,
        "busy",
    )
    .await;
    check("529 Overloaded", "", ErrorKind::Unavailable, true, "529").await;
    check(
        "401 Unauthorized",
        r#"{"detail":"bad key"}"#,
        ErrorKind::Denied,
        false,
        "bad key",
    )
    .await;
    check(
        "404 Not Found",
        r#"{"error":"no such model"}"#,
        ErrorKind::NotFound,
        false,
        "no such model",
    )
    .await;
    check(
        "400 Bad Request",
        r#"{"error":{"code":400,"message":"too long","type":"exceed_context_size_error"}}"#,
        ErrorKind::ContextOverflow,
        false,
        "too long",
    )
    .await;
    // A refusal whose body breaks off, or never ends.
    let cut = "HTTP/1.1 500 Oh\r\nContent-Length: 100\r\n\r\nhalf a bod";
    let heard = with(Answer::of(vec![Step::Send(cut.into())])).await;
    heard.fails("", ErrorKind::Unavailable, true, &["500", "half a bod"]);
}

#[tokio::test]
async fn a_redirect_is_not_followed_but_named() {
    let heard = with(Answer::whole(
        "307 Temporary Redirect",
        &["Location: https://elsewhere.test/v1?key=secret"],
        "",
    ))
    .await;
    heard.fails(
        "",
        ErrorKind::InvalidInput,
        false,
        &["https://elsewhere.test/v1", "base_url"],
    );
    assert!(!heard.error.unwrap().to_string().contains("secret"));
}

#[tokio::test]
async fn an_error_after_the_head_is_an_error() {
    let error = "data: {\"error\":{\"message\":\"Overloaded\",\"code\":503}}\n\n";
    let check = async |events: &[&str], text: &str| {
        let heard = with(Answer::stream(events)).await;
        heard.fails(text, ErrorKind::Unavailable, true, &["Overloaded"]);
    };
    check(&[error, DONE], "").await;
    check(&[HELLO, error, DONE], "hello").await;
    let json = "Content-Type: application/json";
    let body = r#"{"error":{"message":"no such model","code":"model_not_found"}}"#;
    let heard = with(Answer::whole("200 OK", &[json], body)).await;
    heard.fails("", ErrorKind::NotFound, false, &["no such model"]);
    // Within what calls itself a stream.
    let heard = with(Answer::stream(&[body])).await;
    heard.fails("", ErrorKind::NotFound, false, &["no such model"]);
}

#[tokio::test]
async fn an_answer_that_breaks_off_never_ends_well() {
    let broken = async |steps: Vec<Step>, text: &str| {
        let heard = with(Answer::of(steps)).await;
        heard.fails(text, ErrorKind::Unavailable, true, &["broke"]);
    };
    let stream = || head("text/event-stream");
    let hello = || chunk(HELLO.as_bytes());
    // A clean end of the connection, but not of the answer.
    broken(vec![stream(), end()], "").await;
    broken(vec![stream(), hello(), end()], "hello").await;
    let closed = format!("HTTP/1.1 200 OK\r\n\r\n{HELLO}data: {{\"choi");
    broken(vec![Step::Send(closed.into())], "hello").await;
    // The connection lost, before and after the model said that it had ended.
    broken(vec![stream(), hello()], "hello").await;
    broken(vec![stream(), hello(), chunk(STOP.as_bytes())], "hello").await;
    // The wait lets the text arrive: a reset throws away what wasn't read.
    let wait = || Step::Wait(Duration::from_millis(300));
    broken(vec![stream(), hello(), wait(), Step::Reset], "hello").await;
    let heard = with(Answer::of(vec![Step::Reset])).await;
    heard.fails("", ErrorKind::Unavailable, true, &["broke before"]);
    let heard = with(Answer::of(vec![])).await;
    heard.fails("", ErrorKind::Unavailable, true, &["broke before"]);
}

#[tokio::test]
async fn what_is_no_answer_of_a_model_is_named() {
    let page = "<html><title>Please log in</title>";
    let heard = with(Answer::whole("200 OK", &["Content-Type: text/html"], page)).await;
    heard.fails(
        "",
        ErrorKind::Corrupt,
        false,
        &["text/html", "Please log in", "base_url"],
    );

    let zipped = ["Content-Type: text/event-stream", "Content-Encoding: gzip"];
    let heard = with(Answer::whole("200 OK", &zipped, "\u{1f}")).await;
    heard.fails("", ErrorKind::Corrupt, false, &["gzip"]);

    let heard = with(Answer::whole(
        "503 Service Unavailable",
        &["Content-Encoding: gzip"],
        "\u{1f}",
    ))
    .await;
    heard.fails("", ErrorKind::Unavailable, true, &["503", "`gzip`"]);

    let text = "upstream is gone";
    let heard = with(Answer::whole("200 OK", &["Content-Type: text/plain"], text)).await;
    heard.fails("", ErrorKind::Unavailable, true, &["broke off", text]);

    let heard = with(Answer::stream(&["data: {\"choices\":[{]}\n\n"])).await;
    heard.fails("", ErrorKind::Corrupt, true, &["isn't valid"]);
}

#[tokio::test]
async fn where_nothing_listens_the_error_says_so_and_what_to_do() {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let heard = round(&engine(&format!("http://127.0.0.1:{port}/v1"), |_| ())).await;
    heard.fails(
        "",
        ErrorKind::Unavailable,
        true,
        &[
            "connection refused",
            "start the server",
            &format!("http://127.0.0.1:{port}/v1"),
        ],
    );
}

/// A full queue of connections, which Linux answers with silence.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_connection_that_does_not_come_about_is_given_up_on() {
    use tokio::net::{TcpSocket, TcpStream};

    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    let patience = Duration::from_millis(500);
    while let Ok(stream) = tokio::time::timeout(patience, TcpStream::connect(address)).await {
        waiting.push(stream.unwrap());
        assert!(waiting.len() < 64, "the queue is never full");
    }
    let engine = engine(&format!("http://{address}/v1"), |config| {
        config.connect_timeout_ms = 300;
    });
    let heard = round(&engine).await;
    heard.fails("", ErrorKind::Timeout, true, &["300 ms", "reachable"]);
}
