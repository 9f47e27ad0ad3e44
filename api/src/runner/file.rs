//! Files of a session.

use serde::{Deserialize, Serialize};

/// Which part of a file to read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReadOptions {
    /// First byte.
    pub offset: u64,
    /// Most bytes; `None` is all.
    pub limit: Option<u64>,
}

impl ReadOptions {
    /// At most `limit` bytes from `offset` on.
    pub fn range(offset: u64, limit: u64) -> Self {
        Self {
            offset,
            limit: Some(limit),
        }
    }
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileData {
    /// The bytes of the range that was asked for.
    pub bytes: Vec<u8>,
    /// What is known of the whole file.
    pub metadata: FileMetadata,
}

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder.
    Dir,
    /// A symbolic link.
    Symlink,
    /// A device, a socket, a pipe.
    Other,
}

/// What is known of a file or folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FileMetadata {
    /// What it is.
    pub kind: FileKind,
    /// Its size in bytes.
    pub size: u64,
    /// When it was changed, in milliseconds since the Unix epoch, if known.
    pub modified_ms: Option<u64>,
    /// Its permission bits, where the system has such.
    pub mode: Option<u32>,
    /// Changes whenever the content does; see [`WriteMode::IfVersion`].
    pub version: String,
}

impl FileMetadata {
    /// Metadata with neither time nor mode.
    pub fn new(kind: FileKind, size: u64, version: impl Into<String>) -> Self {
        Self {
            kind,
            size,
            modified_ms: None,
            mode: None,
            version: version.into(),
        }
    }
}

/// What must be true for a write to happen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteMode {
    /// Nothing: make it or replace it.
    #[default]
    Any,
    /// The file isn't there yet.
    CreateNew,
    /// The file is there in just this version.
    IfVersion(String),
}

/// How to write a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WriteOptions {
    /// What must be true for it.
    pub mode: WriteMode,
    /// Whether to make missing folders above it.
    pub create_parents: bool,
    /// Permission bits for a new file; an existing one keeps its own.
    pub permissions: Option<u32>,
}

impl WriteOptions {
    /// Write under this condition.
    pub fn mode(mode: WriteMode) -> Self {
        Self {
            mode,
            ..Self::default()
        }
    }

    /// Also make missing folders above the file.
    #[must_use]
    pub fn create_parents(mut self) -> Self {
        self.create_parents = true;
        self
    }
}

/// How to list a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ListOptions {
    /// Go on after this name: the cursor of the page before.
    pub after: Option<String>,
    /// Most entries in a page; `None` leaves it to the session.
    pub limit: Option<usize>,
}

/// One entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirEntry {
    /// Its name, without the folder. Names that aren't UTF-8 are given lossily
    /// and can't be opened.
    pub name: String,
    /// What it is.
    pub kind: FileKind,
    /// Its size in bytes.
    pub size: u64,
}

/// A page of a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    /// The entries, by name.
    pub entries: Vec<DirEntry>,
    /// Where to go on, if there is more.
    pub next: Option<String>,
}
