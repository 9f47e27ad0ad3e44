//! The engine `openai`: OpenAI's Responses and Chat Completions, and every server
//! that speaks one of these wires (llama.cpp, Ollama, vLLM, LM Studio, Groq,
//! Mistral, DeepSeek, OpenRouter, xAI, Azure, and many more).
//!
//! | part | what it does |
//! |---|---|
//! | [`OpenAiExtension`] | brings the engine; its settings are a [`OpenAiConfig`] |
//! | [`OpenAiEngine`] | the engine over one server, for other engines to build on |
//! | [`ChatDecoder`], [`ResponsesDecoder`] | a stream's bytes to events, without I/O |
//! | [`SseDecoder`], [`ModelSettings`] | what it shares with other engines over HTTP |
//!
//! The decoder expects of servers what they really do, not what the
//! documentation says; its rules stand in the `decode` modules. The encoder
//! writes the same bytes for the same history, and a longer history as an
//! extension of a shorter one, since providers' prompt caches live on it.
#![forbid(unsafe_code)]

mod chat;
mod config;
mod engine;
#[cfg(feature = "extension")]
mod extension;
mod models;
mod provider;
mod responses;
mod wire;

pub use chat::decode::{ChatDecoder, ChatRules};
pub use config::{OPENAI_BASE_URL, OpenAiConfig, Wire};
pub use engine::OpenAiEngine;
#[cfg(feature = "extension")]
pub use extension::OpenAiExtension;
pub use haft_engine_http::{EventTooLarge, MAX_EVENT_BYTES, ModelSettings, SseDecoder, SseEvent};
pub use responses::decode::{ResponsesDecoder, ResponsesRules};
