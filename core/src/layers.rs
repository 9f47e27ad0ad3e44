//! Layers around an engine: each is an engine itself, and adds one thing.

mod fallback;
mod idle;
mod retry;

pub use fallback::{Choice, Fallback, Switch, SwitchObserver};
pub use idle::IdleTimeout;
pub use retry::{Retry, RetryObserver, RetryPolicy};
