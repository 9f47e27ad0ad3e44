//! Skills written in JavaScript or TypeScript.
#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod actor;
mod api;
mod check;
mod choices;
mod config;
mod core;
mod credentials;
mod extension;
mod failure;
mod grants;
mod host;
mod json;
mod lists;
mod load;
mod manifest;
mod native;
mod pulse;
#[cfg(feature = "reload")]
mod reload;
mod result;
mod rpc;
mod scaffold;
mod skill;
mod source;
mod supervisor;
mod thrown;
mod types;
mod typescript;
mod vm;
mod worker;

pub use check::{Report, check};
pub use config::{Limits, Settings};
pub use credentials::CredentialPlace;
pub use extension::QuickJsExtension;
pub use failure::{Failure, FailureKind};
pub use grants::Grants;
pub use haft_script_host::{Grant, Level, LogSink, StderrLog, TestOutcome};
pub use host::{QuickJsHost, RpcAnswer};
pub use lists::CommandInfo;
pub use manifest::SkillManifest;
pub use scaffold::{Language, scaffold};
pub use skill::{SkillSnapshot, SkillStatus};
pub use types::declarations;
