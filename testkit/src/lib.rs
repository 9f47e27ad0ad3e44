//! Conformance suites and controllable test doubles for implementers of Haft's
//! traits.
#![forbid(unsafe_code)]

mod engine;
mod events;
mod faults;
pub mod fixture;
mod gate;
mod history;
mod journal;
mod lock;
mod runner;
mod store;
mod suite;
mod tools;

pub use engine::{Round, RoundCounts, ScriptedEngine, Step, Wait, check_prefixes};
pub use events::{event_name, summarise};
pub use faults::{Faults, Injection, Operation};
pub use gate::Gate;
pub use history::{Rule, Violation, Wire, validate_history, validate_history_for};
pub use journal::{Journal, JournalEntry};
pub use runner::{LeaseCounts, MemoryRunner, ProgramIo, RunnerOperation};
pub use store::{FaultStore, MemoryStore, MemoryStoreFactory, StoreOperation};
pub use suite::engine::{EngineFixture, engine_suite};
pub use suite::runner::{Probe, RunnerFixture, posix_command, runner_suite};
pub use suite::source::{SourceFixture, tool_source_suite};
pub use suite::store::{StoreFixture, store_suite};
pub use suite::tools::{ToolFixture, tool_suite};
pub use suite::{Case, Checked, Report, ReportLine, Unmet, Verdict, run_all, run_case};
pub use tools::{
    BatchSource, CountingTool, EchoTool, ExecutionCounts, Executions, FailTool, FnTool, Outcome,
    OutputTool, PanicTool, SleepTool, Tools,
};
