//! `haft.http`: requests, by grant.

use std::cell::OnceCell;
use std::rc::Rc;
use std::time::Duration;

use haft_script_host::http::{self, Client, Method, Redirects, Request, Url};
use mlua::{Lua, Table, Value};

use super::option;
use crate::script::Script;
use crate::state::Host;

/// How many idle connections to a host a state keeps.
const IDLE: usize = 8;

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
                let (request, timeout) = read(&url, given.as_ref(), default)?;
                let client = match shared.get() {
                    Some(client) => client.clone(),
                    None => {
                        let made = Client::new(IDLE).map_err(|e| e.to_string())?;
                        shared.get_or_init(|| made).clone()
                    }
                };
                let of = Rc::clone(&of);
                Ok(async move { send(&client, &of, request, timeout, most).await })
            },
        )
    };
    table.raw_set("request", request("REQUEST")?)?;
    table.raw_set("get", request("GET")?)?;
    table.raw_set("post", request("POST")?)?;
    haft.raw_set("http", table)
}

/// The request that a table describes, and how long it may take.
fn read(
    url: &str,
    given: Option<&Table>,
    default: &str,
) -> Result<(Request, Option<Duration>), String> {
    let url = Url::parse(url).map_err(|e| format!("{url}: {e}"))?;
    let mut request = Request {
        method: match default {
            "REQUEST" => Method::GET,
            name => Method::from_bytes(name.as_bytes()).unwrap_or(Method::GET),
        },
        url,
        headers: Vec::new(),
        body: None,
        redirects: Redirects::Follow,
    };
    let Some(given) = given else {
        return Ok((request, None));
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
    request.body = option::<mlua::LuaString>(given, "body")?.map(|body| body.as_bytes().to_vec());
    let timeout = option::<f64>(given, "timeout_ms")?
        .map(super::values::milliseconds)
        .transpose()?;
    Ok((request, timeout))
}

async fn send(
    client: &Client,
    script: &Script,
    request: Request,
    timeout: Option<Duration>,
    most: usize,
) -> crate::scheduler::Answer {
    let asked = request.url.clone();
    let run = async {
        let allows = |host: &str| script.grants.check_network(script.name(), host);
        let mut answer = client.send(request, allows).await?;
        let (status, url) = (answer.status.as_u16(), answer.url.to_string());
        let headers = std::mem::take(&mut answer.headers);
        let body = answer.whole(most).await?;
        Ok::<_, http::Error>((status, headers, body, url))
    };
    let answered = match timeout {
        Some(timeout) => tokio::time::timeout(timeout, run)
            .await
            .map_err(|_| format!("{asked}: no answer within {timeout:?}"))?,
        None => run.await,
    };
    let (status, headers, body, url) = answered.map_err(|e| e.to_string())?;
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
