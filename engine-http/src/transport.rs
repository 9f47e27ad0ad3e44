//! The way to the server: connections, and what can go wrong with them.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use haft_api::{EngineStream, Error, ErrorKind, ExtensionId, Readiness, Result};
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    LOCATION,
};
use http::{Method, StatusCode};
use reqwest::{Client, Url};
use tokio::time::Instant;

use crate::answer::{AnswerDecoder, check_head, receive, silent};
use crate::endpoint::{Endpoint, shown};
use crate::failure;
use crate::server::{KeyHeader, ServerConfig};

mod response;
mod tls;

pub use response::Response;

const USER_AGENT: &str = concat!("haft/", env!("CARGO_PKG_VERSION"));

/// How long a server may take to say whether it is there.
const READINESS_TIME: Duration = Duration::from_secs(1);

/// A server, and how to reach it. Connections are kept and used again.
pub struct Transport {
    endpoint: Endpoint,
    server: ServerConfig,
    /// Those of the settings.
    headers: HeaderMap,
    client: OnceLock<Client>,
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

impl Transport {
    /// Does no I/O: certificates are read when they are first needed.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`], naming the setting that isn't right.
    pub fn new(server: ServerConfig) -> Result<Self> {
        server.check_times()?;
        let endpoint = Endpoint::new(&server.base_url, server.turn_path)?;
        let headers = headers(&server)?;
        if let Some(proxy) = &server.proxy {
            parse_proxy(proxy)?;
        }
        Ok(Self {
            endpoint,
            server,
            headers,
            client: OnceLock::new(),
        })
    }

    /// The server's host, which often names the provider.
    pub fn host(&self) -> &str {
        self.endpoint.host()
    }

    /// What it was made of.
    pub fn server(&self) -> &ServerConfig {
        &self.server
    }

    /// Adds to an error whose it is: the operation, the engine, and where the
    /// server is.
    pub fn describe(
        &self,
        engine: &ExtensionId,
        operation: &'static str,
    ) -> impl Fn(Error) -> Error + Send + 'static + use<> {
        let (engine, url) = (engine.clone(), shown(&self.server.base_url));
        move |error: Error| {
            let error = error.operation(operation).context("engine", &engine);
            match error.context_value("url") {
                Some(_) => error,
                None => error.context("url", &url),
            }
        }
    }

