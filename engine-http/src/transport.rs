//! The way to the server: requests and their answers.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use haft_api::{EngineStream, Error, ErrorKind, ExtensionId, Readiness, Result};
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
    PROXY_AUTHORIZATION, USER_AGENT,
};
use http::{Method, Request, StatusCode, Uri};
use hyper::body::Bytes;
use tokio::time::Instant;
use url::{Position, Url};

use crate::answer::{AnswerDecoder, check_head, receive, silent};
use crate::endpoint::{Endpoint, shown};
use crate::server::{KeyHeader, ServerConfig};
use connect::Connector;
use connection::Outgoing;
use pool::Pool;
use problem::{broken, is_of_a_closed_connection, refused, unconnected};
use proxy::{Proxy, basic_authorization};

mod connect;
mod connection;
mod pool;
mod problem;
mod proxy;
mod response;
mod tls;

pub(crate) use problem::encoding;
pub use response::Response;

const AGENT: &str = concat!("haft/", env!("CARGO_PKG_VERSION"));

/// How long a server may take to say whether it is there.
const READINESS_TIME: Duration = Duration::from_secs(1);

/// A server, and how to reach it. Connections are kept and used again.
pub struct Transport {
    endpoint: Endpoint,
    /// The base URL as it may be shown.
    shown: Arc<str>,
    server: ServerConfig,
    /// Those of the settings.
    headers: HeaderMap,
    /// What the headers of every request begin with.
    defaults: HeaderMap,
    proxy: Option<Proxy>,
    turn: Target,
    connector: OnceLock<Connector>,
    pool: Arc<Pool>,
}

/// What is asked for.
struct Target {
    method: Method,
    /// As it stands in a request.
    uri: Uri,
    /// As it may be shown.
    shown: String,
    /// All but the key.
    headers: HeaderMap,
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
        let proxy = match &server.proxy {
            Some(setting) => {
                Proxy::of_setting(setting, endpoint.base(), |name| std::env::var(name).ok())?
            }
            None => None,
        };
        let defaults = defaults(&server, &endpoint, proxy.as_ref())?;
        let own = [
            (CONTENT_TYPE, "application/json"),
            (ACCEPT, "text/event-stream, application/json"),
        ];
        let turn = Target::new(Method::POST, endpoint.turn(), proxy.as_ref(), &defaults);
        let turn = turn?.with(&own, &headers);
        Ok(Self {
            endpoint,
            shown: shown(&server.base_url).into(),
            server,
            headers,
            defaults,
            proxy,
            turn,
            connector: OnceLock::new(),
            pool: Arc::default(),
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
        let (engine, url) = (engine.clone(), Arc::clone(&self.shown));
        move |error: Error| {
            let error = error.operation(operation).context("engine", &engine);
            match error.context_value("url") {
                Some(_) => error,
                None => error.context("url", &url),
            }
        }
    }

    fn connector(&self) -> Result<&Connector> {
        if let Some(connector) = self.connector.get() {
            return Ok(connector);
        }
        let connector = Connector::new(
            &self.endpoint,
            self.proxy.as_ref(),
            self.server.ca_file.as_deref(),
            Duration::from_millis(self.server.connect_timeout_ms),
        )?;
        Ok(self.connector.get_or_init(|| connector))
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

    /// A request, with the key unless the settings' headers say who asks.
    fn request(&self, target: &Target, body: Bytes) -> Result<Request<Outgoing>> {
        let mut request = Request::new(Outgoing::new(body));
        *request.method_mut() = target.method.clone();
        *request.uri_mut() = target.uri.clone();
        let headers = request.headers_mut();
        headers.clone_from(&target.headers);
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
            if !self.headers.contains_key(&name) {
                headers.insert(name, value);
            }
        }
        Ok(request)
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
            let mut response = self.send(&self.turn, body).await?;
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
        let url = &self.shown;
        let reason = match tokio::time::timeout(READINESS_TIME, self.get("models")).await {
            Ok(Ok(_)) => return Readiness::Ready,
            Ok(Err(e)) if e.kind() == ErrorKind::NotFound => return Readiness::Ready,
            Ok(Err(e)) => format!("{url}: {}", e.message()),
            Err(_) => format!("{url}: no answer within a second"),
        };
        Readiness::Unavailable { reason }
    }

    /// Asks for one of the API's paths. The answer's status is a good one, and
    /// its body is yet to be read. No time is set but that for the connection.
    ///
    /// # Errors
    /// What kept the request from being answered, and what the server says if
    /// it refuses.
    pub async fn get(&self, path: &str) -> Result<Response> {
        let url = self.endpoint.url(path);
        let target = Target::new(Method::GET, url, self.proxy.as_ref(), &self.defaults)?;
        let target = target.with(&[(ACCEPT, "application/json")], &self.headers);
        self.send(&target, Vec::new()).await
    }

    async fn send(&self, target: &Target, body: Vec<u8>) -> Result<Response> {
        let response = self
            .exchange(target, Bytes::from(body))
            .await
            .map_err(|e| e.context("url", &target.shown))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let unauthorised = response.status() == StatusCode::UNAUTHORIZED;
        let error = Box::pin(refused(response, self.proxy.as_ref()))
            .await
            .context("url", &target.shown);
        if unauthorised && !self.has_own_authorization() && matches!(self.api_key(), Ok(None)) {
            return Err(error.context("hint", "no key was sent: set `api_key` or `api_key_env`"));
        }
        Err(error)
    }

    /// Sends a request over a connection that was kept, or over a new one.
    ///
    /// A server may close an idle connection at the very moment at which it is
    /// used again. A request that was not answered for that is sent once more.
    async fn exchange(&self, target: &Target, body: Bytes) -> Result<Response> {
        if let Some(mut connection) = self.pool.take().await {
            let request = self.request(target, body.clone())?;
            match connection.send(request).await {
                Ok(response) => return Ok(self.response(response, connection)),
                Err((_, Some(_))) => {}
                Err((error, None)) if is_of_a_closed_connection(&error) => {}
                Err((error, None)) => return Err(broken(error)),
            }
        }
        let request = self.request(target, body)?;
        // Boxed, for it is large and rare: every request would carry its room.
        let connected = Box::pin(self.connector()?.connect()).await;
        let mut connection = connected.map_err(|e| {
            unconnected(&e, self.server.connect_timeout_ms, self.proxy.as_ref()).source(e)
        })?;
        match connection.send(request).await {
            Ok(response) => Ok(self.response(response, connection)),
            Err((error, _)) => Err(broken(error)),
        }
    }

    fn response(
        &self,
        response: http::Response<hyper::body::Incoming>,
        connection: connection::Connection,
    ) -> Response {
        Response::new(response, connection, Arc::clone(&self.pool))
    }
}

impl Target {
    fn new(
        method: Method,
        mut url: Url,
        proxy: Option<&Proxy>,
        headers: &HeaderMap,
    ) -> Result<Self> {
        let shown = shown(url.as_str());
        url.set_fragment(None);
        // A proxy that is no tunnel is told the whole URL.
        let text = match proxy.is_some() && url.scheme() == "http" {
            true => {
                // Fails only for URLs that can't have either.
                let _ = url.set_username("");
                let _ = url.set_password(None);
                url.as_str()
            }
            false => &url[Position::BeforePath..],
        };
        let uri = text.parse().map_err(|_| {
            Error::new(ErrorKind::InvalidInput, "`base_url` can't be asked for")
                .context("base_url", &shown)
        })?;
        Ok(Self {
            method,
            uri,
            shown,
            headers: headers.clone(),
        })
    }

