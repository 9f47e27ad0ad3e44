//! The engines against the suite that every engine has to pass, over a server
//! that refuses every request that the wire's own provider would refuse.

use std::sync::Arc;

use haft_api::{ExtensionId, InferenceEngine, ToolName, ToolSpec};
use haft_ext_engine_anthropic::{AnthropicConfig, AnthropicEngine};
use haft_ext_engine_openai::{OpenAiConfig, OpenAiEngine, Wire};
use haft_testkit::EngineFixture;

use crate::provider::{CALLING, Server};

fn fixture(engine: Arc<dyn InferenceEngine>, server: Server) -> EngineFixture {
    let tool = ToolSpec::new(ToolName::new("world.look").unwrap(), "Looks at something.");
    EngineFixture::new(engine)
        .calling(CALLING, tool)
        .keeping(server)
}

fn openai(wire: Wire) -> EngineFixture {
    let server = Server::start();
    let mut config = OpenAiConfig::new(&server.base_url);
    config.wire = Some(wire);
    let engine = OpenAiEngine::new(ExtensionId::new("test").unwrap(), config).unwrap();
    fixture(Arc::new(engine), server)
}

mod chat {
    haft_testkit::engine_conformance!(|| crate::conformance::openai(
        haft_ext_engine_openai::Wire::Chat
    ));
}

mod responses {
    haft_testkit::engine_conformance!(|| crate::conformance::openai(
        haft_ext_engine_openai::Wire::Responses
    ));
}

mod messages {
    haft_testkit::engine_conformance!(crate::conformance::anthropic);
}

fn anthropic() -> EngineFixture {
    let server = Server::start();
    let config = AnthropicConfig::new(&server.base_url);
    let engine = AnthropicEngine::new(ExtensionId::new("test").unwrap(), config).unwrap();
    fixture(Arc::new(engine), server)
}
