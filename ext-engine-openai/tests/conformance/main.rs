//! The engine against the suite that every engine has to pass, with a server
//! that refuses every request that OpenAI's own API would refuse.

mod rules;
mod server;

use std::sync::Arc;

use haft_api::{ExtensionId, ToolName, ToolSpec};
use haft_ext_engine_openai::{OpenAiConfig, OpenAiEngine};
use haft_testkit::EngineFixture;
use server::{CALLING, Server};

haft_testkit::engine_conformance!(|| {
    let server = Server::start();
    let config = OpenAiConfig::new(&server.base_url);
    let engine = OpenAiEngine::new(ExtensionId::new("test").unwrap(), config).unwrap();
    let tool = ToolSpec::new(ToolName::new("world.look").unwrap(), "Looks at something.");
    EngineFixture::new(Arc::new(engine))
        .calling(CALLING, tool)
        .keeping(server)
});
