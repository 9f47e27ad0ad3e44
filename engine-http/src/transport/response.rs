//! An answer: its head, and its body piece by piece.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use haft_api::{Error, ErrorKind, Result};
use http::response::Parts;
use http::{HeaderMap, StatusCode};
use hyper::body::Incoming;

use super::connection::Connection;
use super::pool::Pool;

/// An answer. Dropping it before its body's end closes the connection; at the
/// end, or where the rest doesn't matter, the connection is kept for the next
/// request.
pub struct Response {
    head: Parts,
    body: Incoming,
    /// `None` after the end.
    connection: Option<Connection>,
    pool: Arc<Pool>,
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response")
            .field("status", &self.head.status)
            .field("headers", &self.head.headers)
            .finish_non_exhaustive()
    }
}

impl Response {
    pub(super) fn new(
        response: http::Response<Incoming>,
        connection: Connection,
        pool: Arc<Pool>,
    ) -> Self {
        let (head, body) = response.into_parts();
        Self {
            head,
            body,
            connection: Some(connection),
            pool,
        }
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.head.status
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// Lets go of an answer of which nothing more is wanted, and that is about to
    /// end: the connection is kept, and the rest is read before its next request.
    pub(crate) fn leave_rest(self) {
        if let Some(connection) = self.connection {
            self.pool.put_with_rest(connection, self.body);
        }
    }

    /// The next piece of the body; `None` at its end.
    ///
    /// Cancel safe: dropping the future loses nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if the connection broke.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>> {
        while let Some(connection) = &mut self.connection {
            match connection.frame(&mut self.body).await {
                Some(Ok(frame)) => {
                    // Trailers say nothing that counts.
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Some(Err(error)) => {
                    self.connection = None;
                    return Err(Error::new(
                        ErrorKind::Unavailable,
                        "the answer broke off: the connection was lost",
                    )
                    .source(error));
                }
                None => {
                    if let Some(connection) = self.connection.take() {
                        self.pool.put(connection);
                    }
                }
            }
        }
        Ok(None)
    }
}
