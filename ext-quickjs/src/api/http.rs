//! Requests, by grant, and never on the skill's own thread.

use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::{Client, Method, Url};
use rquickjs::{Ctx, Function, Object, TypedArray};
use serde::Deserialize;

use super::{begun, bytes};
use crate::grants::Grants;
use crate::native::Native;
use crate::worker::{Raised, Settled};

const CONNECT: Duration = Duration::from_secs(30);
const REDIRECTS: usize = 20;

/// A request, as `fetch.js` says it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    url: String,
    method: String,
    headers: Vec<(String, String)>,
    /// `follow`, `error` or `manual`.
    redirect: String,
    timeout_ms: Option<u64>,
}

pub(super) fn equip<'js>(
    ctx: &Ctx<'js>,
    table: &Object<'js>,
    native: &Rc<Native>,
) -> rquickjs::Result<()> {
    let host = Rc::clone(native);
    let fetch = move |ctx: Ctx<'js>, request: String, body: Option<TypedArray<'js, u8>>| {
        let body = body.map(|body| bytes(&ctx, &body)).transpose()?;
        let grants = host.setup.grants.clone();
        let most = host.setup.settings.limits.result_bytes;
        begun(
            &ctx,
            host.operation(async move {
                let request: Request = serde_json::from_str(&request)
                    .map_err(|e| Raised::new("TypeError", e.to_string()))?;
                let timeout = request.timeout_ms.map(Duration::from_millis);
                let run = follow(&grants, &request, body, most);
                match timeout {
                    None => run.await,
                    Some(timeout) => {
                        tokio::time::timeout(timeout, run)
                            .await
                            .unwrap_or_else(|_| {
                                let words =
                                    format!("{}: no answer within {timeout:?}", request.url);
                                Err(Raised::new("TimeoutError", words))
                            })
                    }
                }
            }),
        )
    };
    table.set("fetch", Function::new(ctx.clone(), fetch)?)
}

/// A client with the system's certificates, one for all skills. Redirects are
/// followed by hand, so that each host is asked for.
fn client() -> Result<Client, Raised> {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    if let Some(client) = CLIENT.get() {
        return Ok(client.clone());
    }
    let make = || -> Result<Client, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = rustls_platform_verifier::Verifier::new(Arc::clone(&provider))
            .map_err(|e| format!("the system's certificates can't be used: {e}"))?;
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| format!("TLS can't be set up: {e}"))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        Client::builder()
            .tls_backend_preconfigured(tls)
            .user_agent(concat!("haft/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            .redirect(reqwest::redirect::Policy::none())
            // A connection that is kept would belong to the thread pool of the
            // host that made it.
            .pool_max_idle_per_host(0)
            .no_proxy()
            .build()
            .map_err(|e| format!("no HTTP client: {e}"))
    };
    let made = make().map_err(|words| Raised::new("TypeError", words))?;
    Ok(CLIENT.get_or_init(|| made).clone())
}

async fn follow(
    grants: &Grants,
    request: &Request,
    mut body: Option<Vec<u8>>,
    most: usize,
) -> Result<Settled, Raised> {
    let fail = |words: String| Raised::new("TypeError", format!("fetch failed: {words}"));
    let client = client()?;
    let mut url = Url::parse(&request.url).map_err(|e| fail(format!("{}: {e}", request.url)))?;
    let mut method = Method::from_bytes(request.method.as_bytes())
        .map_err(|_| fail(format!("`{}` is no method", request.method)))?;
    let mut headers = request.headers.clone();
    for redirects in 0..=REDIRECTS {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(fail(format!("{url}: only http and https")));
        }
        let host = url.host_str().unwrap_or_default();
        grants
            .check_network(host)
            .map_err(|words| Raised::new("NotAllowedError", words))?;
        let mut builder = client.request(method.clone(), url.clone());
        for (name, value) in &headers {
            builder = builder.header(name, value);
        }
        if let Some(body) = &body {
            builder = builder.body(body.clone());
        }
        let mut response = builder.send().await.map_err(|e| fail(chain(&e)))?;
        let status = response.status();
        let next = response
            .headers()
            .get(reqwest::header::LOCATION)
            .and_then(|to| to.to_str().ok())
            .and_then(|to| url.join(to).ok())
            .filter(|_| status.is_redirection());
        if let Some(next) = next
            && request.redirect != "manual"
        {
            if request.redirect == "error" {
                return Err(fail(format!("{url}: a redirect to {next}")));
            }
            if !matches!(status.as_u16(), 307 | 308) && method != Method::HEAD {
                method = Method::GET;
                body = None;
                headers.retain(|(name, _)| !name.to_lowercase().starts_with("content-"));
            }
            if next.origin() != url.origin() {
                // Secrets are meant for the host they were given for.
                headers.retain(|(name, _)| {
                    !["authorization", "cookie", "proxy-authorization"]
                        .contains(&name.to_lowercase().as_str())
                });
            }
            url = next;
            continue;
        }
        let named: Vec<(String, String)> = response
            .headers()
            .iter()
            .map(|(name, value)| {
                let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                (name.as_str().to_owned(), value)
            })
            .collect();
        let mut whole = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|e| fail(chain(&e)))? {
            if whole.len() + piece.len() > most {
                return Err(fail(format!(
                    "{url}: the answer is larger than {most} bytes"
                )));
            }
            whole.extend_from_slice(&piece);
        }
        let said = serde_json::json!({
            "status": status.as_u16(),
            "statusText": status.canonical_reason().unwrap_or_default(),
            "headers": named,
            "url": url.as_str(),
            "redirected": redirects > 0,
        });
        return Ok(Settled::JsonAndBytes(said.to_string(), whole));
    }
    Err(fail(format!(
        "{}: more than {REDIRECTS} redirects",
        request.url
    )))
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
