//! An answer: its head, and its body piece by piece.

use bytes::Bytes;
use haft_api::{Error, ErrorKind, Result};
use http::{HeaderMap, StatusCode};

/// An answer. Dropping it before its body's end closes the connection; at the
/// end the connection is kept for the next request.
#[derive(Debug)]
pub struct Response {
    inner: reqwest::Response,
}

impl Response {
    pub(super) fn new(inner: reqwest::Response) -> Self {
        Self { inner }
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.inner.status()
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        self.inner.headers()
    }

    /// The next piece of the body; `None` at its end.
    ///
    /// Cancel safe: dropping the future loses nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if the connection broke.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>> {
        self.inner.chunk().await.map_err(|e| {
            Error::new(
                ErrorKind::Unavailable,
                "the answer broke off: the connection was lost",
            )
            .source(e.without_url())
        })
    }
}
