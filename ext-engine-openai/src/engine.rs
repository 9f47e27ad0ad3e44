//! The engine.

use std::fmt;

use haft_api::{
    EngineRequest, EngineStream, Error, ErrorKind, ExtensionId, InferenceEngine, ModelInfo,
    Readiness, Result, async_trait,
};
use haft_engine_http::tool_names::ToolNames;
use haft_engine_http::{ModelList, Transport};

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
    listed: ModelList,
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
    /// [`ErrorKind::InvalidInput`], naming the setting that isn't right.
    pub fn new(id: ExtensionId, config: OpenAiConfig) -> Result<Self> {
        let (transport, provider) = transport(&config).map_err(|e| e.context("engine", &id))?;
        let encoder = Encoder::new(&config, provider, transport.host());
        Ok(Self {
            id,
            config,
            transport,
            encoder,
            listed: ModelList::new("after"),
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
    /// [`ErrorKind::InvalidInput`] for options that JSON can't carry.
    pub fn body(&self, request: &EngineRequest, model: &str) -> Result<Vec<u8>> {
        self.encoder.body(request, model)
    }

    fn describe(
        &self,
        operation: &'static str,
    ) -> impl Fn(Error) -> Error + Send + 'static + use<> {
        self.transport.describe(&self.id, operation)
    }

    /// Whether it is OpenAI's own API.
    fn is_openai(&self) -> bool {
        Provider::of(self.transport.host()) == Provider::OpenAi
    }

    /// The model where a request names none.
    async fn default_model(&self) -> Result<String> {
        if let Some(model) = &self.config.model {
            return Ok(model.clone());
        }
        if self.is_openai() {
            return Ok(models::OPENAI_DEFAULT.to_owned());
        }
        // Boxed, for it is large and rare: every request would carry its room.
        let listed = Box::pin(self.listed.kept(&self.transport)).await?;
        let first = listed.first().map(|model| model.name.clone());
        first.ok_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                "the server lists no model: load one there, or name one",
            )
        })
    }

    /// Adds what is known of a model from elsewhere.
    fn complete(&self, mut info: ModelInfo) -> ModelInfo {
        if self.is_openai() {
            models::complete_openai(&mut info);
        }
        if let Some(known) = self.config.models.iter().find(|m| m.name == info.name) {
            known.apply(&mut info);
        }
        info
    }
}

#[async_trait]
impl InferenceEngine for OpenAiEngine {
    fn id(&self) -> &ExtensionId {
        &self.id
    }

    /// OpenAI's own API is ready once there is a key. Any other server is asked
    /// whether it is there.
    async fn readiness(&self) -> Readiness {
        if let Some(reason) = self.transport.missing_key() {
            return Readiness::Unavailable { reason };
        }
        if self.is_openai() {
            return Readiness::Ready;
        }
        self.transport.readiness().await
    }

    /// The default model, those of the settings, and those that the server
    /// lists if it can be reached.
    async fn models(&self) -> Result<Vec<ModelInfo>> {
        let listed = self.listed.fresh(&self.transport).await;
        let default = self.config.model.as_deref().or_else(|| {
            let openai = self.is_openai();
            openai.then_some(models::OPENAI_DEFAULT)
        });
        let configured = self.config.models.iter().map(|model| model.name.as_str());
        let mut names: Vec<&str> = Vec::new();
        let mut all = Vec::new();
        let known: Vec<&str> = default.into_iter().chain(configured).collect();
        if let (true, Err(error)) = (known.is_empty(), &listed) {
            return Err(self.describe("models")(Error::from(error.to_data())));
        }
        let listed = listed.unwrap_or_default();
        for name in known {
            if !names.contains(&name) {
                names.push(name);
                let info = listed.iter().find(|info| info.name == name);
                all.push(info.cloned().unwrap_or_else(|| ModelInfo::new(name)));
            }
        }
        let rest = listed.iter().filter(|info| !names.contains(&&*info.name));
        all.extend(rest.cloned());
        Ok(all.into_iter().map(|info| self.complete(info)).collect())
    }

    async fn model(&self, name: Option<&str>) -> Result<ModelInfo> {
        let name = match name {
            Some(name) => name.to_owned(),
            None => self.default_model().await.map_err(self.describe("model"))?,
        };
        let known = self.config.models.iter().any(|model| model.name == name);
        // What the settings or the table know needs no question to the server.
        if known || self.is_openai() {
            return Ok(self.complete(ModelInfo::new(name)));
        }
        // A server without a list may still have the model.
        let listed = self.listed.kept(&self.transport).await.unwrap_or_default();
        let info = listed.iter().find(|info| info.name == name);
        Ok(self.complete(info.cloned().unwrap_or_else(|| ModelInfo::new(name))))
    }

    async fn stream_turn(&self, request: EngineRequest) -> Result<EngineStream> {
        let prepare = async {
            let names = ToolNames::of(&request.tools)?;
            let model = match &request.model {
                Some(model) => model.clone(),
                None => self.default_model().await?,
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
