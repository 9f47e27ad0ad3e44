//! Tools and commands written in Lua.
#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod annotations;
mod api;
mod call;
mod check;
mod command;
mod config;
mod extension;
mod failure;
mod grants;
mod head;
mod host;
mod json;
mod load;
mod luv;
mod native;
mod own_limits;
mod pulse;
mod registration;
#[cfg(feature = "reload")]
mod reload;
mod result;
mod scaffold;
mod scheduler;
mod script;
mod source;
mod state;
mod worker;
mod yieldable;

pub use annotations::annotations;
pub use check::{Report, check};
pub use config::{Limits, Settings};
pub use extension::LuaExtension;
pub use failure::{Failure, FailureKind};
pub use grants::Grants;
pub use haft_script_host::{Grant, Level, LogSink, StderrLog, TestOutcome};
pub use host::LuaHost;
pub use own_limits::OwnLimits;
pub use scaffold::scaffold;
pub use worker::Memory;
