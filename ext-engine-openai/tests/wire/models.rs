//! Which models there are, and whether the server is there at all.

use std::time::{Duration, Instant};

use haft_api::{ErrorKind, InferenceEngine, ModelInfo, Readiness};
use haft_ext_engine_openai::{ModelSettings, OPENAI_BASE_URL, OpenAiConfig};

use crate::{DONE, STOP, engine, round};
use haft_testkit::loopback::{Answer, LoopbackServer, Step};

const JSON: &[&str] = &["Content-Type: application/json"];
const LIST: &str = r#"{"object":"list","data":[{"id":"a","max_model_len":4096},{"id":"b"}]}"#;

fn reason(readiness: Readiness) -> String {
    match readiness {
        Readiness::Unavailable { reason } => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_server_is_ready_if_it_answers() {
    let ready = async |status: &str, body: &str| {
        let server = LoopbackServer::start(vec![Answer::whole(status, JSON, body)]).await;
        let readiness = engine(server.base_url(), |_| ()).readiness().await;
        assert!(server.requests()[0].head.starts_with("get /v1/models http"));
        readiness
    };
    assert_eq!(ready("200 OK", LIST).await, Readiness::Ready);
    assert_eq!(ready("404 Not Found", "").await, Readiness::Ready);
    let unauthorised = reason(ready("401 Unauthorized", r#"{"detail":"bad key"}"#).await);
    assert!(unauthorised.contains("bad key"), "{unauthorised}");
    let loading = reason(ready("503 Oh", r#"{"error":{"message":"Loading model"}}"#).await);
    assert!(loading.contains("Loading model"), "{loading}");
}

#[tokio::test]
async fn a_server_that_is_not_there_or_silent_is_not_ready() {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let url = format!("http://127.0.0.1:{port}/v1");
    let refused = reason(engine(&url, |_| ()).readiness().await);
    assert!(
        refused.contains(&url) && refused.contains("start the server"),
        "{refused}"
    );

    let server = LoopbackServer::start(vec![Answer::of(vec![Step::Silence])]).await;
    let started = Instant::now();
    let silent = reason(engine(server.base_url(), |_| ()).readiness().await);
    assert!(silent.contains("within a second"), "{silent}");
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn openais_own_api_needs_a_key_and_is_not_asked() {
    let keyless = engine(OPENAI_BASE_URL, |_| ());
    let said = reason(keyless.readiness().await);
    assert!(said.contains("OPENAI_API_KEY"), "{said}");
    let heard = round(&keyless).await;
    heard.fails("", ErrorKind::Denied, false, &["OPENAI_API_KEY"]);

    let unset = |config: &mut OpenAiConfig| {
        config.api_key_env = Some("HAFT_TEST_NO_SUCH_VARIABLE".to_owned());
    };
    let said = reason(engine(OPENAI_BASE_URL, unset).readiness().await);
    assert!(said.contains("HAFT_TEST_NO_SUCH_VARIABLE"), "{said}");

    let with_key = |config: &mut OpenAiConfig| {
        config.api_key = Some("k".to_owned());
        config.model = None;
    };
    let engine = engine(OPENAI_BASE_URL, with_key);
    assert_eq!(engine.readiness().await, Readiness::Ready);
    let default = engine.model(None).await.unwrap();
    assert!(
        default.context_tokens.is_some() && default.images,
        "{default:?}"
    );
}

#[tokio::test]
async fn models_are_the_default_then_the_known_then_the_listed() {
    let server = LoopbackServer::start(vec![Answer::whole("200 OK", JSON, LIST)]).await;
    let names = async |change: fn(&mut OpenAiConfig)| {
        let models = engine(server.base_url(), change).models().await.unwrap();
        models
            .into_iter()
            .map(|model| model.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(names(|config| config.model = None).await, ["a", "b"]);
    assert_eq!(names(|_| ()).await, ["m", "a", "b"]);
    let known = names(|config| {
        config.model = Some("b".to_owned());
        config.models = vec![ModelSettings::new("k"), ModelSettings::new("a")];
    })
    .await;
    assert_eq!(known, ["b", "k", "a"]);

    let engine = engine(server.base_url(), |config| {
        let mut images = ModelSettings::new("a");
        images.images = Some(true);
        let mut small = ModelSettings::new("s");
        small.context_tokens = Some(2048);
        small.tools = Some(false);
        config.models = vec![images, small];
    });
    let mut a = ModelInfo::new("a");
    a.context_tokens = Some(4096);
    a.images = true;
    let listed = engine.models().await.unwrap();
    assert_eq!(listed.iter().find(|model| model.name == "a"), Some(&a));
    let mut small = ModelInfo::new("s");
    small.context_tokens = Some(2048);
    small.tools = false;
    assert_eq!(engine.model(Some("s")).await.unwrap(), small);
    assert_eq!(
        engine.model(Some("else")).await.unwrap(),
        ModelInfo::new("else")
    );
}

#[tokio::test]
async fn a_servers_first_model_serves_where_none_is_named() {
    let nothing_named = |config: &mut OpenAiConfig| config.model = None;
    let server = LoopbackServer::start(vec![
        Answer::whole("200 OK", JSON, LIST),
        Answer::stream(&[STOP, DONE]),
    ])
    .await;
    let first = engine(server.base_url(), nothing_named);
    round(&first).await.ends("");
    round(&first).await.ends("");
    let requests = server.requests();
    assert_eq!(requests.len(), 3, "the list is asked for once");
    for request in &requests[1..] {
        assert!(
            request.body.starts_with(r#"{"model":"a","#),
            "{}",
            request.body
        );
    }

    let empty = Answer::whole("200 OK", JSON, r#"{"data":[]}"#);
    let server = LoopbackServer::start(vec![empty]).await;
    let heard = round(&engine(server.base_url(), nothing_named)).await;
    heard.fails("", ErrorKind::NotFound, false, &["no model"]);
}

#[tokio::test]
async fn without_a_list_the_configured_models_are_all_there_is() {
    let server = LoopbackServer::start(vec![Answer::whole("500 Oh", &[], "broken")]).await;
    let models = engine(server.base_url(), |_| ()).models().await.unwrap();
    assert_eq!(models, [ModelInfo::new("m")]);
    let error = engine(server.base_url(), |config| config.model = None)
        .models()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("broken"), "{error}");
    assert_eq!(error.context_value("engine"), Some("test"));
}
