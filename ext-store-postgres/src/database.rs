//! Connections to the database, and one operation on one of them.

use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod};
use haft_api::{Error, ErrorKind, Result};

use crate::config::PostgresConfig;
use crate::failure::{Failure, explain};
use crate::tls::{self, Tls};

/// How long connecting may take, unless the connection string says so.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The database, by its pool of connections. To be used on the worker only.
pub(crate) struct Database {
    pool: Pool,
    connect: tokio_postgres::Config,
    tls: Tls,
    schema: String,
    timeout: Duration,
}

impl Database {
    /// Connects to nothing yet.
    pub(crate) fn new(config: &PostgresConfig) -> Result<Self> {
        let url = config.url.resolve()?;
        // The reason isn't told: it may repeat what it couldn't read.
        let mut connect: tokio_postgres::Config = url.parse().map_err(|_| {
            Error::new(
                ErrorKind::InvalidInput,
                "the connection string can't be read; it looks like \
                 `postgres://user:password@host:5432/database` or `host=… user=… dbname=…`, with \
                 special characters of a URL's password as %xx",
            )
            .context("from", config.url.name())
        })?;
        if connect.get_application_name().is_none() {
            connect.application_name("haft");
        }
        if connect.get_connect_timeout().is_none() {
            connect.connect_timeout(CONNECT_TIMEOUT);
        }
        if connect.get_tcp_user_timeout().is_none() {
            connect.tcp_user_timeout(config.timeout);
        }
        let tls = tls::connector(config.ca_file.as_deref(), connect.get_ssl_mode())?;
        let manager = ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        };
        let pool = Pool::builder(Manager::from_config(connect.clone(), tls.clone(), manager))
            .max_size(config.connections)
            .build()
            .map_err(|e| Error::new(ErrorKind::Unexpected, "no pool can be made").source(e))?;
        Ok(Self {
            pool,
            connect,
            tls,
            schema: config.schema.clone(),
            timeout: config.timeout,
        })
    }

    /// A statement with the schema's name in place of `{s}`, and the server's
    /// time in milliseconds in place of `{now}`.
    pub(crate) fn sql(&self, text: &str) -> String {
        text.replace("{s}", &self.schema).replace(
            "{now}",
            "(extract(epoch FROM clock_timestamp()) * 1000)::bigint",
        )
    }

    pub(crate) fn schema(&self) -> &str {
        &self.schema
    }

    /// The channel on which other nodes are told of changes.
    pub(crate) fn channel(&self) -> String {
        format!("{}_threads", self.schema)
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// What a connection outside the pool is made with.
    pub(crate) fn connect_by(&self) -> (&tokio_postgres::Config, Tls) {
        (&self.connect, self.tls.clone())
    }

    /// Does something on a connection, within the time for one operation. A
    /// connection that was given up in the middle isn't used again.
    pub(crate) async fn with<T>(
        &self,
        work: impl AsyncFnOnce(&mut Object) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let deadline = tokio::time::Instant::now() + self.timeout;
        let got = tokio::time::timeout_at(deadline, self.pool.get()).await;
        let mut client = match got {
            Ok(Ok(client)) => client,
            Ok(Err(PoolError::Backend(error))) => {
                let error = explain(error);
                return Err(match error.kind() {
                    ErrorKind::Unavailable => Failure::Unreachable(error),
                    _ => Failure::Refused(error),
                });
            }
            Ok(Err(error)) => {
                let text = "no connection to the database can be had";
                let error = Error::new(ErrorKind::Unavailable, text).source(error);
                return Err(Failure::Refused(error));
            }
            Err(_) => return Err(Failure::Refused(self.too_late("no connection became free"))),
        };
        match tokio::time::timeout_at(deadline, work(&mut client)).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(failure)) => {
                if matches!(failure, Failure::Unknown(_)) {
                    drop(Object::take(client));
                }
                Err(failure)
            }
            Err(_) => {
                drop(Object::take(client));
                let error = self.too_late("the database gave no answer");
                Err(Failure::Unknown(error))
            }
        }
    }

    /// [`with`](Self::with), where it doesn't matter what is known of a failure.
    pub(crate) async fn ask<T>(
        &self,
        work: impl AsyncFnOnce(&mut Object) -> Result<T, Failure>,
    ) -> Result<T> {
        self.with(work).await.map_err(Failure::into_error)
    }

    fn too_late(&self, what: &str) -> Error {
        let text = format!("{what} within {:?}", self.timeout);
        Error::new(ErrorKind::Unavailable, text)
    }
}
