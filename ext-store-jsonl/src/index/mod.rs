//! The listing of threads.
//!
//! `threads/index.jsonl` is a cache. Each line says what a thread was when the
//! line was written; the last one counts. It may be deleted, cut, be out of
//! date or lack threads at any time: which threads there are is said by the
//! folders, and what a thread is by its log, which is looked at again whenever
//! its length isn't the one that the index knows.

mod cursor;
mod file;
mod folders;
mod line;

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use haft_api::{
    Diagnostic, DiagnosticCode, Error, ErrorKind, ListThreads, Result, ThreadId, ThreadMetadata,
    ThreadPage,
};

use crate::disk::disk_error;
use crate::layout::{Layout, bucket, bucket_name};
use crate::log_file::{LOG_FILE, LogFile};
use cursor::Cursor;
use file::{Entries, IndexFile};
use folders::Folders;
use line::Entry;

/// Threads in a page unless the caller says how many.
const PAGE_THREADS: usize = 100;

/// Lists a home's threads.
pub(crate) struct Index {
    layout: Arc<Layout>,
    listing: Mutex<Listing>,
}

/// What is known from earlier listings.
struct Listing {
    file: IndexFile,
    folders: Folders,
    entries: Entries,
    /// Threads that couldn't be read when last tried, and why.
    unreadable: HashMap<ThreadId, Diagnostic>,
    /// What was found amiss with the store itself, for the next page.
    diagnostics: Vec<Diagnostic>,
}

impl Index {
    pub(crate) fn new(layout: Arc<Layout>, diagnostics: Vec<Diagnostic>) -> Self {
        Self {
            layout,
            listing: Mutex::new(Listing {
                file: IndexFile::default(),
                folders: Folders::new(),
                entries: Entries::new(),
                unreadable: HashMap::new(),
                diagnostics,
            }),
        }
    }

    /// Takes note of what a thread is now; `size` is its log's length.
    pub(crate) fn note(&self, metadata: &ThreadMetadata, size: u64, open: bool) -> io::Result<()> {
        let mut line = Vec::new();
        Entry::new(metadata, size, open).encode(&metadata.id, &mut line);
        file::append(self.layout.threads(), &line)
    }

    /// Lists a page of threads.
    pub(crate) fn list(&self, request: &ListThreads) -> Result<ThreadPage> {
        let limit = request.limit.unwrap_or(PAGE_THREADS);
        if limit == 0 {
            let message = "a page of 0 threads; ask for at least 1";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        let after = request.cursor.as_deref().map(Cursor::parse).transpose()?;
        // What a panic left of it is brought up to date like anything else.
        let mut listing = self.listing.lock().unwrap_or_else(PoisonError::into_inner);
        listing.page(&self.layout, after.as_ref(), limit, request.archived)
    }
}

impl Listing {
    fn page(
        &mut self,
        layout: &Layout,
        after: Option<&Cursor>,
        limit: usize,
        archived: bool,
    ) -> Result<ThreadPage> {
        self.refresh(layout)?;
        let mut fresh = Fresh::default();
        self.look_at_changed(layout, &mut fresh);
        let mut page = ThreadPage::default();
        loop {
            let (shown, more) = self.select(after, limit, archived);
            // Looking at a thread may move it, and may bring up another in its
            // place that wasn't looked at yet.
            if self.look_at_shown(layout, &shown, &mut fresh) {
                continue;
            }
            page.next = shown.last().filter(|_| more).map(Cursor::to_string);
            page.threads = shown
                .iter()
                .filter_map(|cursor| self.metadata(layout, &cursor.thread, &mut fresh))
                .collect();
            break;
        }
        self.save(layout, &fresh);
        if after.is_none() {
            page.diagnostics.append(&mut self.diagnostics);
            page.diagnostics.extend(self.folders.diagnostics().cloned());
            let mut unreadable: Vec<_> = self.unreadable.values().cloned().collect();
            unreadable.sort_by(|a, b| a.place.cmp(&b.place));
            page.diagnostics.append(&mut unreadable);
        }
        Ok(page)
    }

    /// Brings the entries up to date with the index's file and the folders.
    fn refresh(&mut self, layout: &Layout) -> Result<()> {
        let threads = layout.threads();
        let tightened = IndexFile::tighten(threads).and_then(|loose| {
            self.diagnostics.extend(loose);
            self.file.refresh(threads, &mut self.entries)
        });
        if let Err(error) = tightened {
            self.diagnostics.push(Diagnostic {
                code: DiagnosticCode::Foreign,
                lost: false,
                seq: None,
                place: Some(threads.path().display().to_string()),
                message: format!("the index can't be read, so that listing is slow: {error}"),
            });
        }
        // Last, so that no thread is missed that was made meanwhile: it is in
        // its folder before it is in the index.
        self.folders
            .refresh(threads)
            .map_err(|e| disk_error(e, "the threads can't be listed", threads.path()))?;
        self.entries.retain(|id, _| self.folders.contains(id));
        self.unreadable.retain(|id, _| self.folders.contains(id));
        Ok(())
    }

