//! The engine.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haft_api::{
    EngineRequest, EngineStream, Error, ErrorKind, ExtensionId, InferenceEngine, ModelInfo,
    Readiness, Result, async_trait,
};
use tokio::time::Instant;

use crate::config::ChatConfig;
use crate::decode::ChatDecoder;
use crate::encode::{EncodeSettings, encode};
use crate::endpoint::shown;
use crate::models;
use crate::provider::Provider;
use crate::stream::{check_head, receive, silent};
use crate::tool_names::ToolNames;
use crate::transport::Transport;

/// How long a server may take to say whether it is there.
const READINESS_TIME: Duration = Duration::from_secs(1);

/// How long a server may take to list its models.
const MODELS_TIME: Duration = Duration::from_secs(10);

/// How long a server's list of models is taken to be right.
const MODELS_KEPT: Duration = Duration::from_secs(60);

/// An engine over one server that speaks Chat Completions.
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
/// use haft_ext_engine_openai::{ChatConfig, ChatEngine};
///
/// let mut config = ChatConfig::new("http://127.0.0.1:8080/v1");
/// config.model = Some("qwen".to_owned());
/// let engine = ChatEngine::new(ExtensionId::new("local")?, config)?;
/// println!("{:?}", engine.readiness().await);
/// # Ok(()) }
/// ```
pub struct ChatEngine {
    id: ExtensionId,
    config: ChatConfig,
    transport: Transport,
    encode: Arc<EncodeSettings>,
    /// The server's list of models, and when it was asked for.
    listed: Mutex<Option<(Instant, Arc<[ModelInfo]>)>>,
}

impl fmt::Debug for ChatEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatEngine")
            .field("id", &self.id)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl ChatEngine {
    /// An engine of this id. Does no I/O.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`], naming the setting that isn't right.
    pub fn new(id: ExtensionId, config: ChatConfig) -> Result<Self> {
        let transport = config
            .check()
            .and_then(|()| Transport::new(config.clone()))
            .map_err(|e| e.context("engine", &id))?;
        let provider = Provider::of(transport.endpoint.host());
        let mut extra_body = config.extra_body.clone();
        if provider.refuses_stream_options() {
            extra_body
                .entry("stream_options")
                .or_insert(serde_json::Value::Null);
        }
        let max_tokens_field = match &config.max_tokens_field {
            Some(field) => Cow::Owned(field.clone()),
            None => Cow::Borrowed(provider.max_tokens_field()),
        };
        let reasoning_field = match &config.reasoning_field {
            Some(field) if field.is_empty() => None,
            Some(field) => Some(Cow::Owned(field.clone())),
            None => provider.reasoning_field().map(Cow::Borrowed),
        };
        let encode = Arc::new(EncodeSettings {
            provider: transport.endpoint.host().to_owned(),
            max_tokens_field,
            reasoning_field,
            short_call_ids: provider.wants_short_call_ids(),
            extra_body,
        });
        Ok(Self {
            id,
            config,
            transport,
            encode,
            listed: Mutex::default(),
        })
    }

    /// The settings it was made with.
    pub fn config(&self) -> &ChatConfig {
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

    fn describe(&self, operation: &str) -> impl Fn(Error) -> Error + Send + 'static + use<> {
        let (id, url) = (self.id.clone(), shown(&self.config.base_url));
        let operation = operation.to_owned();
        move |error: Error| {
            let error = error.operation(operation.clone()).context("engine", &id);
            match error.context_value("url") {
                Some(_) => error,
                None => error.context("url", &url),
            }
        }
    }

    /// The model where a request names none.
    async fn default_model(&self) -> Result<String> {
        if let Some(model) = &self.config.model {
            return Ok(model.clone());
        }
        if self.transport.endpoint.is_openai() {
            return Ok(models::OPENAI_DEFAULT.to_owned());
        }
        let listed = self.kept_list().await?;
        let first = listed.first().map(|model| model.name.clone());
        first.ok_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                "the server lists no model: load one there, or name one",
            )
        })
    }

    fn listed(&self) -> MutexGuard<'_, Option<(Instant, Arc<[ModelInfo]>)>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server's list of models, as it was not long ago.
    async fn kept_list(&self) -> Result<Arc<[ModelInfo]>> {
        let kept = self.listed().clone();
        match kept {
            Some((at, models)) if at.elapsed() < MODELS_KEPT => Ok(models),
            _ => self.list().await,
        }
    }

    /// The server's list of models, as it is now.
    async fn list(&self) -> Result<Arc<[ModelInfo]>> {
        if let Some(reason) = self.transport.missing_key() {
            return Err(Error::new(ErrorKind::Denied, reason));
        }
        let list = async { models::read(self.transport.get_models().await?).await };
        let models = tokio::time::timeout(MODELS_TIME, list)
            .await
            .unwrap_or_else(|_| {
                Err(Error::new(
                    ErrorKind::Timeout,
                    "the server didn't list its models in time",
                )
                .temporary())
            })?;
        let models: Arc<[ModelInfo]> = models.into();
        *self.listed() = Some((Instant::now(), Arc::clone(&models)));
        Ok(models)
    }

    /// Adds what is known of a model from elsewhere.
    fn complete(&self, mut info: ModelInfo) -> ModelInfo {
        if self.transport.endpoint.is_openai() {
            models::complete_openai(&mut info);
        }
        if let Some(known) = self.config.models.iter().find(|m| m.name == info.name) {
            known.apply(&mut info);
        }
        info
    }
}

