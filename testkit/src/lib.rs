//! Conformance suites and controllable test doubles for implementers of Haft's
//! traits.
#![forbid(unsafe_code)]

mod engine;
mod faults;
pub mod fixture;
mod gate;
mod history;
mod lock;

pub use engine::{Round, RoundCounts, ScriptedEngine, Step, Wait, check_prefixes};
pub use faults::{Faults, Injection, Operation};
pub use gate::Gate;
pub use history::{Rule, Violation, Wire, validate_history, validate_history_for};
