//! Locks that keep two writers of one file apart.

use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cap_std::fs::Dir;
use haft_api::Result;

/// Locks by path, shared by all sessions of one provider. Two paths may share
/// a lock, which costs a short wait and nothing else.
#[derive(Debug)]
pub(crate) struct PathLocks {
    shards: [Mutex<()>; 64],
    hasher: RandomState,
}

impl Default for PathLocks {
    fn default() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::new(())),
            hasher: RandomState::new(),
        }
    }
}

impl PathLocks {
    pub(crate) fn lock(&self, folder: &Path, name: &Path) -> MutexGuard<'_, ()> {
        let index = self.hasher.hash_one((folder, name)) as usize % self.shards.len();
        // Nothing is kept under the lock that a panic could have left half done.
        self.shards[index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps out the writers of other providers and of other processes for as long
/// as it lives: an advisory lock on the folder itself.
#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct FolderLock {
    _held: Option<std::os::fd::OwnedFd>,
}

#[cfg(unix)]
impl FolderLock {
    /// Longest wait for a lock that is only ever held for one write.
    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

    /// # Errors
    /// [`haft_api::ErrorKind::Busy`] if somebody else holds it for ten seconds.
    pub(crate) fn take(folder: &Dir, path: &str) -> Result<Self> {
        use haft_api::{Error, ErrorKind};
        use rustix::fs::{FlockOperation, Mode, OFlags, flock, openat};
        use rustix::io::Errno;
        let fail = |e: Errno| super::roots::explain(e.into(), path);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = match openat(folder, ".", flags, Mode::empty()) {
            Ok(opened) => opened,
            // It may be written to without being readable.
            Err(Errno::ACCESS) => return Ok(Self { _held: None }),
            Err(e) => return Err(fail(e)),
        };
        let start = std::time::Instant::now();
        let mut pause = std::time::Duration::from_micros(50);
        loop {
            match flock(&opened, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    return Ok(Self {
                        _held: Some(opened),
                    });
                }
                Err(Errno::WOULDBLOCK | Errno::INTR) if start.elapsed() < Self::PATIENCE => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(std::time::Duration::from_millis(5));
                }
                Err(Errno::WOULDBLOCK | Errno::INTR) => {
                    return Err(Error::new(
                        ErrorKind::Busy,
                        "another program holds a lock on the file's folder; try again later",
                    )
                    .temporary()
                    .context("path", path));
                }
                // Some file systems of the network have no locks: there, only
                // this process's own writers are kept apart.
                Err(Errno::NOTSUP | Errno::NOLCK | Errno::BADF | Errno::INVAL | Errno::NOSYS) => {
                    return Ok(Self { _held: None });
                }
                Err(e) => return Err(fail(e)),
            }
        }
    }
}

#[cfg(not(unix))]
#[derive(Debug)]
pub(crate) struct FolderLock;

#[cfg(not(unix))]
impl FolderLock {
    /// Folders can't be locked here: only this provider's own writers are kept
    /// apart.
    pub(crate) fn take(_: &Dir, _: &str) -> Result<Self> {
        Ok(Self)
    }
}
