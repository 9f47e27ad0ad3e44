//! What hosts of scripts share.
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod authored_tests;
mod grant;
#[cfg(feature = "http")]
pub mod http;
mod log;
mod patience;
#[cfg(feature = "watch")]
mod watch;

pub use authored_tests::{AuthoredTest, AuthoredTests, Report, TestOutcome};
pub use grant::{Grant, real_place};
pub use log::{Level, LogSink, StderrLog};
pub use patience::look_again;
#[cfg(feature = "watch")]
pub use watch::{Watch, Watched};
