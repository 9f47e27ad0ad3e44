//! Events: two classes, one order, many readers.

mod hub;
mod subscription;
#[cfg(test)]
mod tests;

pub(crate) use hub::{EventHub, Unnumbered};
pub use subscription::Subscription;
