//! The engine `openai`: OpenAI's Chat Completions, and every server that speaks
//! this wire (llama.cpp, Ollama, vLLM, LM Studio, Groq, Mistral, DeepSeek,
//! OpenRouter, xAI, Azure, and many more).
//!
//! | part | what it does |
//! |---|---|
//! | [`OpenAiExtension`] | brings the engine; its settings are a [`ChatConfig`] |
//! | [`ChatEngine`] | the engine over one server, for other engines to build on |
//! | [`ChatDecoder`] | a stream's bytes to events, without I/O |
//! | [`SseDecoder`], [`ModelSettings`] | what it shares with other engines over HTTP |
//!
//! The decoder expects of servers what they really do, not what the
//! documentation says; its rules stand in the `decode` module. The encoder
//! writes the same bytes for the same history, and a longer history as an
//! extension of a shorter one, since providers' prompt caches live on it.
#![forbid(unsafe_code)]

mod config;
mod decode;
mod encode;
mod engine;
#[cfg(feature = "extension")]
mod extension;
mod models;
mod provider;

pub use config::{ChatConfig, OPENAI_BASE_URL};
pub use decode::ChatDecoder;
pub use engine::ChatEngine;
#[cfg(feature = "extension")]
pub use extension::OpenAiExtension;
pub use haft_engine_http::{EventTooLarge, MAX_EVENT_BYTES, ModelSettings, SseDecoder, SseEvent};
