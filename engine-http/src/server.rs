//! What the transport is told about a server.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use haft_api::{Error, ErrorKind, Result};

use crate::endpoint::{Endpoint, shown};

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// Where a server is, and how to reach it.
///
/// Errors name the fields as the user knows them: an engine calls its settings
/// what the fields are called here.
///
/// ```
/// use haft_engine_http::{KeyHeader, ServerConfig, Transport};
///
/// let mut server = ServerConfig::new("https://api.anthropic.com/v1", "messages");
/// server.key_header = KeyHeader::Named("x-api-key");
/// server.wire_headers = vec![("anthropic-version", "2023-06-01")];
/// let transport = Transport::new(server)?;
/// # Ok::<(), haft_api::Error>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct ServerConfig {
    /// Where the server's API begins. A query (`?api-version=…`) is kept.
    pub base_url: String,
    /// What is appended to it for a turn. A base URL that ends in it already is
    /// understood.
    pub turn_path: &'static str,
    /// The key. Blanks around it are cut off; an empty one is none.
    pub api_key: Option<String>,
    /// The environment variable that holds the key, where `api_key` is not set.
    pub api_key_env: Option<String>,
    /// The header that carries the key.
    pub key_header: KeyHeader,
    /// What to say before any request where no key is set and the server won't
    /// answer without one. By default it is asked all the same.
    pub without_key: Option<&'static str>,
    /// Headers that the wire wants: name in lower case, and value.
    pub wire_headers: Vec<(&'static str, &'static str)>,
    /// Further headers; they win over all others.
    pub headers: BTreeMap<String, String>,
    /// Milliseconds until a connection must stand, at most a day.
    pub connect_timeout_ms: u64,
    /// Milliseconds that the model may say nothing: from the request until its
    /// first event, and between two events; at most a day.
    pub idle_timeout_ms: u64,
    /// A proxy's URL (`http://user:password@host:port`; it may be `https`), or
    /// [`PROXY_OF_ENVIRONMENT`]. By default, and where it is empty, there is
    /// none.
    pub proxy: Option<String>,
    /// A file of PEM certificates that are trusted besides the system's.
    pub ca_file: Option<PathBuf>,
}

/// What [`ServerConfig::proxy`] is to say for the proxy that `HTTPS_PROXY`,
/// `HTTP_PROXY` and `ALL_PROXY` name, but for the hosts in `NO_PROXY` and those
/// of this machine. The variables may be written in lower case, too.
pub const PROXY_OF_ENVIRONMENT: &str = "environment";

/// The header that carries a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyHeader {
    /// `Authorization: Bearer …`.
    Bearer,
    /// A header of this name (in lower case) with the key alone.
    Named(&'static str),
}

impl ServerConfig {
    /// A server without a key, all else at its default.
    pub fn new(base_url: impl Into<String>, turn_path: &'static str) -> Self {
        Self {
            base_url: base_url.into(),
            turn_path,
            api_key: None,
            api_key_env: None,
            key_header: KeyHeader::Bearer,
            without_key: None,
            wire_headers: Vec::new(),
            headers: BTreeMap::new(),
            connect_timeout_ms: 10_000,
            idle_timeout_ms: 300_000,
            proxy: None,
            ca_file: None,
        }
    }

    /// The server's host, in lower case; empty if the base URL has none.
    pub fn host(&self) -> String {
        let base = Endpoint::new(&self.base_url, self.turn_path);
        base.map_or(String::new(), |base| base.host().to_owned())
    }

    /// # Errors
    /// [`ErrorKind::InvalidInput`], naming the time that isn't right.
    pub(crate) fn check_times(&self) -> Result<()> {
        for (name, value) in [
            ("connect_timeout_ms", self.connect_timeout_ms),
            ("idle_timeout_ms", self.idle_timeout_ms),
        ] {
            if !(1..=DAY_MS).contains(&value) {
                return Err(Error::new(
                    ErrorKind::InvalidInput,
                    format!("`{name}` is {value}, and must be from 1 to {DAY_MS}"),
                ));
            }
        }
        Ok(())
    }
}

impl fmt::Debug for ServerConfig {
    /// Shows neither the key nor what the headers and the proxy's URL say.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConfig")
            .field("base_url", &shown(&self.base_url))
            .field("turn_path", &self.turn_path)
            .field("api_key", &self.api_key.as_ref().map(|_| "…"))
            .field("api_key_env", &self.api_key_env)
            .field("key_header", &self.key_header)
            .field("wire_headers", &self.wire_headers)
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("connect_timeout_ms", &self.connect_timeout_ms)
            .field("idle_timeout_ms", &self.idle_timeout_ms)
            .field("proxy", &self.proxy.as_ref().map(|_| "…"))
            .field("ca_file", &self.ca_file)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let mut server = ServerConfig::new("http://me:hush1@x.test/?k=hush2", "t");
        server.api_key = Some("hush3".to_owned());
        server.headers.insert("x".to_owned(), "hush4".to_owned());
        server.proxy = Some("http://u:hush5@p.test".to_owned());
        let shown = format!("{server:?}");
        assert!(!shown.contains("hush"), "{shown}");
    }
}
