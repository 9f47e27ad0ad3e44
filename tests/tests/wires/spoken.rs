//! How servers speak the three wires, and a round with them.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use haft_api::{
    EngineEvent, EngineRequest, Error, ErrorKind, ExtensionId, FinishReason, History,
    InferenceEngine, Item, ThreadId, TurnId,
};
use haft_ext_engine_anthropic::{AnthropicConfig, AnthropicEngine};
use haft_ext_engine_openai::{OpenAiConfig, OpenAiEngine, Wire};
use haft_testkit::loopback::{Step, head};

/// Far more than anything here takes, on however busy a machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A wire, as its server speaks it.
pub(crate) struct Spoken {
    pub(crate) name: &'static str,
    pub(crate) path: &'static str,
    /// Makes its engine over a URL; the number is `idle_timeout_ms`.
    pub(crate) engine: fn(&str, u64) -> Arc<dyn InferenceEngine>,
    pub(crate) hello: &'static str,
    /// All that comes behind the text of a good answer.
    pub(crate) rest: &'static str,
    /// What a server says that is overloaded after all.
    pub(crate) overloaded: &'static str,
    pub(crate) ping: &'static str,
}

pub(crate) const WIRES: [Spoken; 3] = [
    Spoken {
        name: "chat",
        path: "/v1/chat/completions",
        engine: |url, idle| openai(url, Wire::Chat, idle),
        hello: "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"}}]}\n\n",
        rest: "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
               data: [DONE]\n\n",
        overloaded: "data: {\"error\":{\"message\":\"Overloaded\",\"code\":503}}\n\n",
        ping: ": ping\n\n",
    },
    Spoken {
        name: "responses",
        path: "/v1/responses",
        engine: |url, idle| openai(url, Wire::Responses, idle),
        hello: "data: {\"type\":\"response.output_text.delta\",\"delta\":\"hello\"}\n\n",
        rest: "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\n\n",
        overloaded: "data: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"Overloaded\"}\n\n",
        ping: "event: keepalive\ndata: {\"type\":\"keepalive\"}\n\n",
    },
    Spoken {
        name: "messages",
        path: "/v1/messages",
        engine: |url, idle| {
            let mut config = AnthropicConfig::new(url);
            config.model = Some("m".to_owned());
            config.idle_timeout_ms = idle;
            let id = ExtensionId::new("test").unwrap();
            Arc::new(AnthropicEngine::new(id, config).unwrap())
        },
        hello: "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":\
                {\"type\":\"text_delta\",\"text\":\"hello\"}}\n\n",
        rest: "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n\
               data: {\"type\":\"message_stop\"}\n\n",
        overloaded: "event: error\ndata: {\"type\":\"error\",\"error\":\
                     {\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
        ping: "event: ping\ndata: {\"type\":\"ping\"}\n\n",
    },
];

fn openai(url: &str, wire: Wire, idle: u64) -> Arc<dyn InferenceEngine> {
    let mut config = OpenAiConfig::new(url);
    config.wire = Some(wire);
    config.model = Some("m".to_owned());
    config.idle_timeout_ms = idle;
    let id = ExtensionId::new("test").unwrap();
    Arc::new(OpenAiEngine::new(id, config).unwrap())
}

pub(crate) fn request() -> EngineRequest {
    EngineRequest::new(
        ThreadId::new("t").unwrap(),
        TurnId::new("u").unwrap(),
        History::new(1, vec![Arc::new(Item::user("hi"))]),
    )
}

/// The text of a round, and how it ended.
pub(crate) async fn round(
    engine: &Arc<dyn InferenceEngine>,
) -> (String, Result<FinishReason, Error>) {
    let heard = async {
        let mut text = String::new();
        let mut stream = match engine.stream_turn(request()).await {
            Ok(stream) => stream,
            Err(error) => return (text, Err(error)),
        };
        let mut ended = None;
        while let Some(event) = stream.next().await {
            assert!(ended.is_none(), "{event:?} after the end");
            match event {
                Ok(EngineEvent::TextDelta { text: more }) => text += &more,
                Ok(EngineEvent::Finished { reason }) => ended = Some(Ok(reason)),
                Ok(_) => {}
                Err(error) => ended = Some(Err(error)),
            }
        }
        (text, ended.expect("a stream that just stops"))
    };
    tokio::time::timeout(LONG, heard)
        .await
        .expect("a round that never ends")
}

/// How long a model may be silent in a test of this failure, in milliseconds: not
/// long where silence is what is tried, and else longer than a busy machine needs
/// for anything.
pub(crate) fn idle_for(failure: ErrorKind) -> u64 {
    match failure {
        ErrorKind::Timeout => 1_500,
        _ => 30_000,
    }
}

/// The head of a stream.
pub(crate) fn stream() -> Step {
    head("text/event-stream")
}
