//! What the engine is told about its server.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use haft_api::{Error, ErrorKind, Result};
use haft_engine_http::{ModelSettings, ServerConfig};
use serde::Deserialize;

use crate::provider::Provider;

/// Where OpenAI's own API is.
pub const OPENAI_BASE_URL: &str = "https://api.openai.com/v1";

/// Fields of the body that no setting may replace.
const OWN_FIELDS: [&str; 5] = ["input", "messages", "model", "stream", "tools"];

/// Which of OpenAI's two wires to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wire {
    /// Chat Completions, which every server has.
    Chat,
    /// Responses, which gives OpenAI's models their own reasoning back.
    Responses,
}

impl Wire {
    fn path(self) -> &'static str {
        match self {
            Self::Chat => "chat/completions",
            Self::Responses => "responses",
        }
    }
}

/// The settings of a [`OpenAiEngine`](crate::OpenAiEngine), and of the extension.
///
/// Nothing is read from anywhere else: neither environment variables (but for
/// those that [`api_key_env`](Self::api_key_env) and [`proxy`](Self::proxy) ask
/// for) nor proxy settings of the system.
///
/// ```
/// use haft_ext_engine_openai::OpenAiConfig;
///
/// let mut config = OpenAiConfig::new("http://127.0.0.1:8080/v1");
/// config.idle_timeout_ms = 600_000;
/// ```
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct OpenAiConfig {
    /// Where the server's API begins: what `/chat/completions` or `/responses`
    /// is appended to. A query (`?api-version=…`) is kept. By default
    /// [`OPENAI_BASE_URL`].
    pub base_url: String,
    /// Which wire to speak. By default Responses with OpenAI's own API and with
    /// a base URL that ends in `/responses`, and Chat Completions elsewhere.
    pub wire: Option<Wire>,
    /// The key, sent as `Authorization: Bearer …`. Servers without one get no
    /// such header.
    pub api_key: Option<String>,
    /// The environment variable that holds the key, where `api_key` is not set.
    pub api_key_env: Option<String>,
    /// Further headers; they win over those the engine sets itself.
    pub headers: BTreeMap<String, String>,
    /// Further fields of a request's body. They win over those the engine sets
    /// itself; `null` takes such a field out, for servers that refuse it. The
    /// fields `model`, `messages`, `input`, `tools` and `stream` can't be set.
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
    /// What to ask for of reasoning to show, over Responses: `auto`, `concise` or
    /// `detailed`. By default nothing, since OpenAI gives it to verified
    /// organisations only.
    pub reasoning_summary: Option<String>,
    /// A proxy's URL, such as `http://user:password@host:3128`; or
    /// `environment` for what `HTTPS_PROXY`, `HTTP_PROXY` or `ALL_PROXY` say,
    /// but for the hosts in `NO_PROXY` and those of this machine. By default,
    /// and where it is empty, there is none.
    pub proxy: Option<String>,
    /// A file of PEM certificates that are trusted besides the system's.
    pub ca_file: Option<PathBuf>,
}

impl OpenAiConfig {
    /// Settings for a server, all others at their defaults.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            ..Self::default()
        }
    }

    /// The wire that is spoken: the one that is set, else the server's own.
    pub fn wire(&self) -> Wire {
        if let Some(wire) = self.wire {
            return wire;
        }
        let ends_in = |path| {
            let base = self.base_url.split(['?', '#']).next().unwrap_or_default();
            base.trim_end_matches('/').ends_with(path)
        };
        let host = ServerConfig::new(&self.base_url, Wire::Chat.path()).host();
        let own = Provider::of(&host) == Provider::OpenAi && !ends_in("/chat/completions");
        match own || ends_in("/responses") {
            true => Wire::Responses,
            false => Wire::Chat,
        }
    }

    /// # Errors
    /// [`ErrorKind::InvalidInput`], naming the setting that isn't right.
    pub(crate) fn check(&self) -> Result<()> {
        let own_field = OWN_FIELDS
            .iter()
            .find(|field| self.extra_body.contains_key(**field));
        if let Some(field) = own_field {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                format!("`extra_body` can't set `{field}`"),
            ));
        }
        Ok(())
    }

    /// What the transport is to know, but for what depends on the provider.
    pub(crate) fn server(&self) -> ServerConfig {
        let mut server = ServerConfig::new(&self.base_url, self.wire().path());
        server.api_key.clone_from(&self.api_key);
        server.api_key_env.clone_from(&self.api_key_env);
        server.headers.clone_from(&self.headers);
        server.connect_timeout_ms = self.connect_timeout_ms;
        server.idle_timeout_ms = self.idle_timeout_ms;
        server.proxy.clone_from(&self.proxy);
        server.ca_file.clone_from(&self.ca_file);
        server
    }
}

impl Default for OpenAiConfig {
    fn default() -> Self {
        Self {
            base_url: OPENAI_BASE_URL.to_owned(),
            wire: None,
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
            reasoning_summary: None,
            proxy: None,
            ca_file: None,
        }
    }
}

impl fmt::Debug for OpenAiConfig {
    /// Shows neither the key nor what the headers and the proxy's URL say.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiConfig")
            .field("base_url", &haft_engine_http::shown(&self.base_url))
            .field("wire", &self.wire)
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
            .field("reasoning_summary", &self.reasoning_summary)
            .field("proxy", &self.proxy.as_ref().map(|_| "…"))
            .field("ca_file", &self.ca_file)
            .finish()
    }
}
