//! Makes connections: straight to the server or through a proxy.

use std::error::Error as StdError;
use std::fmt;
use std::future::poll_fn;
use std::path::Path;
use std::time::Duration;

use haft_api::{Error, ErrorKind, Result};
use http::Uri;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use tower_service::Service;

use super::connection::Connection;
use super::proxy::{Proxy, uri_of_server};
use super::tls;
use crate::endpoint::Endpoint;

type BoxError = Box<dyn StdError + Send + Sync>;

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum ConnectError {
    /// It took too long.
    TimedOut,
    Failed(BoxError),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut => f.write_str("it took too long"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl StdError for ConnectError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::TimedOut => None,
            Self::Failed(error) => Some(&**error),
        }
    }
}

/// Makes connections to one server.
pub(super) struct Connector {
    route: Route,
    /// What the route begins with.
    destination: Uri,
    limit: Duration,
}

enum Route {
    Plain(HttpConnector),
    Encrypted(HttpsConnector<HttpConnector>),
    Tunnelled(Box<HttpsConnector<Tunnel<HttpsConnector<HttpConnector>>>>),
}

impl Connector {
    /// Reads certificates if they are needed, and does no other I/O.
    ///
    /// # Errors
    /// That TLS can't be set up.
    pub(super) fn new(
        endpoint: &Endpoint,
        proxy: Option<&Proxy>,
        ca_file: Option<&Path>,
        limit: Duration,
    ) -> Result<Self> {
        let server = uri_of_server(endpoint.base())
            .ok_or_else(|| Error::new(ErrorKind::InvalidInput, "`base_url` has no usable host"))?;
        let encrypted =
            || -> Result<_> { Ok(HttpsConnector::from((tcp(limit), tls::config(ca_file)?))) };
        let (route, destination) = match (endpoint.is_https(), proxy) {
            (false, None) => (Route::Plain(tcp(limit)), server),
            (true, None) => (Route::Encrypted(encrypted()?), server),
            (false, Some(proxy)) => {
                let route = match proxy.is_https() {
                    true => Route::Encrypted(encrypted()?),
                    false => Route::Plain(tcp(limit)),
                };
                (route, proxy.uri().clone())
            }
            (true, Some(proxy)) => {
                let mut tunnel = Tunnel::new(proxy.uri().clone(), encrypted()?);
                if let Some(value) = proxy.authorization() {
                    tunnel = tunnel.with_auth(value.clone());
                }
                let inner = HttpsConnector::from((tunnel, tls::config(ca_file)?));
                (Route::Tunnelled(Box::new(inner)), server)
            }
        };
        Ok(Self {
            route,
            destination,
            limit,
        })
    }

    /// Makes a connection.
    pub(super) async fn connect(&self) -> Result<Connection, ConnectError> {
        let connected = async {
            let to = self.destination.clone();
            let connection = match &self.route {
                Route::Plain(connector) => Connection::new(call(connector, to).await?).await,
                Route::Encrypted(connector) => Connection::new(call(connector, to).await?).await,
                Route::Tunnelled(connector) => Connection::new(call(&**connector, to).await?).await,
            };
            connection.map_err(BoxError::from)
        };
        match tokio::time::timeout(self.limit, connected).await {
            Ok(connected) => connected.map_err(ConnectError::Failed),
            Err(_) => Err(ConnectError::TimedOut),
        }
    }
}

async fn call<C>(connector: &C, to: Uri) -> Result<C::Response, BoxError>
where
    C: Service<Uri, Error: Into<BoxError>> + Clone,
{
    let mut connector = connector.clone();
    let ready = poll_fn(|context| connector.poll_ready(context)).await;
    ready.map_err(Into::into)?;
    connector.call(to).await.map_err(Into::into)
}

/// A silent network is noticed after a few of these, also while a model thinks.
const PROBE: Duration = Duration::from_secs(15);

fn tcp(limit: Duration) -> HttpConnector {
    let mut connector = HttpConnector::new();
    // It makes the connection below TLS as well.
    connector.enforce_http(false);
    connector.set_nodelay(true);
    // Each of a host's addresses gets its share of the time.
    connector.set_connect_timeout(Some(limit));
    connector.set_keepalive(Some(PROBE));
    connector.set_keepalive_interval(Some(PROBE));
    connector.set_keepalive_retries(Some(3));
    connector
}
