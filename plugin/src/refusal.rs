//! Why a shared object isn't loaded.

use std::error::Error as StdError;
use std::fmt;
use std::path::{Path, PathBuf};

use haft_api::{Error, ErrorKind};

/// What was wrong, in the order in which it is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalKind {
    /// The path isn't absolute.
    NotAbsolute,
    /// There is no such file, or it can't be read.
    Unreadable,
    /// It is no regular file.
    NotRegular,
    /// The file or its folder belongs to somebody else.
    Owner,
    /// Others may write to the file or its folder.
    Writable,
    /// It isn't the file whose digest was given.
    Digest,
    /// It is no ELF file, or none that can be loaded.
    Format,
    /// It is for another machine.
    Machine,
    /// Its end is missing.
    Truncated,
    /// It is no plug-in: the entry symbol isn't there.
    NoSymbol,
    /// The entry symbol isn't data.
    NotData,
    /// What the entry symbol names isn't a plug-in's table.
    Magic,
    /// It speaks another ABI.
    AbiMajor,
    /// It needs a later host.
    AbiMinor,
    /// Its table is smaller than it must be.
    TableSize,
    /// Its panics would end the process.
    Abort,
    /// It was built against an incompatible version of `haft-api`.
    ApiVersion,
    /// The system didn't load it.
    Open,
    /// What was loaded isn't what was checked.
    Changed,
    /// It couldn't start.
    Init,
    /// It doesn't say properly what it brings.
    Describe,
}

impl RefusalKind {
    fn message(self) -> &'static str {
        match self {
            Self::NotAbsolute => "the path of a plug-in must be absolute",
            Self::Unreadable => "the file can't be read",
            Self::NotRegular => "it is not a regular file",
            Self::Owner => "it belongs to somebody else, who could change it",
            Self::Writable => "others may write to it; run `chmod go-w` on it",
            Self::Digest => "its SHA-256 is not the one that was given",
            Self::Format => "it is not a shared object",
            Self::Machine => "it was built for another machine",
            Self::Truncated => "its end is missing",
            Self::NoSymbol => "it is not a plug-in: it doesn't export the entry symbol",
            Self::NotData => "its entry symbol is not data in the file",
            Self::Magic => "its entry symbol doesn't name a plug-in's table",
            Self::AbiMajor => "it was built for another plug-in ABI; rebuild it",
            Self::AbiMinor => "it needs a later version of the host",
            Self::TableSize => "its table is too small",
            Self::Abort => "its panics would end the process; build it with `panic = \"unwind\"`",
            Self::ApiVersion => {
                "it was built against an incompatible version of haft-api; rebuild it"
            }
            Self::Open => "the system can't load it",
            Self::Changed => "it was replaced while it was loaded",
            Self::Init => "it couldn't start",
            Self::Describe => "it doesn't say properly what it brings",
        }
    }

    fn error_kind(self) -> ErrorKind {
        match self {
            Self::NotAbsolute | Self::NotRegular => ErrorKind::InvalidInput,
            Self::Unreadable => ErrorKind::NotFound,
            Self::Owner | Self::Writable | Self::Digest | Self::Changed => ErrorKind::Denied,
            Self::Truncated | Self::Magic | Self::NotData | Self::Describe => ErrorKind::Corrupt,
            Self::Open | Self::Init => ErrorKind::Unexpected,
            _ => ErrorKind::Unsupported,
        }
    }
}

/// Why a shared object isn't loaded: what was checked, what was wanted and what
/// was there.
#[derive(Debug)]
pub struct Refusal {
    kind: RefusalKind,
    file: PathBuf,
    wanted: String,
    offered: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Refusal {
    pub(crate) fn new(
        kind: RefusalKind,
        file: &Path,
        wanted: impl fmt::Display,
        offered: impl fmt::Display,
    ) -> Self {
        Self {
            kind,
            file: file.to_owned(),
            wanted: wanted.to_string(),
            offered: offered.to_string(),
            source: None,
        }
    }

    pub(crate) fn source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What was wrong.
    pub fn kind(&self) -> RefusalKind {
        self.kind
    }

    /// The file or folder that it is about.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// What would have been right.
    pub fn wanted(&self) -> &str {
        &self.wanted
    }

    /// What was there instead.
    pub fn offered(&self) -> &str {
        &self.offered
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (file: {}, wanted: {}, offered: {})",
            self.kind.message(),
            self.file.display(),
            self.wanted,
            self.offered
        )
    }
}

impl StdError for Refusal {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source
            .as_deref()
            .map(|s| s as &(dyn StdError + 'static))
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        let error = match &refusal.source {
            // The cause knows best what kind of failure it was.
            Some(source) => match source.downcast_ref::<std::io::Error>() {
                Some(io) => Error::io(io.kind().into(), refusal.kind.message()).kind(),
                None => refusal.kind.error_kind(),
            },
            None => refusal.kind.error_kind(),
        };
        let error = Error::new(error, refusal.kind.message())
            .operation("load a plug-in")
            .context("file", refusal.file.display())
            .context("wanted", &refusal.wanted)
            .context("offered", &refusal.offered)
            .permanent();
        match refusal.source {
            Some(source) => error.source(source),
            None => error,
        }
    }
}
