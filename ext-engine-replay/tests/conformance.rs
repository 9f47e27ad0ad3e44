//! The engine against the suite that every engine has to pass.

use std::sync::Arc;

use haft_api::{Item, ToolName, ToolSpec, join_text};
use haft_ext_engine_replay::ReplayEngine;
use haft_testkit::EngineFixture;

const CALLING: &str = "Call the tool.";

haft_testkit::engine_conformance!(|| {
    let folder = tempfile::TempDir::new().unwrap();
    // All that an empty script says is "done".
    let talking = folder.path().join("talking.jsonl");
    std::fs::write(&talking, "").unwrap();
    let calling = folder.path().join("calling.jsonl");
    let call = r#"{"events":[{"type":"call","name":"look","arguments":{"at":"it"}}]}"#;
    std::fs::write(&calling, call).unwrap();

    let engine = ReplayEngine::new(Some(talking)).unwrap();
    let tool = ToolSpec::new(ToolName::new("look").unwrap(), "Looks at something.");
    EngineFixture::new(Arc::new(engine))
        .calling(CALLING, tool)
        .prepare(move |request| {
            let last = request.history.items().last().map(|item| &**item);
            if matches!(last, Some(Item::UserMessage { parts }) if join_text(parts) == CALLING) {
                request.model = Some(calling.to_string_lossy().into_owned());
            }
        })
        .keeping(folder)
});
