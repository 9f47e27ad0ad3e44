//! How far setting up has come.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use haft_api::Result;

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SetupPhase {
    /// Another process is at it; its end is waited for.
    Waiting,
    /// A Python environment is made.
    Environment,
    /// The server is downloaded.
    DownloadServer,
    /// The server is installed and tried.
    InstallServer,
    /// The model's weights are downloaded.
    DownloadWeights,
    /// The weights are unpacked.
    Unpack,
    /// The weights' checksum is computed.
    Verify,
}

impl fmt::Display for SetupPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Waiting => "waiting for another process",
            Self::Environment => "making a Python environment",
            Self::DownloadServer => "downloading the model server",
            Self::InstallServer => "installing the model server",
            Self::DownloadWeights => "downloading the model",
            Self::Unpack => "unpacking the model",
            Self::Verify => "checking the model",
        })
    }
}

/// A report of progress. Phases come in the order of their list and may be
/// left out; within a phase `done` never falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SetupProgress {
    /// What is being done.
    pub phase: SetupPhase,
    /// Bytes done so far in this phase.
    pub done: u64,
    /// Bytes of the whole phase, where it is counted in bytes.
    pub total: Option<u64>,
}

/// Where progress is reported to. It is called from the task that sets up and
/// must return at once.
pub type OnProgress<'a> = &'a (dyn Fn(SetupProgress) + Send + Sync);

/// How often a growing file is looked at.
const INTERVAL: Duration = Duration::from_millis(200);

/// Reports what grows at `path` (a file, or all files of a folder) while
/// something runs.
///
/// # Errors
/// What `run` failed with.
pub(crate) async fn watch<T>(
    report: OnProgress<'_>,
    phase: SetupPhase,
    total: u64,
    path: &Path,
    run: impl Future<Output = Result<T>>,
) -> Result<T> {
    let show = |done: u64| {
        report(SetupProgress {
            phase,
            done,
            total: Some(total),
        });
    };
    show(0);
    let mut most = 0;
    let mut ticks = tokio::time::interval(INTERVAL);
    tokio::pin!(run);
    loop {
        tokio::select! {
            done = &mut run => {
                if done.is_ok() {
                    show(total);
                }
                return done;
            }
            _ = ticks.tick() => {
                // The total is an estimate where one of several files fits.
                let now = size(path).min(total);
                if now > most {
                    most = now;
                    show(now);
                }
            }
        }
    }
}

fn size(path: &Path) -> u64 {
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return 0;
    };
    if !metadata.is_dir() {
        return metadata.len();
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| size(&entry.path())).sum()
}