    /// Looks at the logs of threads that the index lacks, and of those that
    /// somebody was writing to.
    fn look_at_changed(&mut self, layout: &Layout, fresh: &mut Fresh) {
        let doubtful: Vec<_> = self
            .folders
            .threads()
            .filter(|id| self.entries.get(*id).is_none_or(|entry| entry.open))
            .cloned()
            .collect();
        for id in doubtful {
            self.look_at(layout, &id, fresh);
        }
    }

    /// Looks at the logs of threads that are about to be shown. True if one
    /// wasn't what the index said.
    fn look_at_shown(&mut self, layout: &Layout, shown: &[Cursor], fresh: &mut Fresh) -> bool {
        let mut any = false;
        for cursor in shown {
            any |= self.look_at(layout, &cursor.thread, fresh);
        }
        any
    }

    /// Looks at a thread's log unless that was done for this page, or its length
    /// is the one that is known. True if it was looked at.
    fn look_at(&mut self, layout: &Layout, id: &ThreadId, fresh: &mut Fresh) -> bool {
        if fresh.looked_at.contains_key(id) {
            return false;
        }
        let known = self.entries.get(id);
        let name = format!("{}/{id}/{LOG_FILE}", bucket_name(bucket(id)));
        let size = layout.threads().stat(&name).map(|stat| stat.st_size);
        if let (Some(known), Ok(size)) = (known, size)
            && u64::try_from(size) == Ok(known.size)
        {
            return false;
        }
        let open = known.is_none_or(|entry| entry.open);
        match load(layout, id) {
            Ok((metadata, size)) => {
                let entry = Entry::new(&metadata, size, open);
                entry.encode(id, &mut fresh.lines);
                self.entries.insert(id.clone(), entry);
                self.unreadable.remove(id);
                fresh.looked_at.insert(id.clone(), Some(metadata));
            }
            Err(error) => {
                self.entries.remove(id);
                self.unreadable
                    .insert(id.clone(), unreadable(layout, id, &error));
                fresh.looked_at.insert(id.clone(), None);
            }
        }
        true
    }

    /// The threads of a page, and whether there are more.
    fn select(&self, after: Option<&Cursor>, limit: usize, archived: bool) -> (Vec<Cursor>, bool) {
        let mut candidates: Vec<_> = self
            .entries
            .iter()
            .filter(|(_, entry)| archived || !entry.archived)
            .map(|(id, entry)| (entry.updated_ms, id))
            .filter(|key| after.is_none_or(|after| *key < after.key()))
            .collect();
        let more = candidates.len() > limit;
        if more {
            candidates.select_nth_unstable_by(limit, |a, b| b.cmp(a));
            candidates.truncate(limit);
        }
        candidates.sort_unstable_by(|a, b| b.cmp(a));
        let shown = candidates
            .into_iter()
            .map(|(updated_ms, id)| Cursor {
                updated_ms,
                thread: id.clone(),
            })
            .collect();
        (shown, more)
    }

    /// A thread's metadata: from the index if they are there, else from the log.
    fn metadata(
        &mut self,
        layout: &Layout,
        id: &ThreadId,
        fresh: &mut Fresh,
    ) -> Option<ThreadMetadata> {
        if let Some(Some(metadata)) = fresh.looked_at.remove(id) {
            return Some(metadata);
        }
        let json = self
            .entries
            .get(id)
            .and_then(|entry| entry.metadata.as_deref());
        if let Some(metadata) = json.and_then(|json| serde_json::from_str(json).ok()) {
            return Some(metadata);
        }
        match load(layout, id) {
            Ok((metadata, _)) => Some(metadata),
            Err(error) => {
                self.unreadable
                    .insert(id.clone(), unreadable(layout, id, &error));
                None
            }
        }
    }

    /// Writes to the index what was learnt. A failure costs the next listing
    /// some time and nothing else.
    fn save(&mut self, layout: &Layout, fresh: &Fresh) {
        let threads = layout.threads();
        if !fresh.lines.is_empty() {
            let _ = file::append(threads, &fresh.lines);
        }
        if self.file.is_bloated(self.entries.len()) {
            let _ = self.file.compact(threads, &self.entries);
        }
    }
}

/// What was learnt while a page was made.
#[derive(Default)]
struct Fresh {
    looked_at: HashMap<ThreadId, Option<ThreadMetadata>>,
    /// For the index.
    lines: Vec<u8>,
}

/// Reads what a thread is from its log, and the log's length.
fn load(layout: &Layout, id: &ThreadId) -> Result<(ThreadMetadata, u64)> {
    let log = LogFile::open(&layout.thread(id)?, id)?;
    match log.tail(id)? {
        Some(tail) => Ok((tail.metadata, log.size)),
        None => Err(Error::new(
            ErrorKind::Corrupt,
            "there is no record in its log",
        )),
    }
}

fn unreadable(layout: &Layout, id: &ThreadId, error: &Error) -> Diagnostic {
    Diagnostic {
        code: DiagnosticCode::DamagedRecord,
        lost: true,
        seq: None,
        place: Some(layout.thread_path(id).display().to_string()),
        message: format!("the thread {id} can't be read: {error}"),
    }
}
