//! Files of a session: synchronous, for a thread that may block.

use std::collections::BinaryHeap;
use std::io::{self, Read as _, Seek as _};
use std::path::Path;
use std::sync::Arc;

use cap_std::fs::{Dir, File, Metadata, OpenOptions};
use haft_api::{
    DirEntry, Error, ErrorKind, FileData, FileKind, FileMetadata, ListOptions, Listing,
    ReadOptions, Result,
};

mod follow;
mod lock;
mod roots;
mod version;
mod write;

pub(crate) use lock::PathLocks;
use roots::{Access, LastLink, Roots};

/// Entries of a page where the caller named no number.
const LIST_PAGE: usize = 1000;
/// Most entries of a page.
const LIST_MAX: usize = 100_000;

/// The files of one session.
#[derive(Debug)]
pub(crate) struct Files {
    roots: Roots,
    locks: Arc<PathLocks>,
    max_read_bytes: u64,
}

impl Files {
    /// Opens the workspace and the read roots.
    ///
    /// # Errors
    /// If one of them isn't there or is no folder.
    pub(crate) fn open(
        workspace: &str,
        read_roots: &[String],
        locks: Arc<PathLocks>,
        max_read_bytes: u64,
    ) -> Result<Self> {
        Ok(Self {
            roots: Roots::open(workspace, read_roots)?,
            locks,
            max_read_bytes,
        })
    }

    /// The workspace's path, without links.
    #[cfg(target_os = "linux")]
    pub(crate) fn workspace_path(&self) -> std::path::PathBuf {
        self.roots.workspace().real().to_owned()
    }

    /// The workspace's number in its file system, where it has one.
    pub(crate) fn workspace_inode(&self) -> Option<u64> {
        #[cfg(unix)]
        {
            use cap_std::fs::MetadataExt as _;
            self.roots
                .workspace()
                .dir
                .dir_metadata()
                .ok()
                .map(|metadata| metadata.ino())
        }
        #[cfg(not(unix))]
        None
    }

    pub(crate) fn read(&self, path: &str, options: ReadOptions) -> Result<FileData> {
        let mut file = self
            .roots
            .act(path, Access::Read, LastLink::Follow, open_file)?;
        let metadata = file.metadata().map_err(|e| roots::explain(e, path))?;
        require_file(&metadata, path)?;
        let fail = |e| roots::explain(e, path);
        if metadata.len() <= version::HASHED_BYTES {
            // The version needs the whole content anyway.
            let whole = self.read_bytes(&mut file, u64::MAX, path)?;
            let metadata = version::describe_open(&mut file, Some(&whole)).map_err(fail)?;
            let bytes = slice(whole, options);
            return Ok(FileData { bytes, metadata });
        }
        // Before the content: a change while it is read makes the version old.
        let described = version::describe(&metadata);
        file.seek(io::SeekFrom::Start(options.offset))
            .map_err(fail)?;
        let bytes = self.read_bytes(&mut file, options.limit.unwrap_or(u64::MAX), path)?;
        Ok(FileData {
            bytes,
            metadata: described,
        })
    }

