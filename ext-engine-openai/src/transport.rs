//! The way to the server: connections, and what can go wrong with them.

use std::error::Error as StdError;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use haft_api::{Error, ErrorKind, Result};
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    LOCATION,
};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};

use crate::config::ChatConfig;
use crate::endpoint::{Endpoint, shown};
use crate::failure;
use crate::provider::Provider;

mod tls;

const USER_AGENT: &str = concat!("haft/", env!("CARGO_PKG_VERSION"));

/// A server, and how to reach it. Connections are kept and used again.
pub(crate) struct Transport {
    pub(crate) endpoint: Endpoint,
    config: ChatConfig,
    headers: HeaderMap,
    client: OnceLock<Client>,
}

impl Transport {
    /// Does no I/O: the client is made when it is first used.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`], naming the setting that isn't right.
    pub(crate) fn new(config: ChatConfig) -> Result<Self> {
        let endpoint = Endpoint::new(&config.base_url)?;
        let headers = headers(&config)?;
        if let Some(proxy) = &config.proxy {
            parse_proxy(proxy)?;
        }
        Ok(Self {
            endpoint,
            config,
            headers,
            client: OnceLock::new(),
        })
    }

    fn client(&self) -> Result<&Client> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let mut builder = Client::builder()
            .tls_backend_preconfigured(tls::config(
                self.config.ca_file.as_deref(),
                self.endpoint.is_https(),
            )?)
            .user_agent(USER_AGENT)
            .connect_timeout(Duration::from_millis(self.config.connect_timeout_ms))
            .redirect(reqwest::redirect::Policy::none())
            .tcp_nodelay(true)
            // Proxies come from the settings alone.
            .no_proxy();
        if let Some(proxy) = &self.config.proxy {
            builder = builder.proxy(parse_proxy(proxy)?);
        }
        let client = builder.build().map_err(|e| {
            Error::new(ErrorKind::Unexpected, "the HTTP client can't be made").source(e)
        })?;
        Ok(self.client.get_or_init(|| client))
    }

    /// The key, if one is set.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] if it should be in an environment variable and
    /// isn't.
    fn api_key(&self) -> Result<Option<String>> {
        let stripped = |key: &str| Some(key.trim().to_owned()).filter(|key| !key.is_empty());
        if let Some(key) = self.config.api_key.as_deref().and_then(stripped) {
            return Ok(Some(key));
        }
        let Some(name) = &self.config.api_key_env else {
            return Ok(None);
        };
        match std::env::var(name).ok().as_deref().and_then(stripped) {
            Some(key) => Ok(Some(key)),
            None => Err(Error::new(
                ErrorKind::Denied,
                format!("no key: set the environment variable `{name}`"),
            )),
        }
    }

    /// Whether the settings' headers say who asks.
    fn has_own_authorization(&self) -> bool {
        self.headers.contains_key(AUTHORIZATION) || self.headers.contains_key("api-key")
    }

    /// Why no request could be authorised, if that is known beforehand.
    pub(crate) fn missing_key(&self) -> Option<String> {
        match self.api_key() {
            Err(error) => Some(error.message().to_owned()),
            Ok(None) if self.endpoint.is_openai() && !self.has_own_authorization() => Some(
                "no key for api.openai.com: set `OPENAI_API_KEY`, or `api_key` in the engine's \
                 settings"
                    .to_owned(),
            ),
            Ok(_) => None,
        }
    }

    fn authorised(&self, request: RequestBuilder) -> Result<RequestBuilder> {
        let mut headers = HeaderMap::new();
        if let Some(key) = self.api_key()? {
            let name = Provider::of(self.endpoint.host()).key_header();
            let value = match name {
                "authorization" => format!("Bearer {key}"),
                _ => key,
            };
            let mut value = HeaderValue::from_str(&value).map_err(|_| {
                Error::new(
                    ErrorKind::InvalidInput,
                    "the key holds characters that no header can carry",
                )
            })?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static(name), value);
        }
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        for (name, value) in &self.headers {
            headers.insert(name, value.clone());
        }
        Ok(request.headers(headers))
    }

    /// Sends a chat's body and returns the answer once its head is there and
    /// its status is a good one.
    pub(crate) async fn post_chat(&self, body: Vec<u8>) -> Result<Response> {
        let url = self.endpoint.url("chat/completions");
        let request = self
            .authorised(self.client()?.post(url.clone()))?
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream, application/json")
            .body(body);
        self.send(request, &url).await
    }

    /// Asks for the list of models.
    pub(crate) async fn get_models(&self) -> Result<Response> {
        let url = self.endpoint.url("models");
        let request = self.authorised(self.client()?.get(url.clone()))?;
        self.send(request, &url).await
    }

    async fn send(&self, request: RequestBuilder, url: &Url) -> Result<Response> {
        let response = request.send().await.map_err(|e| {
            unreachable(&e, self.config.connect_timeout_ms)
                .context("url", shown(url.as_str()))
                .source(without_url(e))
        })?;
        if response.status().is_success() {
            return Ok(response);
        }
        let unauthorised = response.status() == StatusCode::UNAUTHORIZED;
        let error = refused(response).await.context("url", shown(url.as_str()));
        if unauthorised && !self.has_own_authorization() && matches!(self.api_key(), Ok(None)) {
            return Err(error.context("hint", "no key was sent: set `api_key` or `api_key_env`"));
        }
        Err(error)
    }
}

