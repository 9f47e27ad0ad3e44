//! The store over a real server, alive and dead.

mod broken;
mod child;
mod conformance;
mod crashes;
mod leases;
mod rows;
mod support;
#[cfg(feature = "tls")]
mod tls;
mod watching;
