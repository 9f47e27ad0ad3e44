//! What each part does of its own.

use std::sync::Arc;
use std::sync::Mutex;

use extension_crate::Example;
use haft_api::*;
use haft_testkit::fixture;

fn registry(config: &str) -> Result<Registry> {
    let mut builder = ExtensionRegistryBuilder::new();
    builder.extension(&Example, &ExtensionConfig::from_json(config)?)?;
    builder.build()
}

#[test]
fn it_is_linked_and_says_what_it_is() {
    let linked = linked_extensions();
    assert_eq!(linked.len(), 1);
    assert_eq!(
        (linked[0].name, linked[0].package),
        ("Example", "extension-crate")
    );
    assert_eq!(registry("{}").unwrap().manifests()[0].id, "example");
    let error = registry(r#"{"secret":[]}"#).unwrap_err().to_string();
    assert!(error.contains("unknown field `secret`"), "{error}");
}

#[tokio::test]
async fn the_tool_counts() {
    let mut tools = ToolRegistry::new();
    registry("{}").unwrap().tools()[0]
        .part
        .contribute(&mut tools)
        .unwrap();
    let tool = tools.get("word_count").unwrap();
    let call = fixture::tool_call("c1", "word_count", r#"{"text":"one two\nthree"}"#);
    let output = tool.execute(call, fixture::tool_context()).await.unwrap();
    assert_eq!(output, ToolOutput::text("3 words"));
}

#[derive(Default)]
struct Slots(Mutex<Vec<String>>);

impl BatchOutcomes for Slots {
    fn complete(&self, call: &CallId, outcome: Result<ToolOutput>) -> bool {
        let text = match outcome {
            Ok(output) => join_text(&output.parts),
            Err(error) => format!("error: {}", error.kind()),
        };
        self.0.lock().unwrap().push(format!("{call} {text}"));
        true
    }
}

#[tokio::test]
async fn the_source_converts() {
    let registry = registry("{}").unwrap();
    let source = &registry.tool_sources()[0].part;
    assert_eq!(source.tools().await.unwrap().len(), 3);
    let slots = Arc::new(Slots::default());
    let call = |id: &str, name: &str, arguments: &str| BatchCall {
        call: fixture::tool_call(id, name, arguments),
        context: fixture::tool_context(),
    };
    let calls = vec![
        call("c1", "inches_to_cm", r#"{"value":2}"#),
        call("c2", "miles_to_km", r#"{"value":"two"}"#),
        call("c3", "stones_to_kg", r#"{"value":2}"#),
    ];
    let outcomes = Arc::clone(&slots) as Arc<dyn BatchOutcomes>;
    source.call_batch(calls, outcomes).await.unwrap();
    assert_eq!(
        *slots.0.lock().unwrap(),
        ["c1 5.08", "c2 error: invalid_input", "c3 error: not_found"]
    );
}

#[tokio::test]
async fn the_engine_repeats() {
    let registry = registry("{}").unwrap();
    let engine = registry.engine("parrot").unwrap();
    let request = fixture::engine_request([Item::user("pieces of eight")]);
    let mut stream = engine.stream_turn(request).await.unwrap();
    let mut said = String::new();
    while let Some(event) = std::future::poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
        if let EngineEvent::TextDelta { text } = event.unwrap() {
            said += &text;
        }
    }
    assert_eq!(said, "pieces of eight");
}

#[tokio::test]
async fn the_policy_guards_what_it_is_told_to() {
    let check = async |config: &str, path: &str, allowed: bool| {
        let registry = registry(config).unwrap();
        let arguments = format!(r#"{{"path":"{path}"}}"#);
        let request = PolicyRequest::new(
            fixture::thread_id("t"),
            fixture::turn_id("u"),
            fixture::tool_call("c1", "read", &arguments),
            Effects::READS,
        );
        let decision = registry.policies()[0].part.review(request).await.unwrap();
        assert_eq!(decision == Decision::Allow, allowed, "{config} {path}");
    };
    check("{}", "a.txt", true).await;
    check("{}", ".env", false).await;
    check(r#"{"secrets":["id_rsa"]}"#, ".env", true).await;
    check(r#"{"secrets":["id_rsa"]}"#, "~/.ssh/id_rsa", false).await;
}
