//! The engine `anthropic`: Anthropic's Messages, and every server that speaks
//! this wire (llama.cpp, OpenRouter, DeepSeek, Moonshot, Z.ai, MiniMax, and
//! more).
//!
//! | part | what it does |
//! |---|---|
//! | [`AnthropicExtension`] | brings the engine; its settings are an [`AnthropicConfig`] |
//! | [`AnthropicEngine`] | the engine over one server, for other engines to build on |
//! | [`MessagesDecoder`] | a stream's bytes to events, without I/O |
//!
//! Thinking goes back as it came, signature and all, to the server that it came
//! from; to any other it is left out. The encoder writes the same bytes for the
//! same history, and a longer history as an extension of a shorter one, so that
//! the prompt cache finds its beginning again.
#![forbid(unsafe_code)]

mod config;
mod decode;
mod encode;
mod engine;
mod extension;
mod models;

pub use config::{ANTHROPIC_BASE_URL, AnthropicConfig};
pub use decode::{MessagesDecoder, MessagesRules};
pub use engine::AnthropicEngine;
pub use extension::AnthropicExtension;
