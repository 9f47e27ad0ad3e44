//! Which threads there are: the folders themselves, which are the truth.

use std::collections::HashSet;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use haft_api::{Diagnostic, DiagnosticCode, ThreadId};

use crate::disk::Folder;
use crate::family::thread_of;
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
    threads: HashSet<ThreadId>,
    diagnostics: Vec<Diagnostic>,
}

impl Folders {
    pub(super) fn new() -> Self {
        Self {
            buckets: (0..BUCKETS).map(|_| Bucket::default()).collect(),
        }
    }

    /// Looks again at folders that may have changed. True if one has.
    pub(super) fn refresh(&mut self, threads: &Folder) -> io::Result<bool> {
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
            let found = Bucket::read(threads, number as u8, &name)?;
            any |= bucket.threads != found.threads || bucket.diagnostics != found.diagnostics;
            *bucket = found;
            bucket.changed_ns = (now - changed_ns > CLOCK_GRAIN_NS).then_some(changed_ns);
        }
        Ok(any)
    }

    pub(super) fn contains(&self, id: &ThreadId) -> bool {
        self.buckets[usize::from(bucket(id))].threads.contains(id)
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
    fn read(threads: &Folder, number: u8, name: &str) -> io::Result<Self> {
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
            match thread_of(&entry, number) {
                Some(id) => {
                    found.threads.insert(id);
                }
                None => found.diagnostics.push(foreign(
                    folder.path().join(&entry.name),
                    "neither a thread nor anything else that the store made".to_owned(),
                )),
            }
        }
        Ok(found)
    }
}
