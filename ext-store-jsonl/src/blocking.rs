//! File work off the async runtime's workers.

use haft_api::{Error, ErrorKind, Result, panic_message};

/// Runs file work on the runtime's blocking threads, so that a slow disk holds
/// up nobody but the caller. Without a runtime of tokio's around, it runs here.
///
/// Dropping the future doesn't stop work that has begun.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        return work();
    };
    match runtime.spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(failure) => match failure.try_into_panic() {
            Ok(panic) => Err(Error::new(ErrorKind::Unexpected, panic_message(&*panic))),
            Err(_) => Err(Error::new(
                ErrorKind::Unavailable,
                "the runtime is shutting down; nothing was done",
            )
            .permanent()),
        },
    }
}
