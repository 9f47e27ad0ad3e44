//! What can go wrong with a connection, as the runtime's errors.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use haft_api::{Error, ErrorKind};
use http::StatusCode;
use http::header::{CONTENT_ENCODING, HeaderMap, LOCATION};

use super::connect::ConnectError;
use super::proxy::Proxy;
use super::response::Response;
use crate::endpoint::shown;
use crate::failure;

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

/// What kept a connection from being made.
pub(super) fn unconnected(
    error: &ConnectError,
    connect_timeout_ms: u64,
    proxy: Option<&Proxy>,
) -> Error {
    if cause::<rustls::Error>(error).is_some() {
        return Error::new(
            ErrorKind::Unavailable,
            "no secure connection: the server's certificate or TLS isn't accepted (for a \
             certificate authority of your own, set `ca_file`)",
        )
        .permanent();
    }
    let io_kind = cause::<io::Error>(error).map(io::Error::kind);
    let timed_out = matches!(error, ConnectError::TimedOut);
    if timed_out || io_kind == Some(io::ErrorKind::TimedOut) {
        let way = proxy.map_or(String::new(), |p| {
            format!(" through the proxy {}", p.shown())
        });
        return Error::new(
            ErrorKind::Timeout,
            format!(
                "no connection within {connect_timeout_ms} ms{way}: is the address right, and \
                 the server reachable from here?"
            ),
        )
        .temporary();
    }
    let is_refused = io_kind == Some(io::ErrorKind::ConnectionRefused);
    match proxy {
        Some(proxy) => unproxied(error, is_refused, proxy),
        None if is_refused => Error::new(
            ErrorKind::Unavailable,
            "nothing answers there (connection refused): start the server, or set `base_url` to \
             where it is",
        ),
        None => Error::new(
            ErrorKind::Unavailable,
            "no connection: is the address right, and the network there?",
        ),
    }
}

fn unproxied(error: &ConnectError, is_refused: bool, proxy: &Proxy) -> Error {
    let at = proxy.shown();
    if is_refused {
        return Error::new(
            ErrorKind::Unavailable,
            format!("the proxy {at} doesn't answer (connection refused): is `proxy` right?"),
        );
    }
    // The library tells it in words alone.
    let said = error.to_string();
    if said.contains("proxy authorization required") {
        return wants_login(proxy);
    }
    Error::new(
        ErrorKind::Unavailable,
        format!("no connection through the proxy {at}: {said}"),
    )
}

fn wants_login(proxy: &Proxy) -> Error {
    let at = proxy.shown();
    let what = match proxy.authorization() {
        Some(_) => "doesn't accept the user and password of its URL",
        None => "wants a user and a password, which belong into its URL",
    };
    Error::new(ErrorKind::Denied, format!("the proxy {at} {what}"))
}

/// Whether a request failed because the server had closed the connection, and
/// without a word in answer.
pub(super) fn is_of_a_closed_connection(error: &hyper::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected};
    let io_kind = cause::<io::Error>(error).map(io::Error::kind);
    error.is_incomplete_message()
        || error.is_closed()
        || matches!(
            io_kind,
            Some(BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected)
        )
}

/// The error of a request whose connection broke.
pub(super) fn broken(error: hyper::Error) -> Error {
    let message = match error.is_parse() {
        true => "what answers there doesn't speak HTTP/1.1: is `base_url` right?",
        false => "the connection broke before the server answered",
    };
    Error::new(ErrorKind::Unavailable, message).source(error)
}

/// The error of an answer that is none: what the server says, and when to come
/// back.
pub(super) async fn refused(mut response: Response, proxy: Option<&Proxy>) -> Error {
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
    if let (StatusCode::PROXY_AUTHENTICATION_REQUIRED, Some(proxy)) = (status, proxy) {
        return wants_login(proxy).context("status", status.as_u16());
    }
    let delay = failure::retry_after_from_headers(response.headers());
    let body = match encoding(response.headers()) {
        Some(encoding) => {
            format!("(its words are in `{encoding}` encoding, which wasn't asked for)").into_bytes()
        }
        None => read_bounded(&mut response, failure::READ_BYTES).await,
    };
    failure::from_response(status.as_u16(), &body, delay)
}

/// How a body is encoded, if it is: nothing of the kind is asked for.
pub(crate) fn encoding(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(CONTENT_ENCODING)?.to_str().ok()?;
    let encoding = value.trim().to_ascii_lowercase();
    (!matches!(&*encoding, "" | "identity")).then_some(encoding)
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
