//! The Haft agent runtime in one crate: its traits and types ([`api`]), the
//! runtime itself ([`core`]), and the extensions that the features choose.
//!
//! | feature | what it links |
//! |---|---|
//! | `store-jsonl` | the store `jsonl`: threads in files |
//! | `runner-local` | the runner `local`: tools work in a local directory |
//! | `tools-coding` | tools that read, write, search and run |
//! | `engine-replay` | the engine `replay`: plays scripts instead of asking a model |
//! | `engine-openai` | the engine `openai`: OpenAI, and every server that speaks its wire |
//! | `engine-local` | the engine `local`: a model on this machine |
//! | `lua` | the host `lua`: tools and commands written in Lua |
//! | `quickjs` | the host `quickjs`: skills written in JavaScript |
//! | `typescript` | skills written in TypeScript, too |
//! | `plugins` | lets the command load extensions from shared objects |
//! | `cli` | the `haft` command |
//!
//! All but `quickjs` and `typescript` are on by default, and `full` is everything; a program that embeds Haft turns the defaults off and
//! names what it wants. [`builder`] registers what is linked; parts of your own
//! go beside it.
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
//! The binary `haft` is a user of this library like any other; the crate's
//! README describes it.
#![forbid(unsafe_code)]

mod builder;

// A crate that no code names isn't linked, whatever the manifest says.
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
#[cfg(feature = "store-jsonl")]
use haft_ext_store_jsonl as _;
#[cfg(feature = "tools-coding")]
use haft_ext_tools_coding as _;

pub use haft_api as api;
pub use haft_core as core;

pub use builder::{Builder, builder};
pub use haft_api::{
    Error, ErrorKind, Event, EventBody, ExtensionConfig, ExtensionRegistryBuilder, Item,
    PolicyMode, Registry, Result, StoreOptions,
};
pub use haft_core::{Runtime, RuntimeOptions, Thread, ThreadOptions, Turn, TurnEnd, TurnRequest};
