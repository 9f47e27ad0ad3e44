//! The engine `openai`: OpenAI's Chat Completions, and every server that speaks
//! this wire (llama.cpp, Ollama, vLLM, LM Studio, Groq, Mistral, DeepSeek,
//! OpenRouter, xAI, Azure, and many more).
//!
//! | part | what it does |
//! |---|---|
//! | [`OpenAiExtension`] | brings the engine; its settings are a [`ChatConfig`] |
//! | [`ChatEngine`] | the engine over one server, for other engines to build on |
//! | [`ChatDecoder`] | a stream's bytes to events, without I/O |
//! | [`SseDecoder`] | the bytes of server-sent events to events |
//!
//! The decoder expects of servers what they really do, not what the
//! documentation says; its rules stand in the `decode` module. The encoder
//! writes the same bytes for the same history, and a longer history as an
//! extension of a shorter one, since providers' prompt caches live on it.
#![forbid(unsafe_code)]

mod config;
mod decode;
mod encode;
mod endpoint;
mod engine;
#[cfg(feature = "extension")]
mod extension;
mod failure;
mod models;
mod provider;
mod sse;
mod stream;
mod tool_names;
mod transport;

pub use config::{ChatConfig, ModelSettings, OPENAI_BASE_URL};
pub use decode::ChatDecoder;
pub use engine::ChatEngine;
#[cfg(feature = "extension")]
pub use extension::OpenAiExtension;
pub use sse::{EventTooLarge, MAX_EVENT_BYTES, SseDecoder, SseEvent};
