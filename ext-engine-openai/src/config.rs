//! What a Chat Completions engine is told about its server.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use haft_api::{Error, ErrorKind, ModelInfo, Result};
use serde::Deserialize;

/// Where OpenAI's own API is.
pub const OPENAI_BASE_URL: &str = "https://api.openai.com/v1";

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// Fields of the body that no setting may replace.
const OWN_FIELDS: [&str; 4] = ["messages", "model", "stream", "tools"];

/// The settings of a [`ChatEngine`](crate::ChatEngine), and of the extension.
///
/// Nothing is read from anywhere else: neither environment variables (but for
/// the one that [`api_key_env`](Self::api_key_env) names) nor proxy settings of
/// the system.
///
/// ```
/// use haft_ext_engine_openai::ChatConfig;
///
/// let mut config = ChatConfig::new("http://127.0.0.1:8080/v1");
/// config.idle_timeout_ms = 600_000;
/// ```
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ChatConfig {
    /// Where the server's API begins: what `/chat/completions` is appended to.
    /// A query (`?api-version=…`) is kept. By default [`OPENAI_BASE_URL`].
    pub base_url: String,
    /// The key, sent as `Authorization: Bearer …`. Servers without one get no
    /// such header.
    pub api_key: Option<String>,
    /// The environment variable that holds the key, where `api_key` is not set.
    pub api_key_env: Option<String>,
    /// Further headers; they win over those the engine sets itself.
    pub headers: BTreeMap<String, String>,
    /// Further fields of a request's body. They win over those the engine sets
    /// itself; `null` takes such a field out, for servers that refuse it. The
    /// fields `model`, `messages`, `tools` and `stream` can't be set.
    pub extra_body: serde_json::Map<String, serde_json::Value>,
    /// The model where a request names none. Without one, OpenAI's own API has
    /// a default, and any other server is asked for its list and the first
    /// model of it taken.
    pub model: Option<String>,
    /// What is known of models, which a server doesn't tell.
    pub models: Vec<ModelSettings>,
    /// Milliseconds until a connection must stand, at most a day.
    pub connect_timeout_ms: u64,
    /// Milliseconds that the model may say nothing: from the request until its
    /// first event, and between two events; at most a day. Keep-alive comments
    /// don't count as events.
    pub idle_timeout_ms: u64,
    /// The body's field for the most tokens of output: by default
    /// `max_completion_tokens` for OpenAI's own API and `max_tokens` elsewhere.
    pub max_tokens_field: Option<String>,
    /// The field of an assistant message that takes reasoning back, for servers
    /// whose models want it (`reasoning_content` for DeepSeek and Kimi). By
    /// default set for those two only; empty means that it isn't sent.
    pub reasoning_field: Option<String>,
    /// A proxy's URL.
    pub proxy: Option<String>,
    /// A file of PEM certificates that are trusted besides the system's.
    pub ca_file: Option<PathBuf>,
}

impl ChatConfig {
    /// Settings for a server, all others at their defaults.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            ..Self::default()
        }
    }

    /// # Errors
    /// [`ErrorKind::InvalidInput`], naming the setting that isn't right.
    pub(crate) fn check(&self) -> Result<()> {
        let own_field = OWN_FIELDS
            .iter()
            .find(|field| self.extra_body.contains_key(**field));
        if let Some(field) = own_field {
            return Err(refuse(format!("`extra_body` can't set `{field}`")));
        }
        for (name, value) in [
            ("connect_timeout_ms", self.connect_timeout_ms),
            ("idle_timeout_ms", self.idle_timeout_ms),
        ] {
            if !(1..=DAY_MS).contains(&value) {
                return Err(refuse(format!(
                    "`{name}` is {value}, and must be from 1 to {DAY_MS}"
                )));
            }
        }
        Ok(())
    }
}

fn refuse(message: String) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}

impl Default for ChatConfig {
    fn default() -> Self {
        Self {
            base_url: OPENAI_BASE_URL.to_owned(),
            api_key: None,
            api_key_env: None,
            headers: BTreeMap::new(),
            extra_body: serde_json::Map::new(),
            model: None,
            models: Vec::new(),
            connect_timeout_ms: 10_000,
            idle_timeout_ms: 300_000,
            max_tokens_field: None,
            reasoning_field: None,
            proxy: None,
            ca_file: None,
        }
    }
}

impl fmt::Debug for ChatConfig {
    /// Shows neither the key nor what the headers and the proxy's URL say.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatConfig")
            .field("base_url", &crate::endpoint::shown(&self.base_url))
            .field("api_key", &self.api_key.as_ref().map(|_| "…"))
            .field("api_key_env", &self.api_key_env)
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("extra_body", &self.extra_body.keys().collect::<Vec<_>>())
            .field("model", &self.model)
            .field("models", &self.models)
            .field("connect_timeout_ms", &self.connect_timeout_ms)
            .field("idle_timeout_ms", &self.idle_timeout_ms)
            .field("max_tokens_field", &self.max_tokens_field)
            .field("reasoning_field", &self.reasoning_field)
            .field("proxy", &self.proxy.as_ref().map(|_| "…"))
            .field("ca_file", &self.ca_file)
            .finish()
    }
}

/// What is known of a model.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ModelSettings {
    /// Its name, as it is asked for.
    pub name: String,
    /// Tokens that fit into a request and its answer.
    #[serde(default)]
    pub context_tokens: Option<u64>,
    /// Whether it can call tools. By default it can.
    #[serde(default)]
    pub tools: Option<bool>,
    /// Whether it can see images. By default it can't.
    #[serde(default)]
    pub images: Option<bool>,
}

impl ModelSettings {
    /// A model of which only the name is known.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            context_tokens: None,
            tools: None,
            images: None,
        }
    }

    /// Says what is known here over what is known elsewhere.
    pub(crate) fn apply(&self, info: &mut ModelInfo) {
        if self.context_tokens.is_some() {
            info.context_tokens = self.context_tokens;
        }
        info.tools = self.tools.unwrap_or(info.tools);
        info.images = self.images.unwrap_or(info.images);
    }
}
