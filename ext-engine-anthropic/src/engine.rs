//! The engine.

use std::fmt;
use std::sync::Arc;

use haft_api::{
    EngineRequest, EngineStream, Error, ExtensionId, InferenceEngine, ModelInfo, Readiness, Result,
    async_trait,
};
use haft_engine_http::tool_names::ToolNames;
use haft_engine_http::{Catalogue, ModelList, Transport};

use crate::config::AnthropicConfig;
use crate::decode::{MessagesDecoder, MessagesRules};
use crate::encode::{EncodeSettings, encode};
use crate::models;

/// The host of Anthropic's own API.
pub(crate) const OWN_HOST: &str = "api.anthropic.com";

/// An engine over one server that speaks Messages.
///
/// Dropping a stream, or the future that makes one, closes its connection.
/// Nothing is retried here: errors carry the status that says whether a retry
/// can help.
///
/// ```no_run
/// # async fn example() -> haft_api::Result<()> {
/// use haft_api::{ExtensionId, InferenceEngine};
/// use haft_ext_engine_anthropic::{AnthropicConfig, AnthropicEngine};
///
/// let mut config = AnthropicConfig::default();
/// config.api_key_env = Some("ANTHROPIC_API_KEY".to_owned());
/// let engine = AnthropicEngine::new(ExtensionId::new("anthropic")?, config)?;
/// println!("{:?}", engine.readiness().await);
/// # Ok(()) }
/// ```
pub struct AnthropicEngine {
    id: ExtensionId,
    config: AnthropicConfig,
    transport: Transport,
    encode: Arc<EncodeSettings>,
    models: Catalogue,
}

impl fmt::Debug for AnthropicEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnthropicEngine")
            .field("id", &self.id)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl AnthropicEngine {
    /// An engine of this id. Does no I/O.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](haft_api::ErrorKind::InvalidInput), naming the setting that isn't right.
    pub fn new(id: ExtensionId, config: AnthropicConfig) -> Result<Self> {
        let transport = config
            .check()
            .and_then(|()| Transport::new(config.server()))
            .map_err(|e| e.context("engine", &id))?;
        let encode = Arc::new(EncodeSettings {
            provider: provider(transport.host()),
            max_tokens: config.max_tokens,
            cache: config.cache,
            extra_body: config.extra_body.clone(),
        });
        let mut models = Catalogue::new(ModelList::new("after_id"))
            .default_model(config.model.clone())
            .settings(config.models.clone())
            .by_name(models::complete);
        if transport.host() == OWN_HOST {
            models = models.hosted(Some(models::DEFAULT));
        }
        Ok(Self {
            id,
            config,
            transport,
            encode,
            models,
        })
    }

    /// The settings it was made with.
    pub fn config(&self) -> &AnthropicConfig {
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
        Ok(encode(request, model, &self.encode)?.body)
    }

    fn describe(
        &self,
        operation: &'static str,
    ) -> impl Fn(Error) -> Error + Send + 'static + use<> {
        self.transport.describe(&self.id, operation)
    }
}

/// Whose state the items of this wire bear.
fn provider(host: &str) -> String {
    format!("{host}/messages")
}

#[async_trait]
impl InferenceEngine for AnthropicEngine {
    fn id(&self) -> &ExtensionId {
        &self.id
    }

    /// Anthropic's own API is ready once there is a key. Any other server is asked
    /// whether it is there.
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
            let rules = MessagesRules::new(names, self.encode.provider.clone());
            Ok((body, MessagesDecoder::new(rules)))
        };
        self.transport
            .stream_turn(prepare, self.describe("stream_turn"))
            .await
    }
}