fn headers(config: &ChatConfig) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, value) in &config.headers {
        let refuse = |why: &str| {
            Error::new(
                ErrorKind::InvalidInput,
                format!("the header `{name}` in `headers` {why}"),
            )
        };
        let parsed: HeaderName = name.parse().map_err(|_| refuse("has no valid name"))?;
        let mut value: HeaderValue = value
            .parse()
            .map_err(|_| refuse("has a value that no header can carry"))?;
        value.set_sensitive(true);
        headers.insert(parsed, value);
    }
    Ok(headers)
}

fn parse_proxy(url: &str) -> Result<reqwest::Proxy> {
    reqwest::Proxy::all(url)
        .map_err(|_| Error::new(ErrorKind::InvalidInput, "`proxy` is no proxy's URL"))
}

/// The URL stands in the error's context already, and may hold a secret here.
fn without_url(error: reqwest::Error) -> reqwest::Error {
    error.without_url()
}

/// The error of this type in a chain of sources.
fn cause<'e, T: StdError + 'static>(error: &'e (dyn StdError + 'static)) -> Option<&'e T> {
    if let Some(found) = error.downcast_ref() {
        return Some(found);
    }
    // An I/O error's `source` is that of the error it holds, and skips that one.
    let held = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    held.and_then(|held| cause(held as &(dyn StdError + 'static)))
        .or_else(|| error.source().and_then(cause))
}

/// What kept a request from being answered at all.
fn unreachable(error: &reqwest::Error, connect_timeout_ms: u64) -> Error {
    if error.is_builder() {
        return Error::new(ErrorKind::InvalidInput, "the request can't be made");
    }
    if cause::<rustls::Error>(error).is_some() {
        return Error::new(
            ErrorKind::Unavailable,
            "no secure connection: the server's certificate or TLS isn't accepted (for a \
             certificate authority of your own, set `ca_file`)",
        )
        .permanent();
    }
    if error.is_timeout() {
        return Error::new(
            ErrorKind::Timeout,
            format!(
                "no connection within {connect_timeout_ms} ms: is the address right, and the \
                 server reachable from here?"
            ),
        )
        .temporary();
    }
    let refused =
        cause::<io::Error>(error).is_some_and(|io| io.kind() == io::ErrorKind::ConnectionRefused);
    let message = if refused {
        "nothing answers there (connection refused): start the server, or set `base_url` to \
         where it is"
    } else if error.is_connect() {
        "no connection: is the address right, and the network there?"
    } else {
        "the connection broke before the server answered"
    };
    Error::new(ErrorKind::Unavailable, message)
}

/// The error of an answer that is none: what the server says, and when to come
/// back.
async fn refused(mut response: Response) -> Error {
    let status = response.status();
    if status.is_redirection() {
        let to = response
            .headers()
            .get(LOCATION)
            .and_then(|to| to.to_str().ok())
            .map_or("elsewhere".to_owned(), shown);
        return Error::new(
            ErrorKind::InvalidInput,
            format!("the server sends on to {to}, which isn't followed: set `base_url` to that"),
        )
        .context("status", status.as_u16());
    }
    let delay = failure::retry_after_from_headers(response.headers());
    let body = read_bounded(&mut response, failure::READ_BYTES).await;
    failure::from_response(status.as_u16(), &body, delay)
}

/// How long a refusal's body may take. What came by then is what is quoted.
const REFUSAL_BODY_TIME: Duration = Duration::from_secs(5);

async fn read_bounded(response: &mut Response, most: usize) -> Vec<u8> {
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            body.extend_from_slice(&chunk);
            if body.len() >= most {
                break;
            }
        }
    };
    // A body that is cut short is quoted as far as it came.
    let _ = tokio::time::timeout(REFUSAL_BODY_TIME, read).await;
    body
}

/// What broke an answer off that had begun.
pub(crate) fn broken(error: reqwest::Error) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the answer broke off: the connection was lost",
    )
    .source(without_url(error))
}
