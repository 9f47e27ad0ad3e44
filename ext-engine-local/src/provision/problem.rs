//! What can stand in the way of setting a model up.

use std::fmt;
use std::path::{Path, PathBuf};

use haft_api::{Error, ErrorKind};

/// Why setting up a model or its server failed. It is the source of the
/// [`Error`] that reports it, and [`SetupProblem::of`] gets it back; the error's
/// message says what to do. As text it is one stable word.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetupProblem {
    /// There is no Python, or none that is new enough.
    NoPython {
        /// What was found instead, if anything.
        found: Option<String>,
    },
    /// Python lacks the modules that make virtual environments.
    NoVenv {
        /// The Python.
        python: PathBuf,
    },
    /// The package index can't be reached.
    NoNetwork,
    /// The disk is full, or would be.
    DiskFull {
        /// The folder.
        path: PathBuf,
        /// Bytes that are needed, where that was known beforehand.
        needed: Option<u64>,
    },
    /// What came isn't what was asked for.
    ChecksumMismatch {
        /// The package or file.
        what: String,
    },
    /// There is no build of the server for this machine.
    NoBuild,
    /// The server was installed but doesn't start here.
    ServerBroken,
    /// Another process is setting a model up in the same folder, for longer
    /// than is plausible.
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// Python or pip failed in another way.
    StepFailed {
        /// What was being done.
        step: String,
    },
}

impl SetupProblem {
    /// The problem that an error reports, if it reports one.
    pub fn of(error: &Error) -> Option<&Self> {
        let mut next = std::error::Error::source(error);
        while let Some(source) = next {
            if let Some(problem) = source.downcast_ref() {
                return Some(problem);
            }
            next = source.source();
        }
        None
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Self::NoPython { .. } | Self::NoVenv { .. } => ErrorKind::NotFound,
            Self::NoNetwork | Self::DiskFull { .. } => ErrorKind::Unavailable,
            Self::ChecksumMismatch { .. } => ErrorKind::Corrupt,
            Self::NoBuild | Self::ServerBroken => ErrorKind::Unsupported,
            Self::Locked { .. } => ErrorKind::Busy,
            Self::StepFailed { .. } => ErrorKind::Unexpected,
        }
    }

    /// What happened and what to do.
    fn message(&self) -> String {
        const ELSE: &str = "or put `llama-server` of llama.cpp on the PATH";
        match self {
            Self::NoPython { found: None } => {
                format!("no Python was found: install Python 3.10 or later, {ELSE}")
            }
            Self::NoPython { found: Some(found) } => {
                format!("{found} is too old: install Python 3.10 or later, {ELSE}")
            }
            Self::NoVenv { python } => format!(
                "{} can't make virtual environments: install its `venv` module \
                 (on Debian and Ubuntu the package `python3-venv`)",
                python.display()
            ),
            Self::NoNetwork => String::from(
                "the Python package index can't be reached: check the network and proxy settings \
                 and try again; what was fetched already is kept",
            ),
            Self::DiskFull {
                path,
                needed: Some(needed),
            } => format!(
                "not enough room in {}: {} MB are needed; make room or use another home folder",
                path.display(),
                needed.div_ceil(1_000_000)
            ),
            Self::DiskFull { path, needed: None } => format!(
                "the disk filled up while writing to {}: make room or use another home folder",
                path.display()
            ),
            Self::ChecksumMismatch { what } => format!(
                "{what} isn't what it should be (checksum mismatch) and was thrown away: \
                 a proxy or mirror may have altered it; try again or use another network"
            ),
            Self::NoBuild => format!(
                "there is no build of the model server for this machine's system, processor or \
                 Python: use another Python (3.10 or later), {ELSE}"
            ),
            Self::ServerBroken => String::from(
                "the model server was installed but can't be loaded on this machine: \
                 build llama.cpp yourself and put its `llama-server` on the PATH",
            ),
            Self::Locked { path } => format!(
                "another process has been setting up a model for a long time: \
                 wait for it, or end it; it holds {}",
                path.display()
            ),
            Self::StepFailed { step } => format!("{step} failed; its output says why"),
        }
    }

    /// The error that reports this problem, with the end of what the failing
    /// program wrote, if it wrote anything.
    pub(crate) fn into_error(self, output: &str) -> Error {
        let mut error = Error::new(self.kind(), self.message()).operation("set up a local model");
        // A full disk stays full until somebody makes room.
        if matches!(self, Self::DiskFull { .. }) {
            error = error.permanent();
        }
        let output = output.trim();
        if !output.is_empty() {
            error = error.context("output", output);
        }
        error.source(self)
    }
}

