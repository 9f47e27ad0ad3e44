//! The listing of threads.
//!
//! `threads/index.jsonl` is a cache. Each line says what a thread was when the
//! line was written; the last one counts. A file that was replaced begins with
//! what makes it unnecessary to read the rest of it ([`snapshot`]). It may be deleted, cut, be out of
//! date or lack threads at any time: which threads there are is said by the
//! folders, and what a thread is by its log, which is looked at again whenever
//! its length isn't the one that the index knows.

mod cursor;
mod file;
mod folders;
mod line;
mod snapshot;

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use haft_api::{
    Diagnostic, DiagnosticCode, Error, ErrorKind, ListThreads, Result, ThreadId, ThreadMetadata,
    ThreadPage,
};
use rustix::fs::Stat;

use crate::disk::disk_error;
use crate::layout::{Layout, bucket, bucket_name};
use crate::log_file::{LOG_FILE, LogFile};
use cursor::Cursor;
use file::{Entries, IndexFile};
use folders::Folders;
use line::Entry;

/// Threads in a page unless the caller says how many.
const PAGE_THREADS: usize = 100;

/// How often a writer says again that it is there, if it appends at all.
pub(crate) const ANNOUNCE_EVERY_MS: u64 = 60_000;

/// A log that wasn't written to for so long has no writer, or one that will say
/// that it is there.
const SETTLED_AFTER: Duration = Duration::from_secs(600);

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
    /// The entries in the listing's order, unless they have changed since.
    order: Option<Vec<Cursor>>,
    /// Threads that somebody was writing to when last looked at.
    open: Vec<ThreadId>,
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
                order: None,
                open: Vec::new(),
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
        let mut fresh = Fresh::default();
        self.catch_up(layout, &mut fresh)?;
        let mut page = ThreadPage::default();
        loop {
            let (shown, more) = self.select(after, limit, archived);
            let last = shown.last().filter(|_| more);
            if self.file.has_rest() && !last.is_some_and(|last| self.file.is_read_to(last)) {
                self.read_more(layout, &mut fresh)?;
                continue;
            }
            // Looking at a thread may move it, and may bring up another in its
            // place that wasn't looked at yet.
            let mut any = false;
            for cursor in &shown {
                any |= self.look_at(layout, &cursor.thread, &mut fresh);
            }
            if any {
                continue;
            }
            page.next = shown.last().filter(|_| more).map(Cursor::to_string);
            page.threads = shown
                .iter()
                .filter_map(|cursor| self.metadata(layout, &cursor.thread, &mut fresh))
                .collect();
            break;
        }
        self.save(layout, fresh);
        if after.is_none() {
            page.diagnostics.append(&mut self.diagnostics);
            page.diagnostics.extend(self.folders.diagnostics().cloned());
            let mut unreadable: Vec<_> = self.unreadable.values().cloned().collect();
            unreadable.sort_by(|a, b| a.place.cmp(&b.place));
            page.diagnostics.append(&mut unreadable);
        }
        Ok(page)
    }

    /// Brings everything up to date, and looks at the threads that need it.
    fn catch_up(&mut self, layout: &Layout, fresh: &mut Fresh) -> Result<()> {
        for id in self.refresh(layout)? {
            self.look_at(layout, &id, fresh);
        }
        Ok(())
    }

    /// Reads more of the entries. If they turn out to be damaged, so may be what
    /// the index says of the folders.
    fn read_more(&mut self, layout: &Layout, fresh: &mut Fresh) -> Result<()> {
        let was_damaged = self.file.is_damaged();
        let folders = &self.folders;
        self.file
            .read_more(&mut self.entries, |id| folders.contains(id));
        self.order = None;
        if self.file.is_damaged() && !was_damaged {
            self.catch_up(layout, fresh)?;
        }
        Ok(())
    }

    /// Brings the entries up to date with the index's file and the folders.
    /// Gives the threads whose logs are to be looked at: those that the index
    /// lacks, and those that somebody was writing to.
    fn refresh(&mut self, layout: &Layout) -> Result<Vec<ThreadId>> {
        let threads = layout.threads();
        let read = self
            .file
            .refresh(threads, &mut self.entries, &mut self.diagnostics);
        let changed = read.unwrap_or_else(|error| {
            self.diagnostics.push(Diagnostic {
                code: DiagnosticCode::Foreign,
                lost: false,
                seq: None,
                place: Some(threads.path().display().to_string()),
                message: format!("the index can't be read, so that listing is slow: {error}"),
            });
            true
        });
        // After the file, so that no thread is missed that was made meanwhile:
        // it is in its folder before it is in the index.
        if self.file.is_damaged() {
            while self.file.has_rest() {
                self.file.read_more(&mut self.entries, |_| true);
            }
            self.folders = Folders::new();
        }
        let failed = |e| disk_error(e, "the threads can't be listed", threads.path());
        let changed = self
            .folders
            .refresh(threads, &self.entries, self.file.table())
            .map_err(failed)?
            || changed;
        if changed {
            self.order = None;
            if !self.file.has_rest() && !self.folders.agrees_with(&self.entries) {
                // Somebody took entries out.
                self.file.set_damaged();
                self.folders = Folders::new();
                self.folders
                    .refresh(threads, &self.entries, None)
                    .map_err(failed)?;
            }
            self.unreadable.retain(|id, _| self.folders.contains(id));
            let folders = &self.folders;
            let table = self.file.table_mut();
            self.entries.retain(|id, _| {
                let stays = folders.contains(id);
                if !stays {
                    table.forget(bucket(id), id);
                }
                stays
            });
            let open = self.entries.iter().filter(|(_, entry)| entry.open);
            self.open = open.map(|(id, _)| id.clone()).collect();
            // The entry of a thread may be among those that weren't read yet.
            let table = self.file.table().filter(|_| self.file.has_rest());
            let lacks = |id: &&ThreadId| {
                !self.entries.contains_key(*id)
                    && !table.is_some_and(|table| table.knows(bucket(id), id))
            };
            let mut missing: Vec<_> = folders.threads().filter(lacks).cloned().collect();
            missing.extend(self.open.iter().cloned());
            return Ok(missing);
        }
        Ok(self
            .open
            .iter()
            .chain(self.unreadable.keys())
            .cloned()
            .collect())
    }

    /// Looks at a thread's log unless that was done for this page, or its length
    /// is the one that is known. True if it was looked at.
    fn look_at(&mut self, layout: &Layout, id: &ThreadId, fresh: &mut Fresh) -> bool {
        if fresh.looked_at.contains_key(id) {
            return false;
        }
        let name = format!("{}/{id}/{LOG_FILE}", bucket_name(bucket(id)));
        let stat = layout.threads().stat(&name);
        // A writer that was idle for so long says so when it goes on.
        let settled = stat
            .as_ref()
            .is_ok_and(|stat| is_older(stat, SETTLED_AFTER));
        if let (Some(known), Ok(stat)) = (self.entries.get_mut(id), &stat)
            && u64::try_from(stat.st_size) == Ok(known.size)
        {
            if known.open && settled {
                known.open = false;
                known.encode(id, &mut fresh.lines);
                self.open.retain(|open| open != id);
            }
            return false;
        }
        self.order = None;
        match load(layout, id) {
            Ok((metadata, size)) => {
                let entry = Entry::new(&metadata, size, !settled);
                entry.encode(id, &mut fresh.lines);
                if !settled && !self.open.contains(id) {
                    self.open.push(id.clone());
                }
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
    fn select(
        &mut self,
        after: Option<&Cursor>,
        limit: usize,
        archived: bool,
    ) -> (Vec<Cursor>, bool) {
        let entries = &self.entries;
        let order = self.order.get_or_insert_with(|| {
            let cursor =
                |(id, entry): (&ThreadId, &Entry)| Cursor::new(entry.updated_ms, id.clone());
            let mut order: Vec<_> = entries.iter().map(cursor).collect();
            order.sort_unstable_by(|a, b| b.cmp(a));
            order
        });
        let start = after.map_or(0, |after| order.partition_point(|cursor| cursor >= after));
        let mut shown: Vec<_> = order[start..]
            .iter()
            .filter(|cursor| archived || !entries[&cursor.thread].archived)
            .take(limit.saturating_add(1))
            .cloned()
            .collect();
        let more = shown.len() > limit;
        shown.truncate(limit);
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
    fn save(&mut self, layout: &Layout, fresh: Fresh) {
        let threads = layout.threads();
        let mut lines = fresh.lines;
        let was_damaged = self.file.is_damaged();
        if self.file.is_bloated() {
            if !lines.is_empty() {
                let _ = file::append(threads, &lines);
            }
            let (folders, entries) = (&self.folders, &mut self.entries);
            while self.file.has_rest() {
                self.file.read_more(entries, |id| folders.contains(id));
                self.order = None;
            }
            if self.file.is_damaged() && !was_damaged {
                // The next listing begins anew.
                return;
            }
            let known = folders.known(|id| entries.contains_key(id));
            let _ = self.file.compact(threads, entries, known);
            return;
        }
        // The entries first: what is said of a folder is that they are there.
        let table = self.file.table();
        let unread = table.filter(|_| self.file.has_rest());
        let mut news = self.folders.news(|id| {
            self.entries.contains_key(id) || unread.is_some_and(|table| table.knows(bucket(id), id))
        });
        news.retain(|(folder, known)| table.is_some_and(|table| table.get(*folder) != Some(known)));
        // After the entries: what is said of a folder is that they are there.
        for (folder, known) in &news {
            known.encode(*folder, &mut lines);
        }
        if !lines.is_empty() && file::append(threads, &lines).is_ok() {
            for (folder, known) in news {
                self.file.table_mut().set(folder, known);
            }
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

fn is_older(stat: &Stat, age: Duration) -> bool {
    let changed = UNIX_EPOCH + Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or(0));
    SystemTime::now()
        .duration_since(changed)
        .is_ok_and(|passed| passed > age)
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

#[cfg(test)]
mod tests;
