//! The engine against a server that does all that real ones do.

mod answers;
mod connections;
mod faults;
mod models;
mod proxy;
mod requests;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use haft_api::{
    EngineEvent, EngineRequest, EngineStream, Error, ErrorKind, ExtensionId, FinishReason, History,
    InferenceEngine, Item, Result, ThreadId, TurnId,
};
use haft_ext_engine_openai::{OpenAiConfig, OpenAiEngine};
use haft_testkit::loopback::{Answer, LoopbackServer};

/// Far more than anything here takes, on however busy a machine.
const LONG: Duration = Duration::from_secs(60);

const HELLO: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"}}]}\n\n";
const STOP: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";

fn engine(base_url: &str, change: impl FnOnce(&mut OpenAiConfig)) -> OpenAiEngine {
    let mut config = OpenAiConfig::new(base_url);
    config.model = Some("m".to_owned());
    change(&mut config);
    OpenAiEngine::new(ExtensionId::new("test").unwrap(), config).unwrap()
}

fn request() -> EngineRequest {
    EngineRequest::new(
        ThreadId::new("t").unwrap(),
        TurnId::new("u").unwrap(),
        History::new(1, vec![Arc::new(Item::user("hi"))]),
    )
}

/// What came of a round.
#[derive(Debug, Default)]
struct Heard {
    text: String,
    finished: Option<FinishReason>,
    error: Option<Error>,
}

impl Heard {
    #[track_caller]
    fn fails(&self, text: &str, kind: ErrorKind, temporary: bool, says: &[&str]) {
        let error = self
            .error
            .as_ref()
            .unwrap_or_else(|| panic!("no error: {self:?}"));
        assert_eq!(self.text, text, "{error}");
        assert_eq!(self.finished, None, "{error}");
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(error.is_temporary(), temporary, "{error}");
        assert_eq!(error.operation_name(), Some("stream_turn"), "{error}");
        assert_eq!(error.context_value("engine"), Some("test"), "{error}");
        assert!(error.context_value("url").is_some(), "{error}");
        for part in says {
            assert!(error.to_string().contains(part), "{error}: no {part:?}");
        }
    }

    #[track_caller]
    fn ends(&self, text: &str) {
        assert!(self.error.is_none(), "{self:?}");
        assert_eq!(self.text, text);
        assert_eq!(self.finished, Some(FinishReason::End));
    }
}

async fn hear(stream: Result<EngineStream>) -> Heard {
    let mut heard = Heard::default();
    let mut stream = match stream {
        Ok(stream) => stream,
        Err(error) => {
            heard.error = Some(error);
            return heard;
        }
    };
    while let Some(event) = stream.next().await {
        assert!(
            heard.finished.is_none() && heard.error.is_none(),
            "{event:?} after the end"
        );
        match event {
            Ok(EngineEvent::TextDelta { text }) => heard.text.push_str(&text),
            Ok(EngineEvent::Finished { reason }) => heard.finished = Some(reason),
            Ok(_) => {}
            Err(error) => heard.error = Some(error),
        }
    }
    heard
}

async fn round(engine: &OpenAiEngine) -> Heard {
    tokio::time::timeout(LONG, async {
        hear(engine.stream_turn(request()).await).await
    })
    .await
    .expect("a round that never ends")
}

/// A round with a server that gives this answer.
async fn with(answer: Answer) -> Heard {
    let server = LoopbackServer::start(vec![answer]).await;
    round(&engine(server.base_url(), |_| ())).await
}
