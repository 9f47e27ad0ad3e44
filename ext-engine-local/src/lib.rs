//! Placeholder docs.

mod process;
pub mod profile;
mod provision;
mod server;

pub use provision::{
    LocalModels, ModelStatus, OnProgress, SetupPhase, SetupProblem, SetupProgress,
};
