//! The engine suite passes on an honest engine.

use std::sync::Arc;

use haft_api::{Item, ToolName, ToolSpec, join_text};
use haft_testkit::{EngineFixture, Round, ScriptedEngine};

haft_testkit::engine_conformance!(|| {
    let engine = ScriptedEngine::new().answering(|request| {
        let asked = match request.history.items().last().map(|item| &**item) {
            Some(Item::UserMessage { parts }) => join_text(parts),
            _ => String::new(),
        };
        match asked.as_str() {
            "Call it." => Round::new().call("c1", request.tools[0].name.as_str(), "{}"),
            _ => Round::new().reasoning("hm").text("Hello.").usage(10, 2),
        }
    });
    let tool = ToolSpec::new(ToolName::new("some.tool").unwrap(), "A tool.");
    EngineFixture::new(Arc::new(engine)).calling("Call it.", tool)
});
