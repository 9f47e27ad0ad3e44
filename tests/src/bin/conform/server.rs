//! The model server that the engines over HTTP are tested with.
// The engines' own tests use all of it.
#![allow(dead_code)]

#[path = "../../../tests/wires/provider/mod.rs"]
mod provider;

pub(crate) use provider::{CALLING, Server};
