//! Which threads there are: the folders themselves, which are the truth.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use haft_api::{Diagnostic, DiagnosticCode, ThreadId};
use rustix::fs::FileType;

use super::file::Entries;
use crate::disk::Folder;
use crate::layout::{BUCKETS, DELETED_PREFIX, NEW_PREFIX, bucket, bucket_name};

/// A folder that changed less than this ago may change again without its time
/// of change showing it.
const CLOCK_GRAIN_NS: i128 = 2_000_000_000;

/// What is in each of the 256 folders, as of when it was last looked at.
pub(super) struct Folders {
    buckets: Vec<Bucket>,
}

#[derive(Default)]
struct Bucket {
    /// When the folder changed, if that settles whether it has changed again.
    changed_ns: Option<i128>,
    threads: Vec<ThreadId>,
    diagnostics: Vec<Diagnostic>,
}

impl Folders {
    pub(super) fn new() -> Self {
        Self {
            buckets: (0..BUCKETS).map(|_| Bucket::default()).collect(),
        }
    }

    /// Looks again at folders that may have changed. True if one has. Ids are
    /// taken from `known` where it has them.
    pub(super) fn refresh(&mut self, threads: &Folder, known: &Entries) -> io::Result<bool> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |now| now.as_nanos());
        let now = i128::try_from(now).unwrap_or(i128::MAX);
        let mut any = false;
        for (number, bucket) in self.buckets.iter_mut().enumerate() {
            let name = bucket_name(number as u8);
            let changed_ns = match threads.stat(&name) {
                Ok(stat) => {
                    i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec)
                }
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    any |= !bucket.threads.is_empty() || !bucket.diagnostics.is_empty();
                    *bucket = Bucket::default();
                    continue;
                }
                Err(e) => return Err(e),
            };
            if bucket.changed_ns == Some(changed_ns) {
                continue;
            }
            let found = Bucket::read(threads, number as u8, &name, known)?;
            any |= bucket.threads != found.threads || bucket.diagnostics != found.diagnostics;
            *bucket = found;
            bucket.changed_ns = (now - changed_ns > CLOCK_GRAIN_NS).then_some(changed_ns);
        }
        Ok(any)
    }

    pub(super) fn contains(&self, id: &ThreadId) -> bool {
        self.buckets[usize::from(bucket(id))]
            .threads
            .binary_search(id)
            .is_ok()
    }

    pub(super) fn count(&self) -> usize {
        self.buckets.iter().map(|bucket| bucket.threads.len()).sum()
    }

    pub(super) fn threads(&self) -> impl Iterator<Item = &ThreadId> {
        self.buckets.iter().flat_map(|bucket| &bucket.threads)
    }

    /// What is there that the store didn't make.
    pub(super) fn diagnostics(&self) -> impl Iterator<Item = &Diagnostic> {
        self.buckets.iter().flat_map(|bucket| &bucket.diagnostics)
    }
}

impl Bucket {
    fn read(threads: &Folder, number: u8, name: &str, known: &Entries) -> io::Result<Self> {
        let mut found = Self::default();
        let foreign = |path: std::path::PathBuf, message: String| Diagnostic {
            code: DiagnosticCode::Foreign,
            lost: false,
            seq: None,
            place: Some(path.display().to_string()),
            message,
        };
        let folder = match threads.folder(name) {
            Ok(folder) => folder,
            Err(e) => {
                let message = format!("not a folder that threads can be listed from: {e}");
                found
                    .diagnostics
                    .push(foreign(threads.path_of(name), message));
                return Ok(found);
            }
        };
        for entry in folder.entries()? {
            let entry_name = entry.name.to_string_lossy();
            if entry_name.starts_with(NEW_PREFIX) || entry_name.starts_with(DELETED_PREFIX) {
                continue;
            }
            let id = match known.get_key_value(&*entry_name) {
                Some((id, _)) => Ok(id.clone()),
                None => ThreadId::new(&*entry_name),
            };
            match id {
                Ok(id) if entry.kind == FileType::Directory && bucket(&id) == number => {
                    found.threads.push(id);
                }
                _ => found.diagnostics.push(foreign(
                    folder.path().join(&entry.name),
                    "neither a thread nor anything else that the store made".to_owned(),
                )),
            }
        }
        // The system's order is any.
        found.threads.sort_unstable();
        Ok(found)
    }
}
