//! Which threads there are: the folders themselves, which are the truth.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use haft_api::{Diagnostic, DiagnosticCode, ThreadId};
use rustix::fs::FileType;

use super::file::Entries;
use super::snapshot::{Known, State, Table};
use crate::disk::Folder;
use crate::layout::{BUCKETS, DELETED_PREFIX, NEW_PREFIX, bucket, bucket_name};

/// A folder that changed less than this ago may change again without its time
/// of change showing it.
const CLOCK_GRAIN_NS: u64 = 2_000_000_000;

/// What is in each of the 256 folders, as of when it was last looked at.
pub(super) struct Folders {
    buckets: Vec<Bucket>,
    /// Those that were read and are settled, of which the index isn't told yet.
    news: Vec<u8>,
}

#[derive(Default)]
struct Bucket {
    /// What the folder was then, if that settles whether it has changed since.
    state: Option<State>,
    threads: Threads,
    diagnostics: Vec<Diagnostic>,
}

enum Threads {
    /// Those that are there, sorted.
    Read(Vec<ThreadId>),
    /// The folder hasn't changed since the index knew these.
    Indexed(Known),
}

impl Default for Threads {
    fn default() -> Self {
        Self::Read(Vec::new())
    }
}

impl Folders {
    pub(super) fn new() -> Self {
        Self {
            buckets: (0..BUCKETS).map(|_| Bucket::default()).collect(),
            news: Vec::new(),
        }
    }

    /// Looks again at folders that may have changed, unless the index says what
    /// is in them. True if one has. Ids are taken from `known` where it has them.
    pub(super) fn refresh(
        &mut self,
        threads: &Folder,
        known: &Entries,
        table: Option<&Table>,
    ) -> io::Result<bool> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |now| now.as_nanos());
        let now = u64::try_from(now).unwrap_or(u64::MAX);
        let mut any = false;
        for (number, bucket) in self.buckets.iter_mut().enumerate() {
            let number = number as u8;
            let name = bucket_name(number);
            let state = match threads.stat(&name) {
                Ok(stat) => State::of(&stat),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    any |= !bucket.is_empty();
                    *bucket = Bucket::default();
                    continue;
                }
                Err(e) => return Err(e),
            };
            if bucket.state == Some(state) {
                continue;
            }
            let indexed = table.and_then(|table| table.get(number));
            if let Some(indexed) = indexed.filter(|indexed| indexed.state == state) {
                *bucket = Bucket {
                    state: Some(state),
                    threads: Threads::Indexed(indexed.clone()),
                    diagnostics: Vec::new(),
                };
                any = true;
                continue;
            }
            let found = Bucket::read(threads, number, &name, known)?;
            any |= !bucket.is_same(&found);
            *bucket = found;
            let settled = now.saturating_sub(state.changed_ns()) > CLOCK_GRAIN_NS;
            bucket.state = settled.then_some(state);
            if settled {
                self.news.push(number);
            }
        }
        Ok(any)
    }

    pub(super) fn contains(&self, id: &ThreadId) -> bool {
        match &self.buckets[usize::from(bucket(id))].threads {
            Threads::Read(threads) => threads.binary_search(id).is_ok(),
            Threads::Indexed(known) => known.contains(id),
        }
    }

    /// The threads of the folders that were read.
    pub(super) fn threads(&self) -> impl Iterator<Item = &ThreadId> {
        self.buckets.iter().flat_map(Bucket::read_threads)
    }

    /// What is there that the store didn't make.
    pub(super) fn diagnostics(&self) -> impl Iterator<Item = &Diagnostic> {
        self.buckets.iter().flat_map(|bucket| &bucket.diagnostics)
    }

    /// Whether there is an entry of each thread of the folders that weren't read.
    pub(super) fn agrees_with(&self, entries: &Entries) -> bool {
        let mut counts = [0; BUCKETS];
        for id in entries.keys().filter(|id| self.contains(id)) {
            counts[usize::from(bucket(id))] += 1;
        }
        let mut buckets = self.buckets.iter().zip(counts);
        buckets.all(|(bucket, count)| match &bucket.threads {
            Threads::Read(_) => true,
            Threads::Indexed(known) => known.count() == count,
        })
    }

    /// What the index may say of each folder.
    pub(super) fn known<'f>(
        &'f self,
        has_entry: impl Fn(&ThreadId) -> bool + 'f,
    ) -> impl Iterator<Item = (u8, Known)> + 'f {
        let buckets = self.buckets.iter().enumerate();
        buckets.filter_map(move |(number, bucket)| Some((number as u8, bucket.known(&has_entry)?)))
    }

    /// The same of the folders of which it wasn't told yet.
    pub(super) fn news(&mut self, has_entry: impl Fn(&ThreadId) -> bool) -> Vec<(u8, Known)> {
        let news = std::mem::take(&mut self.news).into_iter();
        let known = news.filter_map(|number| {
            let known = self.buckets[usize::from(number)].known(&has_entry)?;
            Some((number, known))
        });
        known.collect()
    }
}

impl Bucket {
    fn is_empty(&self) -> bool {
        let none = matches!(&self.threads, Threads::Read(threads) if threads.is_empty());
        none && self.diagnostics.is_empty()
    }

    fn is_same(&self, other: &Self) -> bool {
        match (&self.threads, &other.threads) {
            (Threads::Read(one), Threads::Read(other_threads)) => {
                one == other_threads && self.diagnostics == other.diagnostics
            }
            _ => false,
        }
    }

    /// What the index may say of it: if it won't have changed without showing it,
    /// and there are threads in it that have an entry, and nothing else.
    fn known(&self, has_entry: impl Fn(&ThreadId) -> bool) -> Option<Known> {
        let state = self.state?;
        match &self.threads {
            Threads::Indexed(known) => Some(known.clone()),
            Threads::Read(threads) => {
                let good = !threads.is_empty() && self.diagnostics.is_empty();
                (good && threads.iter().all(has_entry)).then(|| Known::new(state, threads.iter()))
            }
        }
    }

    fn read_threads(&self) -> &[ThreadId] {
        match &self.threads {
            Threads::Read(threads) => threads,
            Threads::Indexed(_) => &[],
        }
    }

    fn read(threads: &Folder, number: u8, name: &str, known: &Entries) -> io::Result<Self> {
        let mut found = Self::default();
        let mut ids = Vec::new();
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
                    ids.push(id);
                }
                _ => found.diagnostics.push(foreign(
                    folder.path().join(&entry.name),
                    "neither a thread nor anything else that the store made".to_owned(),
                )),
            }
        }
        // The system's order is any.
        ids.sort_unstable();
        found.threads = Threads::Read(ids);
        Ok(found)
    }
}
