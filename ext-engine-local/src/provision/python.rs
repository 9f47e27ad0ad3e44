//! Finding Python and making the environment that the server lives in.

use std::path::{Path, PathBuf};

use haft_api::Result;
use tokio::process::Command;

use super::problem::{self, SetupProblem};
use crate::process;

/// The oldest Python that the server's wheel works with.
const OLDEST: (u32, u32) = (3, 10);

/// Names under which Python is looked for, best first.
const NAMES: &[&str] = &[
    "python3",
    "python3.14",
    "python3.13",
    "python3.12",
    "python3.11",
    "python3.10",
    "python",
];

/// Prints `major minor has_venv` on one line.
const PROBE: &str = "import sys, importlib.util as u; \
    print(*sys.version_info[:2], int(all(u.find_spec(m) for m in ('venv', 'ensurepip'))))";

/// A program of this name on the PATH. Relative entries are passed over: they
/// would run what lies in the working folder.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(&file))
        .find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    let Ok(metadata) = std::fs::metadata(path) else {
        return false;
    };
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        metadata.is_file() && metadata.permissions().mode() & 0o111 != 0
    }
    #[cfg(not(unix))]
    metadata.is_file()
}

/// A command that runs Python apart from whatever the user's own environment
/// says about Python and pip's behaviour, with messages in English.
pub(crate) fn command(python: &Path) -> Command {
    let mut command = Command::new(python);
    // Isolated: neither the working folder nor a variable can slip a module in.
    command.arg("-I");
    for unset in ["PIP_TARGET", "PIP_PREFIX", "PIP_REQUIRE_VIRTUALENV"] {
        command.env_remove(unset);
    }
    command
        .env("LC_ALL", "C.UTF-8")
        .env("PIP_USER", "0")
        .env("PIP_NO_INPUT", "1")
        .env("PIP_PROGRESS_BAR", "off")
        .env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
    command
}

/// Finds a Python that is new enough and can make environments: `chosen` if
/// there is a choice, else the first good one on the PATH.
///
/// # Errors
/// [`SetupProblem::NoPython`] or [`SetupProblem::NoVenv`].
pub(crate) async fn find(chosen: Option<&Path>) -> Result<PathBuf> {
    let candidates: Vec<PathBuf> = match chosen {
        Some(python) => vec![python.to_owned()],
        None => NAMES.iter().filter_map(|name| on_path(name)).collect(),
    };
    let mut worst = SetupProblem::NoPython { found: None };
    for python in candidates {
        let Ok(done) = process::run(command(&python).args(["-c", PROBE])).await else {
            continue;
        };
        let text = done.stdout.text();
        let numbers: Vec<u32> = text
            .split_whitespace()
            .filter_map(|number| number.parse().ok())
            .collect();
        let [major, minor, has_venv] = numbers[..] else {
            continue;
        };
        if (major, minor) < OLDEST {
            if worst == (SetupProblem::NoPython { found: None }) {
                let found = Some(format!("Python {major}.{minor} ({})", python.display()));
                worst = SetupProblem::NoPython { found };
            }
        } else if has_venv == 0 {
            worst = SetupProblem::NoVenv { python };
        } else {
            return Ok(python);
        }
    }
    Err(worst.into_error(""))
}

/// A virtual environment.
#[derive(Debug, Clone)]
pub(crate) struct Venv {
    folder: PathBuf,
}

impl Venv {
    pub(crate) fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Its Python.
    pub(crate) fn python(&self) -> PathBuf {
        if cfg!(windows) {
            self.folder.join("Scripts").join("python.exe")
        } else {
            self.folder.join("bin").join("python")
        }
    }

    /// Written last: without it the environment counts as half made.
    fn marker(&self, of: &str) -> PathBuf {
        self.folder.join(format!(".haft-{of}"))
    }

    /// Whether a step was finished in it. A Python that was removed since then
    /// leaves a dangling link, which undoes all of them.
    pub(crate) fn has(&self, step: &str) -> bool {
        is_program(&self.python()) && self.marker(step).is_file()
    }

    /// Notes that a step was finished.
    ///
    /// # Errors
    /// If the note can't be written.
    pub(crate) fn note(&self, step: &str) -> Result<()> {
        let marker = self.marker(step);
        std::fs::write(&marker, b"").map_err(|e| problem::io(e, "write a file", &marker))
    }

    /// Makes the environment anew unless it is there already.
    ///
    /// # Errors
    /// What stands in the way.
    pub(crate) async fn ensure(&self, chosen: Option<&Path>) -> Result<()> {
        if self.has("venv") {
            return Ok(());
        }
        let python = find(chosen).await?;
        let done = process::run(
            command(&python)
                .args(["-m", "venv", "--clear"])
                .arg(&self.folder),
        )
        .await?;
        if !done.status.success() {
            let output = done.output();
            let problem = if output.contains("ensurepip") {
                SetupProblem::NoVenv { python }
            } else {
                problem::diagnose(&output, "making a Python environment", "pip", &self.folder)
            };
            return Err(problem.into_error(&output));
        }
        self.note("venv")
    }
}
