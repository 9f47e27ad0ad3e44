//! The suites of the test kit for tools, sources and engines, through the
//! boundary. Those for runners and stores are beside those traits' own tests.

use std::sync::Arc;

use haft_api::{OutputChannel, ToolSpec};
use haft_testkit::{
    BatchSource, EchoTool, EngineFixture, Outcome, OutputTool, Round, ScriptedEngine,
    SourceFixture, ToolFixture, Tools, engine_suite, fixture, run_all,
};

mod support;

use support::Loaded;

mod tools {
    use super::*;

    haft_testkit::tool_conformance!(|| {
        let loaded = Loaded::in_process(|registry| {
            let tools = Tools::new()
                .with(EchoTool::new("echo"))
                .with(OutputTool::new(
                    "print",
                    [(OutputChannel::Stdout, "some output")],
                ));
            registry.tools(Arc::new(tools));
        });
        let contributor = Arc::clone(&loaded.registry.tools()[0].part);
        ToolFixture::new(contributor)
            .example("echo", r#"{"text":"hello"}"#)
            .example("print", "{}")
            .keeping(loaded)
    });
}

mod sources {
    use super::*;

    haft_testkit::tool_source_conformance!(|| {
        let loaded = Loaded::in_process(|registry| {
            let source = BatchSource::new("search")
                .tool("find", Outcome::text("found it"))
                .tool("hang", Outcome::Stalled);
            registry.tool_source(Arc::new(source));
        });
        let source = Arc::clone(&loaded.registry.tool_sources()[0].part);
        SourceFixture::new(source)
            .example("find", r#"{"what":"it"}"#)
            .slow("hang", "{}")
            .keeping(loaded)
    });
}

mod engines {
    use super::*;

    haft_testkit::engine_conformance!(|| {
        let loaded = Loaded::in_process(|registry| {
            let engine = ScriptedEngine::new().afterwards(Round::new().text("Hello."));
            registry.engine(Arc::new(engine));
        });
        let engine = Arc::clone(&loaded.registry.engines()[0].part);
        EngineFixture::new(engine).keeping(loaded)
    });

    fn calling() -> EngineFixture {
        let loaded = Loaded::in_process(|registry| {
            let call = Round::new().call("c1", "look_up", r#"{"what":"it"}"#);
            registry.engine(Arc::new(ScriptedEngine::new().afterwards(call)));
        });
        let engine = Arc::clone(&loaded.registry.engines()[0].part);
        let tool = ToolSpec::new(fixture::tool_name("look_up"), "Looks something up");
        EngineFixture::new(engine)
            .calling("Look it up.", tool)
            .keeping(loaded)
    }

    #[tokio::test]
    async fn a_call_comes_whole() {
        let suite = engine_suite(calling);
        let called = suite
            .into_iter()
            .filter(|case| case.name().contains("call"));
        let report = run_all(called.collect()).await;
        assert!(!report.lines.is_empty());
        report.assert_kept();
        assert_eq!(report.skipped(), [""; 0]);
    }
}
