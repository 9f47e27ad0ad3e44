//! What the engine is told about its server.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use haft_api::{Error, ErrorKind, Result};
use haft_engine_http::{KeyHeader, ModelSettings, ServerConfig};
use serde::Deserialize;

/// Where Anthropic's own API is.
pub const ANTHROPIC_BASE_URL: &str = "https://api.anthropic.com";

/// The version of the wire that the engine speaks.
const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

/// Fields of the body that no setting may replace.
const OWN_FIELDS: [&str; 5] = ["messages", "model", "stream", "system", "tools"];

/// The settings of an [`AnthropicEngine`](crate::AnthropicEngine), and of the
/// extension.
///
/// Nothing is read from anywhere else: neither environment variables (but for
/// those that [`api_key_env`](Self::api_key_env) and [`proxy`](Self::proxy) ask
/// for) nor proxy settings of the system.
///
/// ```
/// use haft_ext_engine_anthropic::AnthropicConfig;
///
/// let mut config = AnthropicConfig::new("http://127.0.0.1:8080");
/// config.max_tokens = Some(2_048);
/// ```
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct AnthropicConfig {
    /// Where the server is: what `/v1/messages` is appended to. One that ends in
    /// `/v1`, or in the whole path, is understood. A query is kept. By default
    /// [`ANTHROPIC_BASE_URL`].
    pub base_url: String,
    /// The key, sent as `x-api-key`. Servers without one get no such header.
    pub api_key: Option<String>,
    /// The environment variable that holds the key, where `api_key` is not set.
    pub api_key_env: Option<String>,
    /// Whether the key is sent as `Authorization: Bearer …` instead, as some
    /// other servers want it.
    pub bearer: bool,
    /// Further headers (`anthropic-beta`); they win over those the engine sets
    /// itself.
    pub headers: BTreeMap<String, String>,
    /// Further fields of a request's body. They win over those the engine sets
    /// itself; `null` takes such a field out, for servers that refuse it. The
    /// fields `model`, `system`, `messages`, `tools` and `stream` can't be set.
    pub extra_body: serde_json::Map<String, serde_json::Value>,
    /// The model where a request names none. Without one, Anthropic's own API
    /// has a default, and any other server is asked for its list and the first
    /// model of it taken.
    pub model: Option<String>,
    /// What is known of models, which a server doesn't tell.
    pub models: Vec<ModelSettings>,
    /// Most tokens of output where a request doesn't say; the wire insists on a
    /// number. By default what the model can write, but at most 32,000.
    pub max_tokens: Option<u64>,
    /// Whether the places are marked up to which a prompt is cached. By default
    /// they are.
    pub cache: bool,
    /// Milliseconds until a connection must stand, at most a day.
    pub connect_timeout_ms: u64,
    /// Milliseconds that the model may say nothing: from the request until its
    /// first event, and between two events; at most a day. Pings don't count as
    /// events.
    pub idle_timeout_ms: u64,
    /// A proxy's URL, such as `http://user:password@host:3128`; or
    /// `environment` for what `HTTPS_PROXY`, `HTTP_PROXY` or `ALL_PROXY` say,
    /// but for the hosts in `NO_PROXY` and those of this machine. By default,
    /// and where it is empty, there is none.
    pub proxy: Option<String>,
    /// A file of PEM certificates that are trusted besides the system's.
    pub ca_file: Option<PathBuf>,
}

