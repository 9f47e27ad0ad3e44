//! `fetch`: requests, and what comes of them.

use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use haft_script_host::http::{Client, Method, Redirects, Request, Url};
use rquickjs::{Ctx, Function, Object, TypedArray};
use serde::Deserialize;
use tokio::sync::Semaphore;

use super::bodies::{self, Bodies, Body};
use super::{raised, turnstile};
use crate::api::{as_double, as_number, begun, bytes, raise};
use crate::grants::Grants;
use crate::native::Native;
use crate::worker::{Raised, Settled};

/// A request, as `fetch.js` says it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    url: String,
    method: String,
    headers: Vec<(String, String)>,
    /// `follow`, `error` or `manual`.
    redirect: String,
    timeout_ms: Option<u64>,
    /// Where the body is to be found; without it, the body is wanted at once.
    body: Option<u64>,
}

impl Asked {
    fn request(&self, body: Option<Vec<u8>>) -> Result<Request, Raised> {
        let fail = |words: String| Raised::new("TypeError", format!("fetch failed: {words}"));
        Ok(Request {
            url: Url::parse(&self.url).map_err(|e| fail(format!("{}: {e}", self.url)))?,
            method: Method::from_bytes(self.method.as_bytes())
                .map_err(|_| fail(format!("`{}` is no method", self.method)))?,
            headers: self.headers.clone(),
            body,
            redirects: match &*self.redirect {
                "error" => Redirects::Refuse,
                "manual" => Redirects::Manual,
                _ => Redirects::Follow,
            },
        })
    }
}

/// What a request needs besides itself.
struct Means {
    grants: Grants,
    turnstile: Arc<Semaphore>,
    /// Most bytes of a body that is wanted at once.
    most: usize,
}

pub(super) fn equip<'js>(
    ctx: &Ctx<'js>,
    table: &Object<'js>,
    native: &Rc<Native>,
) -> rquickjs::Result<()> {
    let open = Rc::<Bodies>::default();
    let turnstile = turnstile(native);
    let most_open = native.setup.settings.limits.connections;
    let (host, bodies) = (Rc::clone(native), Rc::clone(&open));
    let fetch = move |ctx: Ctx<'js>, request: String, body: Option<TypedArray<'js, u8>>| {
        let body = body.map(|body| bytes(&ctx, &body)).transpose()?;
        let means = Means {
            grants: host.setup.grants.clone(),
            turnstile: Arc::clone(&turnstile),
            most: host.setup.settings.limits.result_bytes,
        };
        let asked: Asked = serde_json::from_str(&request)
            .map_err(|e| Raised::new("TypeError", e.to_string()))
            .or_else(|error| raise(&ctx, Err(error)))?;
        let place = asked.body.map(|number| bodies.get(number));
        let place = raise(&ctx, place.transpose())?;
        begun(&ctx, host.operation(within(asked, body, means, place)))
    };
    table.set("fetch", Function::new(ctx.clone(), fetch)?)?;

    let bodies = Rc::clone(&open);
    let place = move |ctx: Ctx<'js>| {
        if bodies.len() >= most_open {
            // Answers that were forgotten hold their connections no longer.
            ctx.run_gc();
        }
        as_double(bodies.open())
    };
    table.set("bodyPlace", Function::new(ctx.clone(), place)?)?;

    let (host, bodies) = (Rc::clone(native), Rc::clone(&open));
    let piece = move |ctx: Ctx<'js>, number: f64| {
        let body = raise(&ctx, bodies.get(as_number(number)))?;
        begun(&ctx, host.operation(bodies::piece(body)))
    };
    table.set("bodyPiece", Function::new(ctx.clone(), piece)?)?;

    let (host, bodies) = (Rc::clone(native), Rc::clone(&open));
    let whole = move |ctx: Ctx<'js>, number: f64| {
        let body = raise(&ctx, bodies.get(as_number(number)))?;
        let most = host.setup.settings.limits.result_bytes;
        begun(&ctx, host.operation(bodies::whole(body, most)))
    };
    table.set("bodyWhole", Function::new(ctx.clone(), whole)?)?;

    let drop = move |number: f64| open.remove(as_number(number));
    table.set("bodyDrop", Function::new(ctx.clone(), drop)?)
}

/// One client for all skills. A connection that it kept would belong to the
/// threads of the host that made it.
fn client() -> Result<Client, Raised> {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    if let Some(client) = CLIENT.get() {
        return Ok(client.clone());
    }
    let made = Client::new(0).map_err(raised)?;
    Ok(CLIENT.get_or_init(|| made).clone())
}

async fn within(
    asked: Asked,
    body: Option<Vec<u8>>,
    means: Means,
    place: Option<Body>,
) -> Result<Settled, Raised> {
    let run = answer(&asked, body, means, place);
    let Some(timeout) = asked.timeout_ms.map(Duration::from_millis) else {
        return run.await;
    };
    let within = tokio::time::timeout(timeout, run).await;
    within.unwrap_or_else(|_| {
        let words = format!("{}: no answer within {timeout:?}", asked.url);
        Err(Raised::new("TimeoutError", words))
    })
}

async fn answer(
    asked: &Asked,
    body: Option<Vec<u8>>,
    means: Means,
    place: Option<Body>,
) -> Result<Settled, Raised> {
    let request = asked.request(body)?;
    let is_head = request.method == Method::HEAD;
    let permit = means.turnstile.acquire_owned().await;
    let permit = permit.map_err(|_| Raised::new("AbortError", "the skill ends"))?;
    let allows = |host: &str| means.grants.check_network(host);
    let mut answer = client()?.send(request, allows).await.map_err(raised)?;
    let status = answer.status;
    let has_body = !is_head && !matches!(status.as_u16(), 101 | 103 | 204 | 205 | 304);
    let head = serde_json::json!({
        "status": status.as_u16(),
        "statusText": status.canonical_reason().unwrap_or_default(),
        "headers": std::mem::take(&mut answer.headers),
        "url": answer.url.as_str(),
        "redirected": answer.redirected,
        "hasBody": has_body,
    });
    match place {
        None => {
            let bytes = answer.whole(means.most).await.map_err(raised)?;
            Ok(Settled::JsonAndBytes(head.to_string(), bytes))
        }
        Some(place) => {
            if has_body {
                *place.lock().await = Some((answer, permit));
            }
            Ok(Settled::Json(head.to_string()))
        }
    }
}
