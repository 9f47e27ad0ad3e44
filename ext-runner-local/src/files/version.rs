//! Versions of files: a text that changes whenever the content does.
//!
//! Up to [`HASHED_BYTES`] the version is a hash of the content, which is exact:
//! it changes with the content and with nothing else. Reading and hashing so
//! much takes no longer than a millisecond or two. A larger file's version is
//! made of its inode, size and times of change. Every write through a session
//! makes a new inode and new times; what may go unnoticed is a change in place,
//! by somebody else, that keeps the size and happens within one tick of the
//! kernel's clock (10 ms at most; none on Linux from 6.13 on) after the version
//! was taken.

use std::io::{self, Read as _};

use cap_std::fs::{File, Metadata};
use haft_api::{FileKind, FileMetadata};
use sha2::{Digest, Sha256};

/// Largest file whose version is a hash.
pub(crate) const HASHED_BYTES: u64 = 1024 * 1024;

pub(crate) fn kind(metadata: &Metadata) -> FileKind {
    let kind = metadata.file_type();
    if kind.is_file() {
        FileKind::File
    } else if kind.is_dir() {
        FileKind::Dir
    } else if kind.is_symlink() {
        FileKind::Symlink
    } else {
        FileKind::Other
    }
}

/// What is known of an open file, whose content may be at hand already.
pub(crate) fn describe_open(file: &mut File, whole: Option<&[u8]>) -> io::Result<FileMetadata> {
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > HASHED_BYTES {
        return Ok(describe(&metadata));
    }
    let version = match whole {
        Some(bytes) => hash(bytes),
        None => {
            let mut bytes = Vec::new();
            // Beyond the size that was told: it may be growing, and files of
            // /proc say zero.
            io::Seek::rewind(file)?;
            file.take(HASHED_BYTES).read_to_end(&mut bytes)?;
            hash(&bytes)
        }
    };
    Ok(with_version(&metadata, version))
}

/// What is known without a look into it.
pub(crate) fn describe(metadata: &Metadata) -> FileMetadata {
    with_version(metadata, stamp(metadata))
}

/// What is known of a file just written with these bytes.
pub(crate) fn describe_written(metadata: &Metadata, bytes: &[u8]) -> FileMetadata {
    match metadata.len() {
        0..=HASHED_BYTES => with_version(metadata, hash(bytes)),
        _ => describe(metadata),
    }
}

fn with_version(metadata: &Metadata, version: String) -> FileMetadata {
    let mut described = FileMetadata::new(kind(metadata), metadata.len(), version);
    described.modified_ms = metadata.modified().ok().and_then(|time| {
        let since = time.into_std().duration_since(std::time::UNIX_EPOCH).ok()?;
        u64::try_from(since.as_millis()).ok()
    });
    #[cfg(unix)]
    {
        use cap_std::fs::MetadataExt as _;
        described.mode = Some(metadata.mode() & 0o7777);
    }
    described
}

fn hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let mut text = String::with_capacity(2 + 32);
    text.push_str("h-");
    for byte in &digest[..16] {
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(unix)]
fn stamp(metadata: &Metadata) -> String {
    use cap_std::fs::MetadataExt as _;
    format!(
        "s-{:x}-{:x}-{:x}.{:x}-{:x}.{:x}",
        metadata.ino(),
        metadata.len(),
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ctime(),
        metadata.ctime_nsec(),
    )
}

#[cfg(not(unix))]
fn stamp(metadata: &Metadata) -> String {
    let modified = metadata
        .modified()
        .ok()
        .and_then(|t| t.into_std().duration_since(std::time::UNIX_EPOCH).ok())
        .map_or(0, |since| since.as_nanos());
    format!("s-{:x}-{modified:x}", metadata.len())
}
