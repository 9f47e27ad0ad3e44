//! `haft.http`: requests, by grant.

use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use mlua::{Lua, Table, Value};
use reqwest::{Client, Method, Url};

use super::option;
use crate::script::Script;
use crate::state::Host;

const CONNECT: Duration = Duration::from_secs(30);
const REDIRECTS: usize = 10;

pub(super) fn add(
    lua: &Lua,
    host: &Rc<Host>,
    script: &Rc<Script>,
    haft: &Table,
) -> mlua::Result<()> {
    let table = lua.create_table()?;
    let client: Rc<OnceCell<Client>> = Rc::default();
    let request = |default: &'static str| {
        let (of, shared, most) = (
            Rc::clone(script),
            Rc::clone(&client),
            host.settings.limits.result_bytes,
        );
        let name = format!("haft.http.{}", default.to_lowercase());
        host.awaiting(
            lua,
            &name,
            move |_, (first, second): (Value, Option<Table>)| {
                let (url, given) = match (first, second) {
                    (Value::String(url), given) => (Some(url.to_string_lossy()), given),
                    (Value::Table(given), _) => (option(&given, "url")?, Some(given)),
                    _ => (None, None),
                };
                let url = url.ok_or("a request has a url")?;
                let request = Request::read(&url, given.as_ref(), default)?;
                let client = match shared.get() {
                    Some(client) => client.clone(),
                    None => {
                        let made = client_of_system()?;
                        shared.get_or_init(|| made).clone()
                    }
                };
                let of = Rc::clone(&of);
                Ok(async move { send(&client, &of, request, most).await })
            },
        )
    };
    table.raw_set("request", request("REQUEST")?)?;
    table.raw_set("get", request("GET")?)?;
    table.raw_set("post", request("POST")?)?;
    haft.raw_set("http", table)
}

struct Request {
    method: Method,
    url: Url,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
    timeout: Option<Duration>,
}

impl Request {
    fn read(url: &str, given: Option<&Table>, default: &str) -> Result<Self, String> {
        let url = Url::parse(url).map_err(|e| format!("{url}: {e}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("{url}: only http and https"));
        }
        let mut request = Self {
            method: match default {
                "REQUEST" => Method::GET,
                name => Method::from_bytes(name.as_bytes()).unwrap_or(Method::GET),
            },
            url,
            headers: Vec::new(),
            body: None,
            timeout: None,
        };
        let Some(given) = given else {
            return Ok(request);
        };
        if let Some(method) = option::<String>(given, "method")? {
            request.method = Method::from_bytes(method.to_uppercase().as_bytes())
                .map_err(|_| format!("`{method}` is no method"))?;
        }
        if let Some(headers) = option::<Table>(given, "headers")? {
            for pair in headers.pairs::<String, String>() {
                request
                    .headers
                    .push(pair.map_err(|e| format!("field `headers`: {e}"))?);
            }
            request.headers.sort();
        }
        request.body =
            option::<mlua::LuaString>(given, "body")?.map(|body| body.as_bytes().to_vec());
        request.timeout = option::<f64>(given, "timeout_ms")?
            .map(super::values::milliseconds)
            .transpose()?;
        Ok(request)
    }
}

/// A client with the system's certificates. Redirects are followed by hand, so
/// that each host is asked for.
fn client_of_system() -> Result<Client, String> {
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
        .no_proxy()
        .build()
        .map_err(|e| format!("no HTTP client: {e}"))
}

async fn send(
    client: &Client,
    script: &Script,
    request: Request,
    most: usize,
) -> crate::scheduler::Answer {
    let run = follow(client, script, &request, most);
    let (status, headers, body, url) = match request.timeout {
        Some(timeout) => tokio::time::timeout(timeout, run)
            .await
            .map_err(|_| format!("{}: no answer within {timeout:?}", request.url))?,
        None => run.await,
    }?;
    Ok(Box::new(move |lua| {
        let table = lua.create_table()?;
        table.raw_set("status", status)?;
        table.raw_set("ok", (200..300).contains(&status))?;
        table.raw_set("url", url)?;
        let named = lua.create_table()?;
        for (name, value) in headers {
            let before: Option<String> = named.raw_get(name.as_str())?;
            let value = before.map_or(value.clone(), |before| format!("{before}, {value}"));
            named.raw_set(name, value)?;
        }
        table.raw_set("headers", named)?;
        table.raw_set("body", lua.create_string(body)?)?;
        Ok([Value::Table(table)].into_iter().collect())
    }))
}

type Response = (u16, Vec<(String, String)>, Vec<u8>, String);

async fn follow(
    client: &Client,
    script: &Script,
    request: &Request,
    most: usize,
) -> Result<Response, String> {
    let (mut url, mut method) = (request.url.clone(), request.method.clone());
    let (mut body, mut headers) = (request.body.clone(), request.headers.clone());
    for _ in 0..=REDIRECTS {
        let host = url.host_str().unwrap_or_default();
        script.grants.check_network(script.name(), host)?;
        let mut builder = client.request(method.clone(), url.clone());
        for (name, value) in &headers {
            builder = builder.header(name, value);
        }
        if let Some(body) = &body {
            builder = builder.body(body.clone());
        }
        let mut response = builder.send().await.map_err(|e| chain(&e))?;
        let status = response.status();
        let next = response
            .headers()
            .get(reqwest::header::LOCATION)
            .and_then(|to| to.to_str().ok())
            .and_then(|to| url.join(to).ok())
            .filter(|to| status.is_redirection() && matches!(to.scheme(), "http" | "https"));
        if let Some(next) = next {
            if !matches!(status.as_u16(), 307 | 308) && method != Method::HEAD {
                method = Method::GET;
                body = None;
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
        let headers = response
            .headers()
            .iter()
            .map(|(name, value)| {
                let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                (name.as_str().to_owned(), value)
            })
            .collect();
        let mut whole = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|e| chain(&e))? {
            if whole.len() + piece.len() > most {
                return Err(format!("{url}: the answer is larger than {most} bytes"));
            }
            whole.extend_from_slice(&piece);
        }
        return Ok((status.as_u16(), headers, whole, url.to_string()));
    }
    Err(format!("{}: more than {REDIRECTS} redirects", request.url))
}

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