    fn client(&self) -> Result<&Client> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let mut builder = Client::builder()
            .tls_backend_preconfigured(tls::config(
                self.server.ca_file.as_deref(),
                self.endpoint.is_https(),
            )?)
            .user_agent(USER_AGENT)
            .connect_timeout(Duration::from_millis(self.server.connect_timeout_ms))
            .redirect(reqwest::redirect::Policy::none())
            .tcp_nodelay(true)
            // Proxies come from the settings alone.
            .no_proxy();
        if let Some(proxy) = &self.server.proxy {
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
        if let Some(key) = self.server.api_key.as_deref().and_then(stripped) {
            return Ok(Some(key));
        }
        let Some(name) = &self.server.api_key_env else {
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
        let own = match self.server.key_header {
            KeyHeader::Bearer => "api-key",
            KeyHeader::Named(name) => name,
        };
        self.headers.contains_key(AUTHORIZATION) || self.headers.contains_key(own)
    }

    /// Why no request could be authorised, if that is known beforehand.
    pub fn missing_key(&self) -> Option<String> {
        match self.api_key() {
            Err(error) => Some(error.message().to_owned()),
            Ok(None) if !self.has_own_authorization() => self.server.without_key.map(str::to_owned),
            Ok(_) => None,
        }
    }

    /// A request's headers. Those of the settings win over all others.
    fn request_headers(&self, own: &[(HeaderName, &'static str)]) -> Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.server.wire_headers {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        if let Some(key) = self.api_key()? {
            let (name, value) = match self.server.key_header {
                KeyHeader::Bearer => (AUTHORIZATION, format!("Bearer {key}")),
                KeyHeader::Named(name) => (HeaderName::from_static(name), key),
            };
            let mut value = HeaderValue::try_from(value).map_err(|_| {
                Error::new(
                    ErrorKind::InvalidInput,
                    "the key holds characters that no header can carry",
                )
            })?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        for (name, value) in own {
            headers.insert(name, HeaderValue::from_static(value));
        }
        for (name, value) in &self.headers {
            headers.insert(name, value.clone());
        }
        Ok(headers)
    }

    /// Sends the body of a turn and receives its answer. `prepare` gives both the
    /// body and the decoder; the time that the model may be silent begins with
    /// it. `describe` adds to errors, those of the stream too, whose they are.
    ///
    /// Dropping the future or the stream closes the connection.
    ///
    /// # Errors
    /// Those of `prepare`, [`ErrorKind::Denied`] if there is no key, what kept
    /// the request from being answered, and what the server says if it refuses.
    pub async fn stream_turn<D: AnswerDecoder>(
        &self,
        prepare: impl Future<Output = Result<(Vec<u8>, D)>>,
        describe: impl Fn(Error) -> Error + Send + 'static,
    ) -> Result<EngineStream> {
        let asked_at = Instant::now();
        let idle = Duration::from_millis(self.server.idle_timeout_ms);
        let start = async {
            let (body, decoder) = prepare.await?;
            if let Some(reason) = self.missing_key() {
                return Err(Error::new(ErrorKind::Denied, reason));
            }
            let mut response = self.post_turn(body).await?;
            check_head(&mut response).await?;
            Ok((response, decoder))
        };
        let (response, decoder) = tokio::time::timeout(idle, start)
            .await
            .unwrap_or_else(|_| Err(silent(idle)))
            .map_err(&describe)?;
        Ok(receive(response, decoder, idle, asked_at, describe))
    }

    /// Whether the server is there, by asking for its models. A server that has
    /// no list of them is ready too. Takes at most a second.
    pub async fn readiness(&self) -> Readiness {
        if let Some(reason) = self.missing_key() {
            return Readiness::Unavailable { reason };
        }
        let url = shown(&self.server.base_url);
        let reason = match tokio::time::timeout(READINESS_TIME, self.get("models")).await {
            Ok(Ok(_)) => return Readiness::Ready,
            Ok(Err(e)) if e.kind() == ErrorKind::NotFound => return Readiness::Ready,
            Ok(Err(e)) => format!("{url}: {}", e.message()),
            Err(_) => format!("{url}: no answer within a second"),
        };
        Readiness::Unavailable { reason }
    }

    async fn post_turn(&self, body: Vec<u8>) -> Result<Response> {
        let own = [
            (CONTENT_TYPE, "application/json"),
            (ACCEPT, "text/event-stream, application/json"),
        ];
        self.send(Method::POST, self.endpoint.turn(), &own, body)
            .await
    }

    /// Asks for one of the API's paths. The answer's status is a good one, and
    /// its body is yet to be read. No time is set but that for the connection.
    ///
    /// # Errors
    /// What kept the request from being answered, and what the server says if
    /// it refuses.
    pub async fn get(&self, path: &str) -> Result<Response> {
        self.send(Method::GET, self.endpoint.url(path), &[], Vec::new())
            .await
    }

    async fn send(
        &self,
        method: Method,
        url: Url,
        own: &[(HeaderName, &'static str)],
        body: Vec<u8>,
    ) -> Result<Response> {
        let request = self
            .client()?
            .request(method, url.clone())
            .headers(self.request_headers(own)?)
            .body(body);
        let response = request.send().await.map_err(|e| {
            unreachable(&e, self.server.connect_timeout_ms)
                .context("url", shown(url.as_str()))
                .source(e.without_url())
        })?;
        let response = Response::new(response);
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

fn headers(server: &ServerConfig) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, value) in &server.headers {
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
