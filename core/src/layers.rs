//! Layers around an engine: each is an engine itself, and adds one thing.

mod idle;
mod retry;

pub use idle::IdleTimeout;
pub use retry::{Retry, RetryObserver, RetryPolicy};
