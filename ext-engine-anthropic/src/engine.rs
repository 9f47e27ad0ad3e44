//! The engine.

use std::fmt;
use std::sync::Arc;

use haft_api::{
    EngineRequest, EngineStream, Error, ErrorKind, ExtensionId, InferenceEngine, ModelInfo,
    Readiness, Result, async_trait,
};
use haft_engine_http::tool_names::ToolNames;
use haft_engine_http::{ModelList, Transport};

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
    listed: ModelList,
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
    /// [`ErrorKind::InvalidInput`], naming the setting that isn't right.
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
        Ok(Self {
            id,
            config,
            transport,
            encode,
            listed: ModelList::new("after_id"),
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
    /// [`ErrorKind::InvalidInput`] for options that JSON can't carry.
    pub fn body(&self, request: &EngineRequest, model: &str) -> Result<Vec<u8>> {
        Ok(encode(request, model, &self.encode)?.body)
    }

    fn describe(
        &self,
        operation: &'static str,
    ) -> impl Fn(Error) -> Error + Send + 'static + use<> {
        self.transport.describe(&self.id, operation)
    }

    /// Whether it is Anthropic's own API.
    fn is_own(&self) -> bool {
        self.transport.host() == OWN_HOST
    }

    /// The model where a request names none, as far as it is known here.
    fn known_default(&self) -> Option<&str> {
        let own = self.is_own().then_some(models::DEFAULT);
        self.config.model.as_deref().or(own)
    }

    async fn default_model(&self) -> Result<String> {
        if let Some(model) = self.known_default() {
            return Ok(model.to_owned());
        }
        let listed = self.listed.kept(&self.transport).await?;
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
        models::complete(&mut info);
        if let Some(known) = self.config.models.iter().find(|m| m.name == info.name) {
            known.apply(&mut info);
        }
        info
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

    /// Anthropic's own API is ready once there is a key. Any other server is
    /// asked whether it is there.
    async fn readiness(&self) -> Readiness {
        if let Some(reason) = self.transport.missing_key() {
            return Readiness::Unavailable { reason };
        }
        if self.is_own() {
            return Readiness::Ready;
        }
        self.transport.readiness().await
    }

    /// The default model, those of the settings, and those that the server
    /// lists if it can be reached.
    async fn models(&self) -> Result<Vec<ModelInfo>> {
        let configured = self.config.models.iter().map(|model| model.name.as_str());
        let known: Vec<&str> = self.known_default().into_iter().chain(configured).collect();
        let listed = match self.listed.fresh(&self.transport).await {
            Ok(listed) => listed,
            Err(error) if known.is_empty() => return Err(self.describe("models")(error)),
            Err(_) => Arc::default(),
        };
        let mut all: Vec<ModelInfo> = Vec::new();
        let listed_names = listed.iter().map(|info| &*info.name);
        for name in known.into_iter().chain(listed_names) {
            if !all.iter().any(|info| info.name == name) {
                let info = listed.iter().find(|info| info.name == name);
                let info = info.cloned().unwrap_or_else(|| ModelInfo::new(name));
                all.push(self.complete(info));
            }
        }
        Ok(all)
    }

    async fn model(&self, name: Option<&str>) -> Result<ModelInfo> {
        let name = match name {
            Some(name) => name.to_owned(),
            None => self.default_model().await.map_err(self.describe("model"))?,
        };
        let known = self.config.models.iter().any(|model| model.name == name);
        // What the settings or the table know needs no question to the server.
        if known || self.is_own() {
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
            let rules = MessagesRules::new(names, self.encode.provider.clone());
            Ok((body, MessagesDecoder::new(rules)))
        };
        self.transport
            .stream_turn(prepare, self.describe("stream_turn"))
            .await
    }
}