impl AnthropicConfig {
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
            return Err(Error::new(
                ErrorKind::InvalidInput,
                format!("`extra_body` can't set `{field}`"),
            ));
        }
        if self.max_tokens == Some(0) {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "`max_tokens` is 0, and must be at least 1",
            ));
        }
        Ok(())
    }

    /// What the transport is to know.
    pub(crate) fn server(&self) -> ServerConfig {
        let mut server = ServerConfig::new(with_version(&self.base_url), "messages");
        server.key_header = match self.bearer {
            true => KeyHeader::Bearer,
            false => KeyHeader::Named("x-api-key"),
        };
        if server.host() == crate::engine::OWN_HOST {
            server.without_key = Some(
                "no key for api.anthropic.com: set `ANTHROPIC_API_KEY`, or `api_key` in the \
                 engine's settings",
            );
        }
        server.wire_headers = vec![VERSION];
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

/// A base URL with the `/v1` that the wire's paths begin with.
fn with_version(base_url: &str) -> String {
    let end = base_url.find(['?', '#']).unwrap_or(base_url.len());
    let (path, rest) = base_url.split_at(end);
    let path = path.trim_end_matches('/');
    let path = path.strip_suffix("/messages").unwrap_or(path);
    match path.rsplit('/').next() {
        Some("v1") => format!("{path}{rest}"),
        _ => format!("{path}/v1{rest}"),
    }
}

impl Default for AnthropicConfig {
    fn default() -> Self {
        Self {
            base_url: ANTHROPIC_BASE_URL.to_owned(),
            api_key: None,
            api_key_env: None,
            bearer: false,
            headers: BTreeMap::new(),
            extra_body: serde_json::Map::new(),
            model: None,
            models: Vec::new(),
            max_tokens: None,
            cache: true,
            connect_timeout_ms: 10_000,
            idle_timeout_ms: 300_000,
            proxy: None,
            ca_file: None,
        }
    }
}

impl fmt::Debug for AnthropicConfig {
    /// Shows neither the key nor what the headers and the proxy's URL say.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnthropicConfig")
            .field("base_url", &haft_engine_http::shown(&self.base_url))
            .field("api_key", &self.api_key.as_ref().map(|_| "…"))
            .field("api_key_env", &self.api_key_env)
            .field("bearer", &self.bearer)
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("extra_body", &self.extra_body.keys().collect::<Vec<_>>())
            .field("model", &self.model)
            .field("models", &self.models)
            .field("max_tokens", &self.max_tokens)
            .field("cache", &self.cache)
            .field("connect_timeout_ms", &self.connect_timeout_ms)
            .field("idle_timeout_ms", &self.idle_timeout_ms)
            .field("proxy", &self.proxy.as_ref().map(|_| "…"))
            .field("ca_file", &self.ca_file)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_may_end_in_the_version_or_the_path() {
        let check = |url: &str, expected: &str| assert_eq!(with_version(url), expected);
        check(ANTHROPIC_BASE_URL, "https://api.anthropic.com/v1");
        check("https://a.test/v1/", "https://a.test/v1");
        check("https://a.test/v1/messages", "https://a.test/v1");
        check("https://a.test/anthropic", "https://a.test/anthropic/v1");
        check("https://a.test/x?y=/v1", "https://a.test/x/v1?y=/v1");
    }

    #[test]
    fn secrets_are_not_shown() {
        let mut config = AnthropicConfig::new("http://me:hush1@x.test/?k=hush2");
        config.api_key = Some("hush3".to_owned());
        config.headers.insert("x".to_owned(), "hush4".to_owned());
        config.proxy = Some("http://u:hush5@p.test".to_owned());
        let shown = format!("{config:?}");
        assert!(!shown.contains("hush"), "{shown}");
    }

    #[test]
    fn settings_that_cannot_be_are_named() {
        let check = |settings: serde_json::Value, word: &str| {
            let config: AnthropicConfig = serde_json::from_value(settings).unwrap();
            let error = config.check().unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
        };
        check(serde_json::json!({"extra_body": {"tools": []}}), "`tools`");
        check(serde_json::json!({"max_tokens": 0}), "`max_tokens`");
        let unknown = serde_json::json!({"max_token": 1});
        let error = serde_json::from_value::<AnthropicConfig>(unknown).unwrap_err();
        assert!(error.to_string().contains("max_token"), "{error}");
    }
}
