//! What is sent.

use std::sync::Arc;

use futures::StreamExt;
use haft_api::{EngineEvent, ErrorKind, InferenceEngine, ToolName, ToolSpec};

use crate::{DONE, STOP, engine, request, round};
use haft_testkit::loopback::{Answer, LoopbackServer};

#[tokio::test]
async fn a_request_carries_what_the_settings_say() {
    let server = LoopbackServer::start(vec![Answer::stream(&[STOP, DONE])]).await;
    let url = format!("{}?api-version=1", server.base_url());
    let engine = engine(&url, |config| {
        config.api_key = Some("k3y".to_owned());
        config
            .headers
            .insert("X-Team".to_owned(), "blue".to_owned());
        config.extra_body.insert("seed".to_owned(), 7.into());
    });
    round(&engine).await.ends("");
    let sent = &server.requests()[0];
    for line in [
        "post /v1/chat/completions?api-version=1 http/1.1\r\n",
        "authorization: bearer k3y\r\n",
        "x-team: blue\r\n",
        "content-type: application/json\r\n",
        "accept: text/event-stream, application/json\r\n",
        "accept-encoding: identity\r\n",
        "user-agent: haft/",
    ] {
        assert!(sent.head.contains(line), "{}: no {line:?}", sent.head);
    }
    let body = r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"seed":7,"messages":["#;
    assert!(sent.body.starts_with(body), "{}", sent.body);
}

#[tokio::test]
async fn a_key_comes_from_the_variable_that_is_named_and_headers_win() {
    let server = LoopbackServer::start(vec![Answer::stream(&[STOP, DONE])]).await;
    let from_env = engine(server.base_url(), |config| {
        // A variable that is there wherever tests run.
        config.api_key_env = Some("PATH".to_owned());
    });
    round(&from_env).await.ends("");
    let own_header = engine(server.base_url(), |config| {
        config.api_key = Some("k3y".to_owned());
        config
            .headers
            .insert("Authorization".to_owned(), "Basic x".to_owned());
    });
    round(&own_header).await.ends("");
    let keyless = engine(server.base_url(), |_| ());
    round(&keyless).await.ends("");
    let heads: Vec<_> = server.requests().into_iter().map(|r| r.head).collect();
    let key = std::env::var("PATH").unwrap().to_lowercase();
    assert!(
        heads[0].contains(&format!("authorization: bearer {key}\r\n")),
        "{}",
        heads[0]
    );
    assert!(heads[1].contains("authorization: basic x\r\n") && !heads[1].contains("k3y"));
    assert!(!heads[2].contains("authorization"), "{}", heads[2]);

    let missing = engine(server.base_url(), |config| {
        config.api_key_env = Some("HAFT_TEST_NO_SUCH_VARIABLE".to_owned());
    });
    let heard = round(&missing).await;
    heard.fails(
        "",
        ErrorKind::Denied,
        false,
        &["HAFT_TEST_NO_SUCH_VARIABLE"],
    );
    assert_eq!(
        server.requests().len(),
        3,
        "nothing is sent without the key"
    );
}

#[tokio::test]
async fn tools_are_called_by_their_own_names() {
    let calls = "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"fs_-read\",\"arguments\":\"{}\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\n";
    let server = LoopbackServer::start(vec![Answer::stream(&[calls, DONE])]).await;
    let engine = engine(server.base_url(), |_| ());
    let mut request = request();
    request.tools = Arc::from([ToolSpec::new(ToolName::new("fs.read").unwrap(), "reads")]);
    let mut stream = engine.stream_turn(request).await.unwrap();
    let mut called = Vec::new();
    while let Some(event) = stream.next().await {
        if let EngineEvent::Call(call) = event.unwrap() {
            called.push(call.name);
        }
    }
    assert_eq!(called, ["fs.read"]);
    assert!(server.requests()[0].body.contains(r#""name":"fs_-read""#));
}

#[tokio::test]
async fn a_server_that_wants_a_key_is_sent_none_where_none_is_set() {
    let refusal = Answer::whole("401 Unauthorized", &[], r#"{"detail":"who are you?"}"#);
    let server = LoopbackServer::start(vec![refusal]).await;
    let heard = round(&engine(server.base_url(), |_| ())).await;
    heard.fails(
        "",
        ErrorKind::Denied,
        false,
        &["who are you?", "`api_key_env`"],
    );
    let keyed = engine(server.base_url(), |config| {
        config.api_key = Some("k3y".to_owned());
    });
    let error = round(&keyed).await.error.unwrap().to_string();
    assert!(
        !error.contains("no key was sent") && !error.contains("k3y"),
        "{error}"
    );
}
