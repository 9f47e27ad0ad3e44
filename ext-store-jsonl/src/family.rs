//! Deleting threads, and what stands in the way: their forks.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use haft_api::{Error, ErrorKind, Result, ThreadId};
use rustix::fs::FileType;

use crate::config::DurabilityPolicy;
use crate::disk::{Access, Entry, Folder, disk_error, identity};
use crate::layout::{
    BUCKETS, DELETED_PREFIX, Layout, NEW_PREFIX, bucket, bucket_name, unique_name,
};
use crate::lock::ThreadLock;
use crate::log_file::LogFile;

const FAMILY_LOCK: &str = "family.lock";

/// How old the remains of a creation are before they count as left behind.
const ABANDONED_AFTER: Duration = Duration::from_secs(3600);

/// Keeps forks from being made while threads are deleted, across processes.
pub(crate) struct FamilyLock(File);

impl FamilyLock {
    /// For making a fork.
    pub(crate) fn shared(layout: &Layout) -> Result<Self> {
        Self::take(layout, File::lock_shared)
    }

    /// For deleting.
    fn exclusive(layout: &Layout) -> Result<Self> {
        Self::take(layout, File::lock)
    }

    fn take(layout: &Layout, lock: impl FnOnce(&File) -> std::io::Result<()>) -> Result<Self> {
        let threads = layout.threads();
        threads
            .ensure_file(FAMILY_LOCK, Access::ReadWrite)
            .and_then(|file| lock(&file).map(|()| Self(file)))
            .map_err(|e| {
                let path = threads.path_of(FAMILY_LOCK);
                disk_error(e, "the lock on forks and deletions can't be taken", &path)
            })
    }
}

impl Drop for FamilyLock {
    fn drop(&mut self) {
        // A child process that is just being started may hold a copy.
        let _ = self.0.unlock();
    }
}

/// Who is whose parent. A thread's parent never changes, so each log is asked
/// but once.
#[derive(Default)]
pub(crate) struct Families {
    /// The parent by thread; the number of the folder tells a thread from
    /// another of its id that came later.
    known: Mutex<HashMap<ThreadId, (u64, Option<ThreadId>)>>,
}

impl Families {
    /// Deletes a thread.
    pub(crate) fn delete(
        &self,
        layout: &Layout,
        policy: DurabilityPolicy,
        id: &ThreadId,
    ) -> Result<()> {
        let failed = |e| {
            disk_error(e, "the thread can't be deleted", &layout.thread_path(id))
                .context("thread", id)
        };
        let bucket = layout.bucket_of(id)?;
        let folder = layout.thread(id)?;
        let _lock = ThreadLock::take(&folder).map_err(|e| e.context("thread", id))?;
        let _family = FamilyLock::exclusive(layout)?;
        // Somebody may have deleted it before us.
        let now = bucket
            .stat(id.as_str())
            .map_err(|e| layout.thread_error(e, id))?;
        if identity(&now) != identity(&folder.own_stat().map_err(failed)?) {
            return Err(layout.thread_error(std::io::ErrorKind::NotFound.into(), id));
        }
        let forks = self
            .sweep_and_find_forks(layout, id)
            .map_err(|e| e.context("thread", id))?;
        if !forks.is_empty() {
            let names: Vec<_> = forks.iter().map(ThreadId::as_str).collect();
            return Err(Error::new(
                ErrorKind::Denied,
                "the thread has forks, whose history begins in its log; delete them first",
            )
            .context("thread", id)
            .context("forks", names.join(", ")));
        }
        let doomed = format!("{DELETED_PREFIX}{id}-{}", unique_name());
        bucket
            .rename_to(id.as_str(), &bucket, &doomed)
            .map_err(failed)?;
        // From here on it is gone. What a crash leaves of it is swept up later.
        if policy.syncs_life_cycle() {
            bucket.sync().map_err(failed)?;
        }
        bucket.remove_tree(&doomed).map_err(failed)
    }

    /// The forks of a thread, which are found by asking all others. Removes
    /// what crashes left of creations and deletions on the way.
    fn sweep_and_find_forks(&self, layout: &Layout, id: &ThreadId) -> Result<Vec<ThreadId>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = HashMap::new();
        for number in 0..BUCKETS {
            let name = bucket_name(number as u8);
            let folder = match layout.threads().folder(&name) {
                Ok(folder) => folder,
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                Err(e) => return Err(unreadable(e, &layout.threads().path_of(&name))),
            };
            for entry in folder.entries().map_err(|e| unreadable(e, folder.path()))? {
                if let Some(thread) = thread_of(&entry, number as u8) {
                    let parent = match known.remove(&thread) {
                        Some((inode, parent)) if inode == entry.inode => parent,
                        _ => parent_of(&folder, &thread),
                    };
                    found.insert(thread, (entry.inode, parent));
                } else {
                    sweep(&folder, &entry);
                }
            }
        }
        let mut forks: Vec<_> = found
            .iter()
            .filter(|(_, (_, parent))| parent.as_ref() == Some(id))
            .map(|(thread, _)| thread.clone())
            .collect();
        forks.sort();
        *known = found;
        Ok(forks)
    }
}

fn unreadable(error: std::io::Error, path: &Path) -> Error {
    disk_error(error, "a folder of the store can't be read", path)
}

/// The thread whose folder this is.
fn thread_of(entry: &Entry, number: u8) -> Option<ThreadId> {
    let id = ThreadId::new(entry.name.to_str()?).ok()?;
    (entry.kind == FileType::Directory && bucket(&id) == number).then_some(id)
}

/// A thread that can't be read has no parent that anybody could read it by.
fn parent_of(bucket: &Folder, id: &ThreadId) -> Option<ThreadId> {
    let folder = bucket.folder(id.as_str()).ok()?;
    let log = LogFile::open(&folder, id).ok()?;
    log.parent.map(|parent| parent.thread)
}

/// Removes what a crash left. What can't be removed now is tried again at the
/// next deletion.
fn sweep(bucket: &Folder, entry: &Entry) {
    let Some(name) = entry.name.to_str() else {
        return;
    };
    let left_behind = name.starts_with(DELETED_PREFIX)
        || name.starts_with(NEW_PREFIX) && is_abandoned(bucket, name);
    if entry.kind == FileType::Directory && left_behind {
        let _ = bucket.remove_tree(name);
    }
}

fn is_abandoned(bucket: &Folder, name: &str) -> bool {
    bucket.stat(name).is_ok_and(|stat| {
        let changed = UNIX_EPOCH + Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or(0));
        SystemTime::now()
            .duration_since(changed)
            .is_ok_and(|age| age > ABANDONED_AFTER)
    })
}
