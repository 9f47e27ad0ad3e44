//! Conformance suites and controllable test doubles for implementers of Haft's
//! traits.
//!
//! # Prove your part in one line
//! Each trait of [`haft_api`] has a suite: one list of cases, each a promise
//! that the trait's documentation makes. A macro makes the list into one test
//! per case, to stand in a test file of your crate:
//!
//! | you implement | in a test file | as values |
//! |---|---|---|
//! | [`ThreadStore`](haft_api::ThreadStore) | [`store_conformance!`] | [`store_suite`] |
//! | [`InferenceEngine`](haft_api::InferenceEngine) | [`engine_conformance!`] | [`engine_suite`] |
//! | [`Tool`](haft_api::Tool), [`ToolContributor`](haft_api::ToolContributor) | [`tool_conformance!`] | [`tool_suite`] |
//! | [`ToolSource`](haft_api::ToolSource) | [`tool_source_conformance!`] | [`tool_source_suite`] |
//! | [`RemoteRunnerProvider`](haft_api::RemoteRunnerProvider), its sessions and leases | [`runner_conformance!`] | [`runner_suite`] |
//! | [`PolicyContributor`](haft_api::PolicyContributor) | [`policy_conformance!`] | [`policy_suite`] |
//! | [`EventSink`](haft_api::EventSink) | [`event_sink_conformance!`] | [`event_sink_suite`] |
//! | [`Extension`](haft_api::Extension) | [`extension_conformance!`] | [`extension_suite`] |
//!
//! ```
//! // tests/conformance.rs
//! use haft_testkit::MemoryStore; // your store, in your crate
//!
//! haft_testkit::store_conformance!(|| {
//!     let store = MemoryStore::new();
//!     move || std::future::ready(Ok(store.reopen().shared()))
//! });
//! # #[tokio::main]
//! # async fn main() {
//! # haft_testkit::run_all(store_conformance::cases()).await.assert_kept();
//! # }
//! ```
//!
//! The tests run under `cargo test` like any others, each on a runtime of its
//! own; your crate needs no dependency but this one. Cases choose themselves by
//! the capabilities that the implementation claims: what isn't claimed is
//! skipped, and says so in the test's output. A failure says what was expected
//! and what came.
//!
//! # The same list, through any boundary
//! A host that has loaded a part (from a shared object, say) runs the same list
//! against it, without a test harness:
//!
//! ```
//! # #[tokio::main]
//! # async fn main() {
//! use std::sync::Arc;
//! use haft_testkit::{EngineFixture, Round, ScriptedEngine, engine_suite, run_all};
//!
//! let loaded = Arc::new(ScriptedEngine::new().afterwards(Round::new().text("Hello.")));
//! let report = run_all(engine_suite(move || EngineFixture::new(loaded.clone()))).await;
//! assert!(report.is_kept(), "{report}");
//! # }
//! ```
//!
//! # Doubles
//! - [`ScriptedEngine`] plays [`Round`]s, keeps every request, and refuses a
//!   history that no provider would take.
//! - [`MemoryStore`] is an honest store; [`FaultStore`] makes any store slow or
//!   fail, lets its process end at any point, and writes a [`Journal`] by which a
//!   test tells durable from visible.
//! - [`MemoryRunner`] has sandboxes, processes and leases in memory.
//! - [`EchoTool`], [`SleepTool`], [`FailTool`], [`PanicTool`], [`CountingTool`],
//!   [`OutputTool`], [`FnTool`] are tools; [`BatchSource`] is a source that goes
//!   wrong in every way there is.
//! - [`Faults`] counts, delays, holds, fails and panics: one way for all of
//!   them. A [`Gate`] holds code up until the test lets it go.
//! - [`calls`] are batches of calls of a tool source, without a turn.
//! - [`loopback`] is a server that answers byte for byte as it is told, for
//!   engines that speak over the network.
//! - `PostgresServer` (feature `postgres`) is a real database server that lives
//!   as long as the test's process, and can be crashed.
//! - [`validate_history`] checks a history after the rules of OpenAI's and
//!   Anthropic's wires.
#![forbid(unsafe_code)]

pub mod calls;
mod crash;
mod engine;
mod events;
mod faults;
pub mod fixture;
mod gate;
mod history;
mod journal;
mod lock;
pub mod loopback;
#[cfg(all(unix, feature = "postgres"))]
mod postgres;
mod runner;
mod store;
mod suite;
mod tools;

pub use crash::CrashMoment;
pub use engine::{Round, RoundCounts, ScriptedEngine, Step, Wait, check_prefixes};
pub use events::{event_name, summarise};
pub use faults::{Faults, Injection, Operation};
pub use gate::Gate;
pub use history::{Rule, Violation, Wire, validate_history, validate_history_for};
pub use journal::{Journal, JournalEntry};
#[cfg(all(unix, feature = "postgres"))]
pub use postgres::PostgresServer;
pub use runner::{LeaseCounts, MemoryRunner, ProgramIo, RunnerOperation};
pub use store::{FaultStore, MemoryStore, MemoryStoreFactory, StoreOperation};
pub use suite::engine::{EngineFixture, engine_suite};
pub use suite::event_sink::event_sink_suite;
pub use suite::extension::{ExtensionFixture, extension_suite};
pub use suite::policy::policy_suite;
pub use suite::runner::{Probe, RunnerFixture, posix_command, runner_suite};
pub use suite::source::{SourceFixture, tool_source_suite};
pub use suite::store::{StoreFixture, store_suite};
pub use suite::tools::{ToolFixture, tool_suite};
pub use suite::{Case, Checked, Report, ReportLine, Unmet, Verdict, run_all, run_case};
pub use tools::{
    BatchSource, CountingTool, EchoTool, ExecutionCounts, Executions, FailTool, FnTool, Outcome,
    OutputTool, PanicTool, SleepTool, Tools,
};
