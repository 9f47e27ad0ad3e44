//! The model server that the engine `openai` is tested with.
// The engine's own tests use all of it.
#![allow(dead_code)]

#[path = "../../../../ext-engine-openai/tests/conformance/server.rs"]
mod model_server;
#[path = "../../../../ext-engine-openai/tests/conformance/rules.rs"]
pub(crate) mod rules;

pub(crate) use model_server::{CALLING, Server};
