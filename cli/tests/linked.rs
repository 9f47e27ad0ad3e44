//! What the features promise is what a program gets.

use haft::{ErrorKind, ExtensionConfig};

/// Extensions by the feature that promises them, sorted.
fn promised() -> Vec<&'static str> {
    let features = [
        ("engine-anthropic", cfg!(feature = "engine-anthropic")),
        ("engine-local", cfg!(feature = "engine-local")),
        ("engine-openai", cfg!(feature = "engine-openai")),
        ("engine-replay", cfg!(feature = "engine-replay")),
        ("lua", cfg!(feature = "lua")),
        ("quickjs", cfg!(feature = "quickjs")),
        ("runner-local", cfg!(feature = "runner-local")),
        ("runner-ssh", cfg!(feature = "runner-ssh")),
        ("store-jsonl", cfg!(feature = "store-jsonl")),
        ("store-postgres", cfg!(feature = "store-postgres")),
        ("tools-coding", cfg!(feature = "tools-coding")),
    ];
    let chosen = features.iter().filter(|(_, on)| *on);
    chosen.map(|(name, _)| *name).collect()
}

fn ids(builder: &haft::Builder) -> Vec<String> {
    let manifests = builder.manifests().unwrap();
    manifests.iter().map(|m| m.id.to_string()).collect()
}

#[test]
fn every_promised_extension_is_linked_and_no_other() {
    assert_eq!(ids(&haft::builder()), promised());
    let registry = haft::builder().build().unwrap();
    let registered: Vec<_> = registry.manifests().iter().map(|m| m.id.as_str()).collect();
    assert_eq!(registered, promised());
}

#[test]
fn an_extension_can_be_left_out() {
    for left_out in promised() {
        let builder = haft::builder().without(left_out);
        let rest: Vec<_> = promised()
            .into_iter()
            .filter(|id| *id != left_out)
            .collect();
        assert_eq!(ids(&builder), rest);
    }
}

#[test]
fn settings_reach_their_extension_and_no_other() {
    let wrong = || ExtensionConfig::from_json(r#"{"no_such_setting":1}"#).unwrap();
    for id in promised() {
        let error = haft::builder().configure(id, wrong()).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{id}");
        let text = error.to_string();
        assert!(
            text.contains(id) && text.contains("no_such_setting"),
            "{text}"
        );
    }
    let error = haft::builder()
        .configure("engine-x", wrong())
        .build()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(error.context_value("extension"), Some("engine-x"));
}
