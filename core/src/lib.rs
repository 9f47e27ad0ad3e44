//! The Haft agent runtime: parts in, threads and turns out.
//!
//! A [`Runtime`] is built of a [`Registry`](haft_api::Registry) (engines,
//! tools, tool sources, runners, policies, sinks) and one thread store. It
//! creates and opens [`Thread`]s; a thread runs one [`Turn`] at a time: stream a
//! model's round, run its tool calls, persist everything, publish events,
//! repeat.
//!
//! | question | module |
//! |---|---|
//! | What is a turn's way from message to end? | `turn` |
//! | Where does a tool call get its timeout, its workspace, its bounds? | `dispatch` |
//! | Who makes sure that a history is valid? | `thread::history` |
//! | What is written, and what does a crash leave? | `thread::records`, `thread::fold` |
//! | Who sees which event, and when? | `events` |
//! | When is a sandbox made, and who holds it? | `workspace` |
//! | Who tries a failed round again, or asks another engine? | [`layers`] |
//! | What if a history no longer fits the model? | `turn::compact` |
//! | What did it cost? | [`prices`] |
#![forbid(unsafe_code)]

mod dispatch;
mod events;
mod guard;
pub mod layers;
mod moment;
mod options;
mod policy;
pub mod prices;
mod runtime;
mod thread;
mod turn;
mod workspace;

pub use events::Subscription;
pub use options::{FallbackEngine, RuntimeOptions};
pub use runtime::{
    ImportReport, Piece, RunnerSelection, Runtime, RuntimeBuilder, ThreadOptions, ToolRun,
};
pub use thread::{ModelUsage, OpenRequest, Thread, ThreadItem, ThreadItems, TurnStatus};
pub use turn::{Turn, TurnEnd, TurnRequest};