    fn read_bytes(&self, file: &mut File, limit: u64, path: &str) -> Result<Vec<u8>> {
        let most = limit.min(self.max_read_bytes);
        let mut bytes = Vec::new();
        file.take(most)
            .read_to_end(&mut bytes)
            .map_err(|e| roots::explain(e, path))?;
        let at_bound = bytes.len() as u64 == self.max_read_bytes && limit > most;
        if at_bound && file.read(&mut [0]).map_err(|e| roots::explain(e, path))? > 0 {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "the file is too large to be read at once; read it in ranges",
            )
            .context("path", path)
            .context("limit", self.max_read_bytes));
        }
        Ok(bytes)
    }

    pub(crate) fn metadata(&self, path: &str) -> Result<FileMetadata> {
        self.roots
            .act(path, Access::Read, LastLink::Keep, describe_entry)
    }

    pub(crate) fn list(&self, path: &str, options: &ListOptions) -> Result<Listing> {
        let limit = options.limit.unwrap_or(LIST_PAGE).clamp(1, LIST_MAX);
        let after = options.after.as_deref();
        self.roots
            .act(path, Access::Read, LastLink::Follow, |dir, path| {
                page(&dir.open_dir(path)?, after, limit)
            })
    }

    pub(crate) fn remove(&self, path: &str) -> Result<()> {
        let place = self.roots.locate(path, Access::Write, LastLink::Keep)?;
        if place.path == Path::new(".") {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "the workspace itself can't be removed",
            )
            .context("path", path));
        }
        self.roots
            .act(path, Access::Write, LastLink::Keep, |dir, path| {
                if dir.symlink_metadata(path)?.is_dir() {
                    dir.remove_dir(path)
                } else {
                    dir.remove_file(path)
                }
            })
    }

    pub(crate) fn make_dir(&self, path: &str) -> Result<()> {
        let make = |dir: &Dir, path: &Path| dir.create_dir_all(path);
        let made = self.roots.act(path, Access::Write, LastLink::Follow, make);
        let Err(error) = made else { return Ok(()) };
        if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists) {
            return Err(error);
        }
        // A link may be in the way, which making a folder doesn't follow.
        let place = self.roots.locate(path, Access::Write, LastLink::Follow)?;
        let absolute = place.absolute();
        let place = self
            .roots
            .relocate(path, &absolute, Access::Write, LastLink::Follow)?;
        make(&place.root.dir, &place.path).map_err(|e| {
            let message = "something that is no folder is in the way";
            Error::new(ErrorKind::AlreadyExists, message)
                .context("path", path)
                .source(e)
        })
    }

    /// The workspace itself, of which nothing is looked at: it may be gone.
    #[cfg(unix)]
    pub(crate) fn workspace_folder(&self) -> io::Result<(Dir, std::path::PathBuf)> {
        let root = self.roots.workspace();
        Ok((root.dir.try_clone()?, root.real().to_owned()))
    }

    /// Opens a folder for a command to start in.
    #[cfg(unix)]
    pub(crate) fn open_folder(&self, path: &str) -> Result<(Dir, std::path::PathBuf)> {
        let dir = self
            .roots
            .act(path, Access::Read, LastLink::Follow, |dir, path| {
                dir.open_dir(path)
            })
            .map_err(|e| e.context("as", "folder to start in"))?;
        let place = self.roots.locate(path, Access::Read, LastLink::Follow)?;
        Ok((dir, place.absolute()))
    }
}

/// Opens without waiting for anybody: a pipe without a writer would block.
fn open_file(dir: &Dir, path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use cap_std::fs::OpenOptionsExt as _;
        use rustix::fs::OFlags;
        options.custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed());
    }
    dir.open_with(path, &options)
}

fn require_file(metadata: &Metadata, path: &str) -> Result<()> {
    let message = match version::kind(metadata) {
        FileKind::File => return Ok(()),
        FileKind::Dir => "this is a folder, not a file",
        FileKind::Symlink | FileKind::Other => {
            "this is a device, a socket or a pipe, not a regular file"
        }
    };
    Err(Error::new(ErrorKind::InvalidInput, message).context("path", path))
}

fn describe_entry(dir: &Dir, path: &Path) -> io::Result<FileMetadata> {
    let metadata = dir.symlink_metadata(path)?;
    if metadata.is_file() && metadata.len() <= version::HASHED_BYTES {
        match open_file(dir, path) {
            Ok(mut file) => return version::describe_open(&mut file, None),
            // It may be looked at, if not into.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {}
            Err(e) => return Err(e),
        }
    }
    Ok(version::describe(&metadata))
}

fn slice(mut bytes: Vec<u8>, options: ReadOptions) -> Vec<u8> {
    let clamp = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).min(bytes.len());
    let start = clamp(options.offset);
    let end = clamp(
        options
            .offset
            .saturating_add(options.limit.unwrap_or(u64::MAX)),
    );
    bytes.truncate(end.max(start));
    bytes.drain(..start);
    bytes
}

/// The `limit` first names after `after`, with what they are. Holds no more
/// than a page in memory, however large the folder is.
fn page(dir: &Dir, after: Option<&str>, limit: usize) -> io::Result<Listing> {
    let mut first: BinaryHeap<String> = BinaryHeap::new();
    let mut more = false;
    let mut lossy = std::collections::HashMap::new();
    for entry in dir.entries()? {
        let name = entry?.file_name();
        let text = name.to_string_lossy().into_owned();
        if after.is_some_and(|after| text.as_str() <= after) {
            continue;
        }
        if name.to_str().is_none() {
            lossy.insert(text.clone(), name);
        }
        first.push(text);
        if first.len() > limit {
            more = true;
            if let Some(dropped) = first.pop() {
                lossy.remove(&dropped);
            }
        }
    }
    let mut entries = Vec::with_capacity(first.len());
    let names = first.into_sorted_vec();
    let next = if more { names.last().cloned() } else { None };
    for name in names {
        let real = lossy
            .get(&name)
            .map_or(name.as_ref(), |real| real.as_os_str());
        match dir.symlink_metadata(real) {
            Ok(metadata) => entries.push(DirEntry {
                kind: version::kind(&metadata),
                size: metadata.len(),
                name,
            }),
            // Gone since the folder was read.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    Ok(Listing { entries, next })
}
