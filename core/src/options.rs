//! A runtime's settings.

use std::path::PathBuf;
use std::time::Duration;

use haft_api::ExtensionId;

/// What a runtime is told besides its parts. Every runtime has its own; nothing
/// is read from the environment.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RuntimeOptions {
    /// The engine of turns that name none. Without it such a turn needs a
    /// runtime with exactly one engine.
    pub default_engine: Option<ExtensionId>,
    /// Engines that are asked, in order, where the chosen one fails before it
    /// has shown anything; see [`layers::Fallback`](crate::layers::Fallback).
    pub fallbacks: Vec<FallbackEngine>,
    /// The runner that serves threads without a binding: the local directory.
    /// `None` disables local workspaces.
    pub local_runner: Option<ExtensionId>,
    /// A provider to which new threads are bound by themselves, if it names a
    /// default workspace.
    pub default_runner: Option<ExtensionId>,
    /// Where long tool output is kept whole. Without it only its head and tail
    /// are.
    pub spill_dir: Option<PathBuf>,
    /// Most bytes of a tool's output that the model gets.
    pub tool_output_bytes: usize,
    /// Most bytes of one spill file.
    pub spill_bytes: u64,
    /// Time limit of a tool that has none of its own.
    pub tool_timeout: Duration,
    /// How long a cancelled tool may take to clean up before it is given up.
    pub cancel_grace: Duration,
    /// Most rounds of a turn.
    pub max_rounds: u32,
    /// Longest silence of an engine.
    pub engine_idle_timeout: Duration,
    /// How often a round is tried again after a temporary error.
    pub engine_retries: u32,
    /// First wait before a round is tried again; it doubles each time.
    pub retry_delay: Duration,
    /// Longest wait before a round is tried again, whatever the server asks for.
    pub max_retry_delay: Duration,
    /// The share of a model's context window at which the older part of a
    /// history is summarised, between 0 and 1. At 0 it is only once the model
    /// refuses a round for its size.
    pub compact_at: f64,
    /// Most calls of a round that run at the same time.
    pub parallel_calls: usize,
    /// Longest wait for a runner's lease.
    pub lease_wait: Duration,
}

/// An engine to fall back on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FallbackEngine {
    /// The engine's id. One that the registry doesn't have is an error of
    /// [`RuntimeBuilder::build`](crate::RuntimeBuilder::build).
    pub engine: ExtensionId,
    /// The model; `None` is the engine's default one.
    pub model: Option<String>,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        Self {
            default_engine: None,
            fallbacks: Vec::new(),
            local_runner: ExtensionId::new("local").ok(),
            default_runner: None,
            spill_dir: None,
            tool_output_bytes: 30_000,
            spill_bytes: 256 * 1024 * 1024,
            tool_timeout: Duration::from_secs(600),
            cancel_grace: Duration::from_millis(500),
            max_rounds: 200,
            engine_idle_timeout: Duration::from_secs(300),
            engine_retries: 4,
            retry_delay: Duration::from_millis(500),
            max_retry_delay: Duration::from_secs(60),
            compact_at: 0.8,
            parallel_calls: 128,
            lease_wait: Duration::from_secs(60),
        }
    }
}
