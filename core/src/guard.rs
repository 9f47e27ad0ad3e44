//! The fence around every call of an extension: a panic becomes an error.

use std::panic::AssertUnwindSafe;

use futures::{FutureExt, Stream, StreamExt};
use haft_api::{Error, ErrorKind, Result, panic_message};

fn panicked(panic: &(dyn std::any::Any + Send), who: &str) -> Error {
    Error::new(ErrorKind::Unexpected, panic_message(panic)).context("extension", who)
}

/// Runs a synchronous call.
pub(crate) fn call<T>(who: &str, run: impl FnOnce() -> T) -> Result<T> {
    std::panic::catch_unwind(AssertUnwindSafe(run)).map_err(|panic| panicked(&*panic, who))
}

/// Runs an asynchronous call.
pub(crate) async fn future<T>(who: &str, run: impl Future<Output = Result<T>>) -> Result<T> {
    match AssertUnwindSafe(run).catch_unwind().await {
        Ok(outcome) => outcome,
        Err(panic) => Err(panicked(&*panic, who)),
    }
}

/// The next element of a stream.
pub(crate) async fn next<T>(
    who: &str,
    stream: &mut (impl Stream<Item = Result<T>> + Unpin),
) -> Option<Result<T>> {
    match AssertUnwindSafe(stream.next()).catch_unwind().await {
        Ok(next) => next,
        Err(panic) => Some(Err(panicked(&*panic, who))),
    }
}
