//! The engine.

use std::fmt;

use haft_api::{
    EngineRequest, EngineStream, Error, ExtensionId, InferenceEngine, ModelInfo, Readiness, Result,
    async_trait,
};
use haft_engine_http::tool_names::ToolNames;
use haft_engine_http::{Catalogue, ModelList, Transport};

use crate::config::OpenAiConfig;
use crate::models;
use crate::provider::Provider;
use crate::wire::Encoder;

/// An engine over one server that speaks Chat Completions or Responses.
///
/// Other engines that bring such a server of their own are built on it.
///
/// Dropping a stream, or the future that makes one, closes its connection.
/// Nothing is retried here: errors carry the status that says whether a retry
/// can help.
///
/// ```no_run
/// # async fn example() -> haft_api::Result<()> {
/// use haft_api::{ExtensionId, InferenceEngine};
/// use haft_ext_engine_openai::{OpenAiConfig, OpenAiEngine};
///
/// let mut config = OpenAiConfig::new("http://127.0.0.1:8080/v1");
/// config.model = Some("qwen".to_owned());
/// let engine = OpenAiEngine::new(ExtensionId::new("local")?, config)?;
/// println!("{:?}", engine.readiness().await);
/// # Ok(()) }
/// ```
pub struct OpenAiEngine {
    id: ExtensionId,
    config: OpenAiConfig,
    transport: Transport,
    encoder: Encoder,
    models: Catalogue,
}

impl fmt::Debug for OpenAiEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiEngine")
            .field("id", &self.id)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl OpenAiEngine {
    /// An engine of this id. Does no I/O.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](haft_api::ErrorKind::InvalidInput), naming the setting that isn't right.
    pub fn new(id: ExtensionId, config: OpenAiConfig) -> Result<Self> {
        let (transport, provider) = transport(&config).map_err(|e| e.context("engine", &id))?;
        let encoder = Encoder::new(&config, provider, transport.host());
        let mut models = Catalogue::new(ModelList::new("after"))
            .default_model(config.model.clone())
            .settings(config.models.clone());
        if provider == Provider::OpenAi {
            models = models
                .hosted(Some(models::OPENAI_DEFAULT))
                .by_name(models::complete_openai);
        }
        Ok(Self {
            id,
            config,
            transport,
            encoder,
            models,
        })
    }

    /// The settings it was made with.
    pub fn config(&self) -> &OpenAiConfig {
        &self.config
    }

    /// The body that a request for this model is sent with. Does no I/O.
    ///
    /// The same request gives the same bytes, and one with a longer history
    /// differs from that with a shorter one only behind the messages that both
    /// have.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](haft_api::ErrorKind::InvalidInput) for options that JSON can't carry.
    pub fn body(&self, request: &EngineRequest, model: &str) -> Result<Vec<u8>> {
        self.encoder.body(request, model)
    }

    fn describe(
        &self,
        operation: &'static str,
    ) -> impl Fn(Error) -> Error + Send + 'static + use<> {
        self.transport.describe(&self.id, operation)
    }
}

#[async_trait]
impl InferenceEngine for OpenAiEngine {
    fn id(&self) -> &ExtensionId {
        &self.id
    }

    /// OpenAI's own API is ready once there is a key. Any other server is asked whether
    /// it is there.
    async fn readiness(&self) -> Readiness {
        self.models.readiness(&self.transport).await
    }

    /// The default model, those of the settings, and those that the server
    /// lists if it can be reached.
    async fn models(&self) -> Result<Vec<ModelInfo>> {
        let models = self.models.all(&self.transport).await;
        models.map_err(self.describe("models"))
    }

    async fn model(&self, name: Option<&str>) -> Result<ModelInfo> {
        let model = self.models.model(&self.transport, name).await;
        model.map_err(self.describe("model"))
    }

    async fn stream_turn(&self, request: EngineRequest) -> Result<EngineStream> {
        let prepare = async {
            let names = ToolNames::of(&request.tools)?;
            let model = match &request.model {
                Some(model) => model.clone(),
                None => self.models.default_name(&self.transport).await?,
            };
            let body = self.body(&request, &model)?;
            // Its items may be large, and the answer takes its time.
            drop(request);
            Ok((body, self.encoder.decoder(names)))
        };
        self.transport
            .stream_turn(prepare, self.describe("stream_turn"))
            .await
    }
}

/// The way to the server, and who is behind it.
fn transport(config: &OpenAiConfig) -> Result<(Transport, Provider)> {
    config.check()?;
    let mut server = config.server();
    let provider = Provider::of(&server.host());
    server.key_header = provider.key_header();
    if provider == Provider::OpenAi {
        server.without_key = Some(
            "no key for api.openai.com: set `OPENAI_API_KEY`, or `api_key` in the engine's \
             settings",
        );
    }
    Ok((Transport::new(server)?, provider))
}
