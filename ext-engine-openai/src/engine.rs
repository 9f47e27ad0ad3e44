//! The engine.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
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
use crate::stream::{form_of, receive, silent};
use crate::tool_names::ToolNames;
use crate::transport::Transport;

/// How long a server may take to say whether it is there.
const READINESS_TIME: Duration = Duration::from_secs(1);

/// How long a server may take to list its models.
const MODELS_TIME: Duration = Duration::from_secs(10);

/// Fields of the body that no setting may replace.
const OWN_FIELDS: [&str; 4] = ["messages", "model", "stream", "tools"];

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
#[derive(Debug)]
pub struct ChatEngine {
    id: ExtensionId,
    config: ChatConfig,
    transport: Transport,
    encode: Arc<EncodeSettings>,
    /// The first model of the server's list, where it had to be asked for.
    listed_default: Mutex<Option<String>>,
}

impl ChatEngine {
    /// An engine of this id. Does no I/O.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`], naming the setting that isn't right.
    pub fn new(id: ExtensionId, config: ChatConfig) -> Result<Self> {
        if let Some(field) = OWN_FIELDS
            .iter()
            .find(|field| config.extra_body.contains_key(**field))
        {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                format!("`extra_body` can't set `{field}`"),
            )
            .context("engine", id));
        }
        let transport = Transport::new(config.clone()).map_err(|e| e.context("engine", &id))?;
        let host = transport.endpoint.host();
        let max_tokens_field = match &config.max_tokens_field {
            Some(field) => Cow::Owned(field.clone()),
            None if transport.endpoint.is_openai() => Cow::Borrowed("max_completion_tokens"),
            None => Cow::Borrowed("max_tokens"),
        };
        let reasoning_field = match &config.reasoning_field {
            Some(field) if field.is_empty() => None,
            Some(field) => Some(Cow::Owned(field.clone())),
            None if wants_reasoning(host) => Some(Cow::Borrowed("reasoning_content")),
            None => None,
        };
        let encode = Arc::new(EncodeSettings {
            provider: host.to_owned(),
            max_tokens_field,
            reasoning_field,
            extra_body: config.extra_body.clone(),
        });
        Ok(Self {
            id,
            config,
            transport,
            encode,
            listed_default: Mutex::default(),
        })
    }

    /// The settings it was made with.
    pub fn config(&self) -> &ChatConfig {
        &self.config
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
        let listed = self.listed().clone();
        if let Some(model) = listed {
            return Ok(model);
        }
        let first = self.list().await?.into_iter().next();
        let model = first.ok_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                "the server lists no model: load one there, or name one",
            )
        })?;
        *self.listed() = Some(model.name.clone());
        Ok(model.name)
    }

    fn listed(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.listed_default
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The server's list of models.
    async fn list(&self) -> Result<Vec<ModelInfo>> {
        let list = async { models::read(self.transport.get_models().await?).await };
        tokio::time::timeout(MODELS_TIME, list)
            .await
            .unwrap_or_else(|_| {
                Err(Error::new(
                    ErrorKind::Timeout,
                    "the server didn't list its models in time",
                )
                .temporary())
            })
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

/// Providers whose models want their reasoning back within a turn.
fn wants_reasoning(host: &str) -> bool {
    matches!(
        host,
        "api.deepseek.com" | "api.moonshot.ai" | "api.moonshot.cn"
    )
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
        let listed = self.list().await.unwrap_or_default();
        let info = listed.into_iter().find(|info| info.name == name);
        Ok(self.complete(info.unwrap_or_else(|| ModelInfo::new(name))))
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
            let encoded = encode(&request, &model, &self.encode)?;
            // Its items may be large, and the answer takes its time.
            drop(request);
            if let Some(reason) = self.transport.missing_key() {
                return Err(Error::new(ErrorKind::Denied, reason));
            }
            let mut response = self.transport.post_chat(encoded.body).await?;
            let form = form_of(&mut response).await?;
            let decoder = ChatDecoder::new(names, &self.encode.provider);
            Ok((response, form, decoder))
        };
        let (response, form, decoder) = tokio::time::timeout(idle, start)
            .await
            .unwrap_or_else(|_| Err(silent(idle)))
            .map_err(&describe)?;
        Ok(receive(response, form, decoder, idle, asked_at, describe))
    }
}
