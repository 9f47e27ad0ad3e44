//! What the settings may say, and what they do to a request. No network.

use std::sync::Arc;

use haft_api::{
    EngineRequest, ErrorKind, ExtensionConfig, ExtensionId, ExtensionRegistryBuilder, History,
    Item, Registry, Result, ThreadId, TurnId, linked_extensions,
};
use haft_ext_engine_openai::{OpenAiConfig, OpenAiEngine, OpenAiExtension, Wire};
use serde_json::{Value, json};

fn register(settings: &Value) -> Result<Registry> {
    let mut builder = ExtensionRegistryBuilder::new();
    let config = ExtensionConfig::from_value(settings)?;
    builder.extension(&OpenAiExtension, &config)?;
    builder.build()
}

#[test]
fn the_extension_brings_the_engine() {
    let registry = register(&json!({})).unwrap();
    assert_eq!(registry.manifests()[0].id, "engine-openai");
    assert!(registry.engine("openai").is_some());
    assert!(
        linked_extensions()
            .iter()
            .any(|linked| linked.name == "OpenAiExtension")
    );
    let all = json!({
        "base_url": "http://127.0.0.1:8080/v1",
        "api_key": "k", "api_key_env": "K",
        "headers": {"x": "y"},
        "extra_body": {"top_k": 1},
        "model": "m",
        "models": [{"name": "m", "context_tokens": 1, "tools": false, "images": true}],
        "connect_timeout_ms": 1, "idle_timeout_ms": 1,
        "max_tokens_field": "max_tokens", "reasoning_field": "",
        "proxy": "http://127.0.0.1:3128", "ca_file": "ca.pem",
    });
    register(&all).unwrap();
}

#[test]
fn what_is_wrong_is_named() {
    let check = |settings: Value, says: &[&str]| {
        let error = register(&settings).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        for part in says {
            assert!(error.to_string().contains(part), "{error}: no {part:?}");
        }
    };
    check(json!({"base_uri": "x"}), &["base_uri"]);
    check(
        json!({"models": [{"name": "m", "context": 1}]}),
        &["context"],
    );
    check(
        json!({"base_url": "localhost:8080"}),
        &["base_url", "http://"],
    );
    check(json!({"headers": {"a b": "c"}}), &["`a b`"]);
    check(json!({"headers": {"a": "c\n"}}), &["`a`"]);
    check(json!({"proxy": "::"}), &["proxy"]);
    check(json!({"idle_timeout_ms": 0}), &["idle_timeout_ms"]);
    check(
        json!({"connect_timeout_ms": u64::MAX}),
        &["connect_timeout_ms"],
    );
    for field in ["messages", "model", "stream", "tools"] {
        check(json!({"extra_body": {field: 1}}), &["extra_body", field]);
    }
}

#[test]
fn secrets_are_not_shown() {
    let mut config = OpenAiConfig::new("https://me:s3cret@x.test/v1?key=s3cret");
    config.api_key = Some("s3cret".to_owned());
    config.headers.insert("x".to_owned(), "s3cret".to_owned());
    config.proxy = Some("http://me:s3cret@proxy.test".to_owned());
    config.extra_body.insert("x".to_owned(), "s3cret".into());
    let shown = format!("{config:?}");
    assert!(!shown.contains("s3cret"), "{shown}");
    let engine = OpenAiEngine::new(ExtensionId::new("e").unwrap(), config).unwrap();
    let shown = format!("{engine:?}");
    assert!(!shown.contains("s3cret"), "{shown}");
}

#[test]
fn providers_differ_where_they_must() {
    let body = |base_url: &str, change: fn(&mut OpenAiConfig)| -> Value {
        let mut config = OpenAiConfig::new(base_url);
        config.wire = Some(Wire::Chat);
        change(&mut config);
        let engine = OpenAiEngine::new(ExtensionId::new("e").unwrap(), config).unwrap();
        let thought = Item::Reasoning {
            text: "hm".to_owned(),
            state: None,
        };
        let items = [
            Item::user("a"),
            thought,
            Item::assistant("b"),
            Item::user("c"),
        ];
        let mut request = EngineRequest::new(
            ThreadId::new("t").unwrap(),
            TurnId::new("u").unwrap(),
            History::new(1, items.map(Arc::new).to_vec()),
        );
        request.options.max_output_tokens = Some(7);
        serde_json::from_slice(&engine.body(&request, "m").unwrap()).unwrap()
    };
    let check = |body: Value, limit: &str, usage: bool, reasoning: Option<&str>| {
        assert_eq!(body[limit], 7, "{body}");
        assert_eq!(body["stream_options"].is_object(), usage, "{body}");
        let answer = &body["messages"][1];
        match reasoning {
            Some(field) => assert_eq!(answer[field], "hm", "{body}"),
            None => assert_eq!(answer.as_object().unwrap().len(), 2, "{body}"),
        }
    };
    let thinks = Some("reasoning_content");
    check(
        body("https://api.openai.com/v1", |_| ()),
        "max_completion_tokens",
        true,
        None,
    );
    check(
        body("https://x.openai.azure.com/v1", |_| ()),
        "max_completion_tokens",
        true,
        None,
    );
    check(
        body("https://api.mistral.ai/v1", |_| ()),
        "max_tokens",
        false,
        None,
    );
    check(
        body("https://api.deepseek.com", |_| ()),
        "max_tokens",
        true,
        thinks,
    );
    check(
        body("https://api.moonshot.ai/v1", |_| ()),
        "max_tokens",
        true,
        thinks,
    );
    check(
        body("http://127.0.0.1:8080/v1", |_| ()),
        "max_tokens",
        true,
        None,
    );
    // The settings have the last word.
    let own = |config: &mut OpenAiConfig| {
        config.max_tokens_field = Some("n_predict".to_owned());
        config.reasoning_field = Some("thinking".to_owned());
    };
    check(
        body("http://127.0.0.1:8080/v1", own),
        "n_predict",
        true,
        Some("thinking"),
    );
    let none = |config: &mut OpenAiConfig| config.reasoning_field = Some(String::new());
    check(
        body("https://api.deepseek.com", none),
        "max_tokens",
        true,
        None,
    );
    let asks = |config: &mut OpenAiConfig| {
        let usage = json!({"include_usage": true});
        config.extra_body.insert("stream_options".to_owned(), usage);
    };
    check(
        body("https://api.mistral.ai/v1", asks),
        "max_tokens",
        true,
        None,
    );
}
