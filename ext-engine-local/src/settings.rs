//! The extension's settings.

use std::path::PathBuf;

use serde::Deserialize;

/// Settings of the embedded engine. All are optional.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct LocalSettings {
    /// Haft's home folder; what is fetched goes to `models` in it. Without one
    /// only a `llama-server` of your own can run, and only `.gguf` files.
    pub home: Option<PathBuf>,
    /// The model that runs where none is named: a name of the catalog, or the
    /// path of a `.gguf` file.
    pub model: Option<String>,
    /// What runs the model: `auto` (a `llama-server` on the PATH, else the
    /// fetched one), `fetched`, or the path of a `llama-server`.
    pub server: ServerChoice,
    /// The Python that the fetched server is installed with. By default one on
    /// the PATH.
    pub python: Option<PathBuf>,
    /// Threads of computation. By default one for a small model, half of the
    /// processors for others.
    pub threads: Option<u32>,
    /// Tokens that fit into a request and its answer. By default 4,096 for a
    /// small model, 16,384 for others.
    pub context_tokens: Option<u32>,
    /// When the small-model profile applies.
    pub profile: ProfileChoice,
    /// Whether what is missing is fetched when the model is first used. If not,
    /// it has to be fetched beforehand.
    pub download: bool,
    /// Seconds after which an unused server is shut down; 0 is never.
    pub idle_shutdown_seconds: u64,
    /// Seconds that a server may take until it has loaded its model.
    pub start_timeout_seconds: u64,
}

impl Default for LocalSettings {
    fn default() -> Self {
        Self {
            home: None,
            model: None,
            server: ServerChoice::default(),
            python: None,
            threads: None,
            context_tokens: None,
            profile: ProfileChoice::default(),
            download: true,
            idle_shutdown_seconds: 600,
            start_timeout_seconds: 300,
        }
    }
}

/// What runs the model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub enum ServerChoice {
    /// A `llama-server` on the PATH, else the fetched one.
    #[default]
    Auto,
    /// The fetched one.
    Fetched,
    /// This `llama-server`.
    Program(PathBuf),
}

impl From<String> for ServerChoice {
    fn from(text: String) -> Self {
        match text.as_str() {
            "auto" => Self::Auto,
            "fetched" => Self::Fetched,
            _ => Self::Program(text.into()),
        }
    }
}

/// When the [small-model profile](crate::profile) applies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProfileChoice {
    /// To models whose file is smaller than 1.5 GB.
    #[default]
    Auto,
    /// To every model.
    Small,
    /// To none.
    Off,
}
