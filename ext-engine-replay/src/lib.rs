//! The engine `replay`: plays a script instead of asking a model.
//!
//! Extension authors test with it without a model, and a recorded thread can be
//! played again. The model's name is the path of the script, a file with one
//! JSON object a line, each one round; [`Script`] describes the grammar.
//!
//! # Which line is played
//! The engine counts the rounds of each thread and script, from 0, in its own
//! memory: a thread's n-th round plays the n-th line, whichever turn it belongs
//! to. A round that fails or breaks off counts as well, so the line after an
//! `error` is what a retry gets. After the last line every further round is the
//! text "done". Another engine object (another process) starts at the first
//! line again, so a continued thread takes a script of its own.
//!
//! # Settings of the extension
//! `script`: the path of the script that plays when no model is named. Optional.
#![forbid(unsafe_code)]

mod engine;
mod export;
mod extension;
mod script;

pub use engine::ReplayEngine;
pub use export::script_from_items;
pub use extension::ReplayExtension;
pub use script::{Round, Script, ScriptEvent};
