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
    /// Most calls of a round that run at the same time.
    pub parallel_calls: usize,
    /// Longest wait for a runner's lease.
    pub lease_wait: Duration,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        Self {
            default_engine: None,
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
            parallel_calls: 128,
            lease_wait: Duration::from_secs(60),
        }
    }
}
