//! The embedded engine `local`: a model on this machine, in a supervised
//! llama.cpp server.
//!
//! # What runs
//! - **The server** is llama.cpp's own: a `llama-server` on the PATH, else the
//!   one in the Python package `xllamacpp`, which is fetched into an environment
//!   of its own under Haft's home. It listens on a loopback port with a random
//!   key, is started by the first request, checked until it has loaded its model,
//!   shared by all requests for the same model, restarted after a crash, and shut
//!   down when it has not been used for a while.
//! - **It never outlives its owner.** The server holds the reading end of a pipe
//!   whose writing end only its owner has. However the owner ends, `kill -9`
//!   included, the pipe ends too, and with it the server.
//! - **The model** is any `.gguf` file by its path. By default it is
//!   `smollm2-135m`, which is fetched: tiny, and there to show the machinery.
//!
//! # Fetching
//! [`LocalModels`] fetches what is missing, about 130 MB for the default model
//! and its server: exact versions, checked by SHA-256, moved into place only when
//! whole. It needs Python 3.10 or later with its `venv` module. Whoever wants to
//! ask the user first looks at [`readiness`](haft_api::InferenceEngine::readiness)
//! and calls [`LocalModels::get`], which reports progress; a first request
//! fetches by itself unless [`LocalSettings::download`] is off.
//!
//! ```no_run
//! # async fn example(home: &std::path::Path) -> haft_api::Result<()> {
//! use haft_ext_engine_local::LocalModels;
//!
//! let models = LocalModels::new(home);
//! let report = |p: haft_ext_engine_local::SetupProgress| {
//!     println!("{}: {} of {:?} bytes", p.phase, p.done, p.total);
//! };
//! let weights = models.get(models.default_model(), &report).await?;
//! println!("ready: {}", weights.display());
//! # Ok(()) }
//! ```
//!
//! # Small models
//! Models whose file is smaller than 1.5 GB are driven through the
//! [small-model profile](profile). Larger ones get requests as they are, and call
//! tools in the way of their own chat template.
#![forbid(unsafe_code)]

mod engine;
mod extension;
mod model;
mod process;
pub mod profile;
mod provision;
mod server;
mod settings;
mod stream;

pub use engine::{ENGINE_ID, LocalEngine, TINY_MODEL_HINT};
pub use extension::LocalExtension;
pub use provision::{
    LocalModels, ModelStatus, OnProgress, SetupPhase, SetupProblem, SetupProgress,
};
pub use settings::{LocalSettings, ProfileChoice, ServerChoice};