    /// Adds the request's own headers, and those of the settings over them.
    fn with(mut self, own: &[(HeaderName, &'static str)], settings: &HeaderMap) -> Self {
        for (name, value) in own {
            let value = HeaderValue::from_static(value);
            self.headers.insert(name, value);
        }
        for (name, value) in settings {
            self.headers.insert(name, value.clone());
        }
        self
    }
}

/// What every request's headers begin with.
fn defaults(
    server: &ServerConfig,
    endpoint: &Endpoint,
    proxy: Option<&Proxy>,
) -> Result<HeaderMap> {
    let refuse = |what: String| {
        Error::new(ErrorKind::InvalidInput, what).context("base_url", shown(&server.base_url))
    };
    let mut headers = HeaderMap::new();
    let host = HeaderValue::try_from(endpoint.authority())
        .map_err(|_| refuse("`base_url` has no usable host".to_owned()))?;
    headers.insert(HOST, host);
    headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if let Some(value) = basic_authorization(endpoint.base()) {
        headers.insert(AUTHORIZATION, value);
    }
    let asked = proxy.filter(|_| !endpoint.is_https());
    if let Some(value) = asked.and_then(Proxy::authorization) {
        headers.insert(PROXY_AUTHORIZATION, value.clone());
    }
    for (name, value) in &server.wire_headers {
        let refuse = |_| refuse(format!("the wire's header `{name}` isn't one"));
        let name = HeaderName::try_from(*name).map_err(|_| refuse(()))?;
        headers.insert(name, HeaderValue::try_from(*value).map_err(|_| refuse(()))?);
    }
    Ok(headers)
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
