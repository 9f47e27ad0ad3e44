//! What engines over HTTP share. An engine is left with its wire: it makes a
//! request's body, and implements an [`AnswerDecoder`] for the answer.
//!
//! | part | what it does |
//! |---|---|
//! | [`Transport`] | requests to one server, and answers as an [`EngineStream`](haft_api::EngineStream) |
//! | [`ServerConfig`] | where the server is, and how to reach it |
//! | [`AnswerDecoder`] | an answer's bytes to events, without I/O |
//! | [`SseDecoder`] | the bytes of server-sent events to events |
//! | [`EventDecoder`](events::EventDecoder) | the two joined by a wire's rules |
//! | [`assembly`] | calls put together, and the order of an answer |
//! | [`failure`] | what servers say when they refuse, as errors |
//! | [`json`] | JSON, written straight into bytes |
//! | [`raw`] | JSON values that servers don't agree on |
//! | [`tool_names`], [`schema`], [`call_id`] | tools and calls as wires take them |
//! | [`step`], [`content`] | a history's items, as what wires make messages of |
//! | [`history`] | the bytes of a thread's old items, kept between rounds |
//! | [`Catalogue`], [`ModelList`], [`ModelSettings`] | what is known of a server's models |
#![forbid(unsafe_code)]

mod answer;
pub mod assembly;
pub mod call_id;
mod catalogue;
pub mod content;
mod endpoint;
pub mod events;
pub mod failure;
pub mod history;
pub mod json;
mod models;
pub mod raw;
pub mod schema;
mod server;
mod sse;
pub mod step;
pub mod tool_names;
mod transport;

pub use answer::AnswerDecoder;
pub use catalogue::Catalogue;
pub use endpoint::shown;
pub use models::{ModelList, ModelSettings};
pub use server::{KeyHeader, PROXY_OF_ENVIRONMENT, ServerConfig};
pub use sse::{EventTooLarge, MAX_EVENT_BYTES, SseDecoder, SseEvent};
pub use transport::{Response, Transport};
