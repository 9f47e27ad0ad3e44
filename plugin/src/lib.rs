//! Loads extensions of the Haft agent runtime from shared objects.
//!
//! ```no_run
//! use std::path::Path;
//! use haft_api::{ExtensionConfig, ExtensionRegistryBuilder};
//! use haft_plugin::{LoadOptions, load};
//!
//! # fn main() -> haft_api::Result<()> {
//! let plugin = load(Path::new("/opt/haft/libweather.so"), &LoadOptions::default())?;
//! let mut builder = ExtensionRegistryBuilder::new();
//! for extension in plugin.extensions() {
//!     builder.extension(extension, &ExtensionConfig::empty())?;
//! }
//! let registry = builder.build()?;
//! # Ok(())
//! # }
//! ```
//!
//! What is registered in this way is used like any other part of a runtime: each
//! is a proxy that calls the plug-in over the C ABI of [`haft_api::boundary`].
//!
//! # Safety of the process
//! A shared object runs with all rights of the process, and nothing but the
//! user's own word makes it trustworthy. So [`load`] takes an absolute path
//! that the user gave, and [`check_file`] refuses whatever somebody else could
//! have put there or changed, whatever was cut off, and whatever was built for
//! another machine, version or way of panicking. All of that is checked in the
//! file, before any of its code can run.
//!
//! A plug-in that fails, panics or answers nonsense costs the call that hit it.
//! One that writes to memory it doesn't own, overflows its stack, or panics
//! while it panics takes the process down; so does an extension that is linked
//! in.
//!
//! A shared object is never unloaded.
#![deny(unsafe_code)]

mod check;
mod extension;
mod lend;
#[allow(unsafe_code)]
mod library;
mod load;
mod proxy;
mod refusal;

pub use check::{CheckOptions, PluginInfo, check_file, sha256_of};
pub use extension::PluginExtension;
pub use haft_api::boundary::{LogLevel, ServerStats};
pub use load::{LoadOptions, LogFn, Plugin, PluginStats, in_process, load};
pub use refusal::{Refusal, RefusalKind};
