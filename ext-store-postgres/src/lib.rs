//! Haft threads in PostgreSQL, for many processes on many machines.
#![forbid(unsafe_code)]

mod chain;
mod config;
mod create;
mod database;
mod extension;
mod failure;
mod lease;
mod list;
mod log;
mod metadata;
mod migrate;
mod notify;
mod read;
mod record;
mod store;
mod tls;
mod watch;
mod worker;
mod writer;

pub use config::{DurabilityPolicy, NotifyPolicy, PostgresConfig};
pub use extension::PostgresStoreExtension;
pub use store::PostgresStore;
pub use watch::{Watch, WatchEvent};
