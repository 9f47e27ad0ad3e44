//! Requests that scripts make: by grant, over a client of the system's
//! certificates.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Response;
use reqwest::header::LOCATION;
pub use reqwest::{Method, StatusCode, Url};

/// How long to reach a server may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const REDIRECTS: usize = 20;
/// What is meant for the one server that it was given for.
const SECRETS: &[&str] = &["authorization", "cookie", "proxy-authorization"];

/// A client for scripts. It knows no proxy, follows redirects one by one so that
/// each host is asked for, and keeps to the system's certificates.
#[derive(Debug, Clone)]
pub struct Client {
    client: reqwest::Client,
}

/// What a script asks of a server.
#[derive(Debug, Clone)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// Where it goes; `http` or `https`.
    pub url: Url,
    /// Names and values; a name may come more than once.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Option<Vec<u8>>,
    /// What to do with an answer that names another place.
    pub redirects: Redirects,
}

/// What to do with an answer that names another place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Redirects {
    /// Go there, up to twenty times. Credentials stay behind if it is another
    /// origin.
    #[default]
    Follow,
    /// Fail.
    Refuse,
    /// Give the answer as it is.
    Manual,
}

/// An answer, of which the body is yet to come. Dropping it ends the connection.
#[derive(Debug)]
pub struct Answer {
    /// The status, and the word that goes with it.
    pub status: StatusCode,
    /// Names in lower case, and values; what isn't UTF-8 is replaced.
    pub headers: Vec<(String, String)>,
    /// Where it came from in the end.
    pub url: Url,
    /// Whether that is another place than was asked.
    pub redirected: bool,
    rest: Response,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The script may not reach a host; the words name the grant.
    Denied(String),
    /// Anything else, with its causes.
    Failed(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Denied(words) | Self::Failed(words)) = self;
        f.write_str(words)
    }
}

impl std::error::Error for Error {}

/// TLS as scripts have it: `ring`, and whatever certificates the system trusts.
///
/// # Errors
/// If the system's certificates can't be used.
pub fn tls_config() -> Result<rustls::ClientConfig, Error> {
    let failed = |words: String| Error::Failed(words);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = rustls_platform_verifier::Verifier::new(Arc::clone(&provider))
        .map_err(|e| failed(format!("the system's certificates can't be used: {e}")))?;
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| failed(format!("TLS can't be set up: {e}")))?;
    Ok(config
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth())
}

impl Client {
    /// A client that keeps up to so many idle connections a host. They belong to
    /// the tokio runtime that made them: a client that is shared by runtimes of
    /// different lives keeps none.
    ///
    /// # Errors
    /// If the system's certificates can't be used.
    pub fn new(idle_connections: usize) -> Result<Self, Error> {
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls_config()?)
            .user_agent(concat!("haft/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .pool_max_idle_per_host(idle_connections)
            .no_proxy()
            .build()
            .map_err(|e| Error::Failed(format!("no HTTP client: {}", chain(&e))))?;
        Ok(Self { client })
    }

    /// Sends a request and returns once the answer's head is there. Each host on
    /// the way is asked for: `allows` says why not. Dropping the future ends the
    /// request.
    ///
    /// # Errors
    /// What is in the way: a host that is denied, a redirect too many, a server
    /// that isn't there.
    pub async fn send(
        &self,
        request: Request,
        allows: impl Fn(&str) -> Result<(), String>,
    ) -> Result<Answer, Error> {
        let Request {
            mut method,
            mut url,
            mut headers,
            mut body,
            redirects,
        } = request;
        for hops in 0..=REDIRECTS {
            if !matches!(url.scheme(), "http" | "https") {
                let words = format!("{url}: only http and https");
                return Err(Error::Failed(words));
            }
            allows(url.host_str().unwrap_or_default()).map_err(Error::Denied)?;
            let mut builder = self.client.request(method.clone(), url.clone());
            for (name, value) in &headers {
                builder = builder.header(name, value);
            }
            if let Some(body) = &body {
                builder = builder.body(body.clone());
            }
            let response = builder.send().await.map_err(|e| failed(&e))?;
            let status = response.status();
            let next = match redirects {
                Redirects::Manual => None,
                Redirects::Follow | Redirects::Refuse => target(&url, &response),
            };
            let Some(next) = next else {
                return Ok(answer(response, url, hops > 0));
            };
            if redirects == Redirects::Refuse {
                let words = format!("{url}: a redirect to {next}");
                return Err(Error::Failed(words));
            }
            if !matches!(status.as_u16(), 307 | 308) && method != Method::HEAD {
                method = Method::GET;
                body = None;
                headers.retain(|(name, _)| !name.to_lowercase().starts_with("content-"));
            }
            if next.origin() != url.origin() {
                headers.retain(|(name, _)| !SECRETS.contains(&name.to_lowercase().as_str()));
            }
            url = next;
        }
        let words = format!("{url}: more than {REDIRECTS} redirects");
        Err(Error::Failed(words))
    }
}

/// Where a redirect leads.
fn target(from: &Url, response: &Response) -> Option<Url> {
    let named = response.headers().get(LOCATION)?.to_str().ok()?;
    let next = from.join(named).ok()?;
    response.status().is_redirection().then_some(next)
}

fn answer(response: Response, url: Url, redirected: bool) -> Answer {
    let headers = response.headers().iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        (name.as_str().to_owned(), value)
    });
    Answer {
        status: response.status(),
        headers: headers.collect(),
        url,
        redirected,
        rest: response,
    }
}

impl Answer {
    /// The next piece of the body, as the server sent it; nothing at its end.
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    /// If the connection breaks before the end.
    pub async fn piece(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let piece = self.rest.chunk().await.map_err(|e| failed(&e))?;
        Ok(piece.map(Into::into))
    }

    /// The whole body, of which pieces may have been taken.
    ///
    /// # Errors
    /// As [`piece`](Self::piece); if it is larger than `most` bytes.
    pub async fn whole(mut self, most: usize) -> Result<Vec<u8>, Error> {
        let mut whole = Vec::new();
        while let Some(piece) = self.rest.chunk().await.map_err(|e| failed(&e))? {
            if whole.len() + piece.len() > most {
                let words = format!("{}: the answer is larger than {most} bytes", self.url);
                return Err(Error::Failed(words));
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole)
    }
}

fn failed(error: &reqwest::Error) -> Error {
    Error::Failed(chain(error))
}

/// An error with its causes.
fn chain(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}
