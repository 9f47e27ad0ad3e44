//! Where things are on disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{fs, io};

use haft_api::{Diagnostic, Error, ErrorKind, Result, ThreadId, unix_ms_now};

use crate::disk::{FileOps, Folder, disk_error, tighten};

const THREADS: &str = "threads";

/// Folders that are no threads begin with a character that no id has.
pub(crate) const NEW_PREFIX: &str = ".new-";
pub(crate) const DELETED_PREFIX: &str = ".deleted-";

/// The number of folders that threads are spread over.
pub(crate) const BUCKETS: usize = 256;

/// The folder `threads` of a home, and what is where in it.
pub(crate) struct Layout {
    threads: Folder,
    /// The buckets that are known to be durable themselves.
    durable: Vec<AtomicBool>,
}

/// Which of the 256 folders a thread is in. A thread's id often begins with the
/// time, so it is a hash's byte: the highest of the id's CRC-32C.
pub(crate) fn bucket(id: &ThreadId) -> u8 {
    (crc32c::crc32c(id.as_str().as_bytes()) >> 24) as u8
}

pub(crate) fn bucket_name(bucket: u8) -> String {
    format!("{bucket:02x}")
}

impl Layout {
    /// Opens the folder in a home, both of which are made if they don't exist.
    /// A home that exists keeps its permissions: it is the user's.
    pub(crate) fn open(home: &Path, ops: Arc<dyn FileOps>) -> Result<(Self, Vec<Diagnostic>)> {
        let failed = |e| disk_error(e, "the store's home can't be opened", home);
        make_home(home).map_err(failed)?;
        let home = Folder::open(home, ops).map_err(failed)?;
        let path = home.path_of(THREADS);
        let failed = |e| disk_error(e, "the store's folder can't be opened", &path);
        let (threads, created) = home.ensure_folder(THREADS).map_err(failed)?;
        if created {
            home.sync().map_err(failed)?;
        }
        let loose = tighten(&**threads.ops(), &threads, &path).map_err(failed)?;
        let durable = (0..BUCKETS).map(|_| AtomicBool::new(false)).collect();
        Ok((Self { threads, durable }, loose.into_iter().collect()))
    }

    /// The folder all threads are in.
    pub(crate) fn threads(&self) -> &Folder {
        &self.threads
    }

    /// Where a thread is, for people.
    pub(crate) fn thread_path(&self, id: &ThreadId) -> PathBuf {
        self.threads
            .path()
            .join(bucket_name(bucket(id)))
            .join(id.as_str())
    }

    /// The bucket that a thread is in.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], about the thread.
    pub(crate) fn bucket_of(&self, id: &ThreadId) -> Result<Folder> {
        self.threads
            .folder(&bucket_name(bucket(id)))
            .map_err(|e| self.thread_error(e, id))
    }

    /// A thread's folder.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], about the thread.
    pub(crate) fn thread(&self, id: &ThreadId) -> Result<Folder> {
        self.bucket_of(id)?
            .folder(id.as_str())
            .map_err(|e| self.thread_error(e, id))
    }

    /// The bucket that a thread is to be in; made if it doesn't exist, and
    /// durable if that is asked for.
    pub(crate) fn ensure_bucket(&self, id: &ThreadId, durable: bool) -> io::Result<Folder> {
        let (folder, _) = self.threads.ensure_folder(&bucket_name(bucket(id)))?;
        // Who made it may not have made it durable yet.
        let known = &self.durable[usize::from(bucket(id))];
        if durable && !known.load(Ordering::Relaxed) {
            self.threads.sync()?;
            known.store(true, Ordering::Relaxed);
        }
        Ok(folder)
    }

    pub(crate) fn thread_error(&self, error: io::Error, id: &ThreadId) -> Error {
        if error.kind() == io::ErrorKind::NotFound {
            return Error::new(ErrorKind::NotFound, "no such thread")
                .context("thread", id)
                .context("store", self.threads.path().display());
        }
        disk_error(error, "the thread can't be opened", &self.thread_path(id)).context("thread", id)
    }
}

/// A part of a name that nobody else uses.
pub(crate) fn unique_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{}-{count}", unix_ms_now(), std::process::id())
}

/// Makes a home and the folders above it, as far as they don't exist.
fn make_home(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
    if path.is_dir() {
        return Ok(());
    }
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent {
        make_home(parent)?;
    }
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {}
        Err(_) if path.is_dir() => return Ok(()),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Err(e) => return Err(e),
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    fs::File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}
