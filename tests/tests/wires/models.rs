//! Lists of models that come in pages, over each wire.

use std::sync::Arc;

use haft_api::{ErrorKind, ExtensionId, InferenceEngine};
use haft_ext_engine_anthropic::{AnthropicConfig, AnthropicEngine};
use haft_ext_engine_openai::{OpenAiConfig, OpenAiEngine};
use haft_testkit::loopback::{Answer, LoopbackServer};

/// An engine over a server, and the parameter that its wire asks for a page by.
type Wire = (fn(&str) -> Arc<dyn InferenceEngine>, &'static str);

const WIRES: [Wire; 2] = [(openai, "after"), (anthropic, "after_id")];

fn id() -> ExtensionId {
    ExtensionId::new("test").unwrap()
}

fn openai(url: &str) -> Arc<dyn InferenceEngine> {
    Arc::new(OpenAiEngine::new(id(), OpenAiConfig::new(url)).unwrap())
}

fn anthropic(url: &str) -> Arc<dyn InferenceEngine> {
    Arc::new(AnthropicEngine::new(id(), AnthropicConfig::new(url)).unwrap())
}

/// A page of models of these names.
fn page(names: &[&str], more: &str) -> Answer {
    let models = names.iter().map(|name| format!(r#"{{"id":{name:?}}}"#));
    let models = models.collect::<Vec<_>>().join(",");
    let body = format!(r#"{{"data":[{models}]{more}}}"#);
    Answer::whole("200 OK", &["Content-Type: application/json"], &body)
}

/// The names that are listed, and the paths that were asked for.
async fn list(
    engine: fn(&str) -> Arc<dyn InferenceEngine>,
    pages: Vec<Answer>,
) -> (haft_api::Result<Vec<String>>, Vec<String>) {
    let server = LoopbackServer::start(pages).await;
    let models = engine(server.base_url()).models().await;
    let names = models.map(|models| models.into_iter().map(|model| model.name).collect());
    let path = |head: &str| head.split(' ').nth(1).unwrap_or_default().to_owned();
    let requests = server.requests();
    (names, requests.iter().map(|r| path(&r.head)).collect())
}

#[tokio::test]
async fn every_page_is_read() {
    let last = r#","has_more":false,"last_id":"e""#;
    for (engine, after) in WIRES {
        let pages = vec![
            page(&["a", "b&c"], r#","has_more":true,"last_id":"b&c""#),
            // The next page begins behind its last model if it names none.
            page(&["d"], r#","has_more":true"#),
            page(&["e"], last),
        ];
        let (names, paths) = list(engine, pages).await;
        assert_eq!(names.unwrap(), ["a", "b&c", "d", "e"]);
        let next = |model: &str| format!("/v1/models?{after}={model}");
        assert_eq!(paths, ["/v1/models", &next("b%26c"), &next("d")]);
    }
}

#[tokio::test]
async fn a_server_that_turns_no_page_is_not_asked_for_ever() {
    for (engine, _) in WIRES {
        let same = page(&["a", "b"], r#","has_more":true,"last_id":"b""#);
        let (names, paths) = list(engine, vec![same]).await;
        assert_eq!(names.unwrap(), ["a", "b"]);
        assert_eq!(paths.len(), 2, "{paths:?}");
    }
}

#[tokio::test]
async fn a_page_that_is_refused_is_no_shorter_list() {
    for (engine, _) in WIRES {
        let pages = vec![
            page(&["a"], r#","has_more":true,"last_id":"a""#),
            Answer::whole("503 Service Unavailable", &[], "busy"),
        ];
        let error = list(engine, pages).await.0.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("busy"), "{error}");
    }
}