#[async_trait]
impl InferenceEngine for ChatEngine {
    fn id(&self) -> &ExtensionId {
        &self.id
    }

    /// OpenAI's own API is ready once there is a key. Any other server is asked
    /// whether it is there.
    async fn readiness(&self) -> Readiness {
        if let Some(reason) = self.transport.missing_key() {
            return Readiness::Unavailable { reason };
        }
        if self.transport.endpoint.is_openai() {
            return Readiness::Ready;
        }
        let url = shown(&self.config.base_url);
        let reason = match tokio::time::timeout(READINESS_TIME, self.transport.get_models()).await {
            Ok(Ok(_)) => return Readiness::Ready,
            // It is there, and just doesn't list models.
            Ok(Err(e)) if e.kind() == ErrorKind::NotFound => return Readiness::Ready,
            Ok(Err(e)) => format!("{url}: {}", e.message()),
            Err(_) => format!("{url}: no answer within a second"),
        };
        Readiness::Unavailable { reason }
    }

    /// The default model, those of the settings, and those that the server
    /// lists if it can be reached.
    async fn models(&self) -> Result<Vec<ModelInfo>> {
        let listed = self.list().await;
        let default = self.config.model.as_deref().or_else(|| {
            let openai = self.transport.endpoint.is_openai();
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
        if known || self.transport.endpoint.is_openai() {
            return Ok(self.complete(ModelInfo::new(name)));
        }
        // A server without a list may still have the model.
        let listed = self.kept_list().await.unwrap_or_default();
        let info = listed.iter().find(|info| info.name == name);
        Ok(self.complete(info.cloned().unwrap_or_else(|| ModelInfo::new(name))))
    }

    async fn stream_turn(&self, request: EngineRequest) -> Result<EngineStream> {
        let describe = self.describe("stream_turn");
        let asked_at = Instant::now();
        let idle = Duration::from_millis(self.config.idle_timeout_ms);
        let start = async {
            let names = ToolNames::of(&request.tools)?;
            let model = match &request.model {
                Some(model) => model.clone(),
                None => self.default_model().await?,
            };
            let body = self.body(&request, &model)?;
            // Its items may be large, and the answer takes its time.
            drop(request);
            if let Some(reason) = self.transport.missing_key() {
                return Err(Error::new(ErrorKind::Denied, reason));
            }
            let mut response = self.transport.post_chat(body).await?;
            check_head(&mut response).await?;
            let decoder = ChatDecoder::new(names, &self.encode.provider);
            Ok((response, decoder))
        };
        let (response, decoder) = tokio::time::timeout(idle, start)
            .await
            .unwrap_or_else(|_| Err(silent(idle)))
            .map_err(&describe)?;
        Ok(receive(response, decoder, idle, asked_at, describe))
    }
}