impl fmt::Display for SetupProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NoPython { .. } => "no_python",
            Self::NoVenv { .. } => "no_venv",
            Self::NoNetwork => "no_network",
            Self::DiskFull { .. } => "disk_full",
            Self::ChecksumMismatch { .. } => "checksum_mismatch",
            Self::NoBuild => "no_build",
            Self::ServerBroken => "server_broken",
            Self::Locked { .. } => "locked",
            Self::StepFailed { .. } => "step_failed",
        })
    }
}

impl std::error::Error for SetupProblem {}

/// The error for a file operation that failed while setting up.
pub(crate) fn io(error: std::io::Error, doing: &str, path: &Path) -> Error {
    use std::io::ErrorKind as Io;
    if matches!(error.kind(), Io::StorageFull | Io::QuotaExceeded) {
        let folder = path.parent().unwrap_or(path).to_owned();
        return SetupProblem::DiskFull {
            path: folder,
            needed: None,
        }
        .into_error("");
    }
    Error::io(error, format!("can't {doing}"))
        .operation("set up a local model")
        .context("path", path.display())
}

/// What pip or Python complained of, as far as it can be told from its text.
pub(crate) fn diagnose(stderr: &str, step: &str, what: &str, folder: &Path) -> SetupProblem {
    let text = stderr.to_lowercase();
    let says = |signs: &[&str]| signs.iter().any(|sign| text.contains(sign));
    if says(&[
        "no space left on device",
        "disk quota exceeded",
        "not enough space on the disk",
    ]) {
        SetupProblem::DiskFull {
            path: folder.to_owned(),
            needed: None,
        }
    } else if says(&["do not match the hashes", "hash mismatch"]) {
        SetupProblem::ChecksumMismatch {
            what: what.to_owned(),
        }
    } else if says(&[
        "connection broken",
        "connectionerror",
        "newconnectionerror",
        "connection refused",
        "connection reset",
        "name resolution",
        "getaddrinfo failed",
        "network is unreachable",
        "timed out",
        "proxyerror",
        "sslerror",
        "ssl: ",
        "incompleteread",
        "from versions: none",
        "403 client error",
        "404 client error",
        " server error",
    ]) {
        SetupProblem::NoNetwork
    } else if says(&["no matching distribution found", "is not a supported wheel"]) {
        SetupProblem::NoBuild
    } else {
        SetupProblem::StepFailed {
            step: step.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pips_complaints_are_told_apart() {
        let check = |stderr: &str, expected: SetupProblem| {
            assert_eq!(
                diagnose(stderr, "downloading", "thing", Path::new("/home/x")),
                expected
            );
        };
        check(
            "WARNING: Retrying (Retry(total=0)) after connection broken by \
             'NewConnectionError: [Errno 111] Connection refused'\n\
             ERROR: Could not find a version that satisfies the requirement thing==1 \
             (from versions: none)\nERROR: No matching distribution found for thing==1",
            SetupProblem::NoNetwork,
        );
        check(
            "ERROR: Could not find a version that satisfies the requirement thing==1 \
             (from versions: 0.9, 1.1)\nERROR: No matching distribution found for thing==1",
            SetupProblem::NoBuild,
        );
        check(
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.",
            SetupProblem::ChecksumMismatch {
                what: "thing".into(),
            },
        );
        check(
            "OSError: [Errno 28] No space left on device",
            SetupProblem::DiskFull {
                path: "/home/x".into(),
                needed: None,
            },
        );
        check(
            "Segmentation fault",
            SetupProblem::StepFailed {
                step: "downloading".into(),
            },
        );
    }

    #[test]
    fn a_problem_is_found_again_in_its_error() {
        let error = SetupProblem::NoNetwork.into_error("pip said so");
        assert_eq!(SetupProblem::of(&error), Some(&SetupProblem::NoNetwork));
        assert!(error.is_temporary());
        assert_eq!(error.context_value("output"), Some("pip said so"));
        let full = SetupProblem::DiskFull {
            path: "/x".into(),
            needed: Some(1_500_000),
        };
        assert!(!full.clone().into_error("").is_temporary());
        assert!(full.message().contains("2 MB"), "{}", full.message());
        assert_eq!(full.to_string(), "disk_full");
        assert_eq!(SetupProblem::of(&Error::new(ErrorKind::Busy, "else")), None);
    }
}
