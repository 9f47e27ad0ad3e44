//! The parts of a plug-in, as the host's traits.

mod engine;
mod event;
mod runner;
mod store;
mod tool;

pub(crate) use engine::Engine;
pub(crate) use event::{Policy, Sink};
pub(crate) use runner::Provider;
pub(crate) use store::Factory;
pub(crate) use tool::{Source, Tools};
