//! The Haft agent runtime in one crate: its traits and types ([`api`]), the
//! runtime itself ([`core`]), and the extensions that the features choose.
//!
//! | feature | what it links |
//! |---|---|
//! | `store-jsonl` | the store `jsonl`: threads in files |
//! | `store-postgres` | the store `postgres`: threads in PostgreSQL, for many machines |
//! | `runner-local` | the runner `local`: tools work in a local directory |
//! | `runner-ssh` | the runner `ssh`: tools work on a machine over SSH |
//! | `tools-coding` | tools that read, write, search and run |
//! | `engine-replay` | the engine `replay`: plays scripts instead of asking a model |
//! | `engine-anthropic` | the engine `anthropic`: Anthropic, and every server that speaks Messages |
//! | `engine-openai` | the engine `openai`: OpenAI, and every server that speaks one of its wires |
//! | `engine-local` | the engine `local`: a model on this machine |
//! | `lua` | the host `lua`: tools and commands written in Lua |
//! | `lua-native-modules` | lets Lua load C modules, each by a grant; not on by default |
//! | `quickjs` | the host `quickjs`: skills written in JavaScript |
//! | `typescript` | skills written in TypeScript, too |
//! | `keyring` | keeps skills' credentials in the system's keyring |
//! | `plugins` | lets the command load extensions from shared objects |
//! | `cli` | the `haft` command |
//! | `default` | all of the above but `keyring`, `lua-native-modules`, `quickjs`, `store-postgres` and `typescript` |
//! | `full` | `default`, `quickjs` and `store-postgres` |
//! | `minimal` | the command, what builds without a C compiler, and `plugins` |
//!
//! A program that embeds Haft turns the defaults off and names what it wants.
//! [`builder`] registers what is linked; parts of your own go beside it.
//!
//! # A turn in ten lines
//! ```
//! use haft::{Runtime, StoreOptions, ThreadOptions, TurnRequest};
//!
//! # #[cfg(all(feature = "engine-replay", feature = "store-jsonl"))]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let home = tempfile::tempdir()?;
//! let script = home.path().join("script.jsonl");
//! std::fs::write(&script, r#"{"events":[{"type":"text","text":"Hello!"}]}"#)?;
//!
//! let registry = haft::builder().build()?;
//! let store = registry.store("jsonl").ok_or("no such store")?;
//! let store = store.open(StoreOptions::new(home.path().display().to_string())).await?;
//! let runtime = Runtime::builder(registry).build(store)?;
//!
//! let thread = runtime.create_thread(ThreadOptions::default()).await?;
//! let request = TurnRequest::text("Hi").engine("replay".try_into()?);
//! let turn = thread.start_turn(request.model(script.display().to_string())).await?;
//! assert_eq!(turn.ended().await.answer, "Hello!");
//! # Ok(())
//! # }
//! # #[cfg(not(all(feature = "engine-replay", feature = "store-jsonl")))]
//! # fn main() {}
//! ```
//!
//! # The command
//! With the feature `cli`, [`main`] is the whole command; the binary `haft` calls
//! it and nothing else. A program of your own that names extension crates of
//! your own has them beside those of the features:
//!
//! ```
//! # #[cfg(feature = "cli")]
//! fn my_agent() -> std::process::ExitCode {
//!     // Above: `use my_extension as _;`
//!     haft::main()
//! }
//! ```
#![forbid(unsafe_code)]

// The command's own files speak of this library as any other program does.
#[cfg(feature = "cli")]
extern crate self as haft;

mod builder;

#[cfg(feature = "cli")]
mod args;
#[cfg(feature = "cli")]
mod assembly;
#[cfg(feature = "cli")]
mod command;
#[cfg(feature = "cli")]
mod commands;
#[cfg(feature = "cli")]
mod config;
#[cfg(feature = "cli")]
mod console;
#[cfg(feature = "cli")]
mod conversation;
#[cfg(feature = "cli")]
mod engine_choice;
#[cfg(feature = "cli")]
mod failure;
#[cfg(feature = "cli")]
mod instructions;
#[cfg(feature = "cli")]
mod output;
#[cfg(feature = "cli")]
mod plugins;
#[cfg(feature = "cli")]
mod render;
#[cfg(feature = "cli")]
mod scripts;
#[cfg(feature = "cli")]
mod signals;

// A crate that no code names isn't linked, whatever the manifest says.
#[cfg(feature = "engine-anthropic")]
use haft_ext_engine_anthropic as _;
#[cfg(feature = "engine-local")]
use haft_ext_engine_local as _;
#[cfg(feature = "engine-openai")]
use haft_ext_engine_openai as _;
#[cfg(feature = "engine-replay")]
use haft_ext_engine_replay as _;
#[cfg(feature = "lua")]
use haft_ext_lua as _;
#[cfg(feature = "quickjs")]
use haft_ext_quickjs as _;
#[cfg(feature = "runner-local")]
use haft_ext_runner_local as _;
#[cfg(feature = "runner-ssh")]
use haft_ext_runner_ssh as _;
#[cfg(feature = "store-jsonl")]
use haft_ext_store_jsonl as _;
#[cfg(feature = "store-postgres")]
use haft_ext_store_postgres as _;
#[cfg(feature = "tools-coding")]
use haft_ext_tools_coding as _;

pub use haft_api as api;
pub use haft_core as core;

pub use builder::{Builder, builder};
#[cfg(feature = "cli")]
pub use command::main;
pub use haft_api::{
    Error, ErrorKind, Event, EventBody, ExtensionConfig, ExtensionRegistryBuilder, Item,
    PolicyMode, Registry, Result, StoreOptions,
};
pub use haft_core::{Runtime, RuntimeOptions, Thread, ThreadOptions, Turn, TurnEnd, TurnRequest};
