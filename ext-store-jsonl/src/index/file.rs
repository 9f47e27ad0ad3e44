//! The index's file, shared by all processes that use a home.
//!
//! Whoever changes a thread appends a line, without taking a lock: one write at
//! the end of a file is whole. Whoever lists may replace the file by a shorter
//! one; an appender looks afterwards whether the file it wrote to is still the
//! index, and who replaces it copies what came in between.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::fs::{File, TryLockError};
use std::io;

use haft_api::{Diagnostic, ThreadId};
use rustix::fs::fstat;

use super::cursor::Cursor;
use super::line::{Decoded, Entry};
use super::snapshot::{HEAD_BYTES, Head, Known, Table, is_about_folder};
use crate::disk::{Access, Folder, identity, tighten};
use crate::layout::unique_name;
use crate::repair::write_all;
use crate::scan::read_full;

const INDEX: &str = "index.jsonl";
const INDEX_LOCK: &str = "index.lock";
const TEMPORARY: &str = ".index-";

/// The file is replaced when so many bytes were appended to it and a quarter of
/// what it had before.
const SPARE_BYTES: u64 = 64 * 1024;

/// How much of the entries is read at first, when some are wanted.
const FIRST_CHUNK: usize = 64 * 1024;
const LARGEST_CHUNK: usize = 4 * 1024 * 1024;

pub(super) type Entries = HashMap<ThreadId, Entry>;

/// How far the file was read.
#[derive(Default)]
pub(super) struct IndexFile {
    identity: Option<(u64, u64)>,
    offset: u64,
    /// Where the lines begin that were appended.
    appended_from: u64,
    /// The entries at its beginning that weren't read yet.
    rest: Option<Rest>,
    table: Table,
    /// A line isn't what was written: nothing that it says of folders counts.
    is_damaged: bool,
}

/// Entries in the order of the listing.
struct Rest {
    file: File,
    next: u64,
    end: u64,
    /// The last one that was read.
    last: Option<Cursor>,
    chunk: usize,
}

/// The lines of a text that aren't blank.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut start = 0;
    let ends = memchr::memchr_iter(b'\n', text);
    ends.map(move |end| &text[std::mem::replace(&mut start, end + 1)..end])
        .filter(|line| !line.is_empty())
}

/// Reads a stretch of a file; less where the file is shorter.
fn read(file: &File, from: u64, to: u64) -> io::Result<Vec<u8>> {
    let len = usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
    let mut text = vec![0; len];
    let got = read_full(file, &mut text, from)?;
    text.truncate(got);
    Ok(text)
}

/// Appends lines.
pub(super) fn append(threads: &Folder, lines: &[u8]) -> io::Result<()> {
    // Each round loses only against somebody who replaces the file.
    for _ in 0..8 {
        let file = threads.ensure_file(INDEX, Access::Append)?;
        let written = threads.ops().write(&file, lines)?;
        if written < lines.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        match threads.stat(INDEX) {
            Ok(now) if identity(&now) == identity(&fstat(&file)?) => return Ok(()),
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

impl IndexFile {
    /// Reads what was appended since the last time, or anew if the file is
    /// another. True if anything changed. Loose permissions are tightened.
    pub(super) fn refresh(
        &mut self,
        threads: &Folder,
        entries: &mut Entries,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> io::Result<bool> {
        let file = match threads.file(INDEX, Access::Read) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let had = self.identity.is_some();
                *self = Self::default();
                entries.clear();
                return Ok(had);
            }
            Err(e) => return Err(e),
        };
        diagnostics.extend(tighten(&**threads.ops(), &file, &threads.path_of(INDEX))?);
        let stat = fstat(&file)?;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let mut changed = false;
        if self.identity != Some(identity(&stat)) || size < self.offset {
            entries.clear();
            *self = Self::default();
            *self = Self::begin(file.try_clone()?, size)?;
            self.identity = Some(identity(&stat));
            changed = true;
        }
        Ok(self.read_to(&file, size, entries)? || changed)
    }

    /// Reads the beginning of a file that wasn't read before.
    fn begin(file: File, size: u64) -> io::Result<Self> {
        let beginning = read(&file, 0, size.min(HEAD_BYTES as u64))?;
        let Some((head, len)) = Head::decode(&beginning) else {
            return Ok(Self::default());
        };
        let folders_end = len.saturating_add(head.folders);
        let end = folders_end.saturating_add(head.entries);
        if end > size {
            // Cut off, so that entries may be missing that the folders are said
            // to have.
            return Ok(Self {
                is_damaged: true,
                ..Self::default()
            });
        }
        let mut table = Table::default();
        let text = read(&file, len, folders_end)?;
        let is_damaged = !lines(&text).all(|line| table.take(line));
        Ok(Self {
            identity: None,
            offset: end,
            appended_from: end,
            rest: (folders_end < end).then(|| Rest {
                file,
                next: folders_end,
                end,
                last: None,
                chunk: FIRST_CHUNK,
            }),
            table,
            is_damaged,
        })
    }

    fn read_to(&mut self, file: &File, size: u64, entries: &mut Entries) -> io::Result<bool> {
        if size <= self.offset {
            return Ok(false);
        }
        let text = read(file, self.offset, size)?;
        // A line that is being written is read the next time.
        let whole = memchr::memrchr(b'\n', &text).map_or(0, |at| at + 1);
        let lines: Vec<_> = lines(&text[..whole]).collect();
        self.offset += whole as u64;
        if entries.is_empty() {
            entries.reserve(lines.len());
        }
        let about_folders = lines.iter().filter(|line| is_about_folder(line));
        for line in about_folders {
            self.is_damaged |= !self.table.take(line);
        }
        // From the end: the last line of a thread is nearly always the one that
        // counts, and the others need only a glance then.
        let mut news = HashSet::new();
        for line in lines.into_iter().rev() {
            if is_about_folder(line) || Head::decode_line(line) {
                continue;
            }
            let found = Entry::decode(line, |id, version| {
                entries
                    .get(id)
                    .is_some_and(|known| match known.version().cmp(&version) {
                        Ordering::Less => false,
                        Ordering::Equal => news.contains(id),
                        Ordering::Greater => true,
                    })
            });
            match found {
                Decoded::Entry(id, entry) => {
                    news.insert(id.clone());
                    entries.insert(id, entry);
                }
                Decoded::Known => {}
                Decoded::Damaged => self.is_damaged = true,
            }
        }
        Ok(whole > 0)
    }

    /// What the file says of folders; nothing if it is damaged.
    pub(super) fn table(&self) -> Option<&Table> {
        (!self.is_damaged).then_some(&self.table)
    }

    pub(super) fn table_mut(&mut self) -> &mut Table {
        &mut self.table
    }

    /// Whether a line isn't what was written.
    pub(super) fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    pub(super) fn set_damaged(&mut self) {
        self.is_damaged = true;
    }

    /// Whether there are entries that weren't read yet.
    pub(super) fn has_rest(&self) -> bool {
        self.rest.is_some()
    }

    /// Whether all entries that come before this one in the listing were read.
    pub(super) fn is_read_to(&self, cursor: &Cursor) -> bool {
        match &self.rest {
            Some(rest) => rest.last.as_ref().is_some_and(|last| cursor >= last),
            None => true,
        }
    }

    /// Reads more entries, in the order of the listing; those of threads that
    /// `is_there` are kept. What can't be read counts as damage.
    pub(super) fn read_more(
        &mut self,
        entries: &mut Entries,
        is_there: impl Fn(&ThreadId) -> bool,
    ) {
        let Some(rest) = &mut self.rest else {
            return;
        };
        let to = rest.end.min(rest.next.saturating_add(rest.chunk as u64));
        let Ok(text) = read(&rest.file, rest.next, to) else {
            self.is_damaged = true;
            self.rest = None;
            return;
        };
        let whole = memchr::memrchr(b'\n', &text).map_or(0, |at| at + 1);
        rest.chunk = rest.chunk.saturating_mul(2).min(LARGEST_CHUNK);
        if whole == 0 && to < rest.end && rest.chunk < LARGEST_CHUNK {
            // No line is that long, but a larger chunk will tell.
            return;
        }
        rest.next += whole as u64;
        let is_over = rest.next >= rest.end || whole == 0;
        for line in lines(&text[..whole]) {
            let found = Entry::decode(line, |id, version| {
                entries
                    .get(id)
                    .is_some_and(|known| known.version() >= version)
            });
            match found {
                Decoded::Entry(id, entry) => {
                    let cursor = Cursor::new(entry.updated_ms, id.clone());
                    // In another order it isn't what was written.
                    self.is_damaged |= rest.last.as_ref().is_some_and(|last| cursor > *last);
                    rest.last = Some(cursor);
                    if is_there(&id) {
                        entries.insert(id, entry);
                    }
                }
                Decoded::Known => {}
                Decoded::Damaged => self.is_damaged = true,
            }
        }
        if is_over {
            self.is_damaged |= rest.next < rest.end;
            self.rest = None;
        }
    }

    /// Whether the file consists largely of lines that were appended, or is
    /// damaged.
    pub(super) fn is_bloated(&self) -> bool {
        let appended = self.offset.saturating_sub(self.appended_from);
        self.is_damaged || appended > SPARE_BYTES + self.appended_from / 4
    }

    /// Replaces the file by one that has one line for each thread. All entries
    /// must have been read. Does nothing if another process is at it.
    pub(super) fn compact(
        &mut self,
        threads: &Folder,
        entries: &Entries,
        known: impl Iterator<Item = (u8, Known)>,
    ) -> io::Result<()> {
        let lock = threads.ensure_file(INDEX_LOCK, Access::ReadWrite)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(()),
            Err(TryLockError::Error(e)) => return Err(e),
        }
        let outcome = self.replace(threads, entries, known);
        // A child process that is just being started may hold a copy.
        lock.unlock()?;
        outcome
    }

    fn replace(
        &mut self,
        threads: &Folder,
        entries: &Entries,
        known: impl Iterator<Item = (u8, Known)>,
    ) -> io::Result<()> {
        let old = match threads.file(INDEX, Access::Read) {
            Ok(old) => Some(old),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(e),
        };
        if let Some(old) = &old
            && Some(identity(&fstat(old)?)) != self.identity
        {
            // Somebody else replaced it; what is there is news.
            return Ok(());
        }
        // What others left who were killed at this; nobody else is at it now.
        for entry in threads.entries()? {
            if let Some(name) = entry.name.to_str()
                && name.starts_with(TEMPORARY)
            {
                threads.remove_file(name)?;
            }
        }
        let mut table = Table::default();
        let (text, appended_from) = whole_text(entries, known, &mut table);
        let name = format!("{TEMPORARY}{}", unique_name());
        let new = threads.create_file(&name, Access::Append)?;
        let replaced = write_all(&**threads.ops(), &new, &text)
            .and_then(|()| threads.rename_to(&name, threads, INDEX));
        if let Err(error) = replaced {
            let _ = threads.remove_file(&name);
            return Err(error);
        }
        if let Some(old) = old {
            // Lines of those who had the old file open already. What they say of
            // folders was true of the old one.
            let late = read(&old, self.offset, old.metadata()?.len())?;
            let mut kept = Vec::new();
            let late = late.split(|byte| *byte == b'\n');
            for line in late.filter(|line| !line.is_empty() && !is_about_folder(line)) {
                kept.push(b'\n');
                kept.extend_from_slice(line);
                kept.push(b'\n');
            }
            if !kept.is_empty() {
                write_all(&**threads.ops(), &new, &kept)?;
            }
        }
        *self = Self {
            identity: Some(identity(&fstat(&new)?)),
            offset: text.len() as u64,
            appended_from,
            rest: None,
            table,
            is_damaged: false,
        };
        Ok(())
    }
}

/// The text of a whole file, and where what is appended to it begins. Threads
/// that somebody is writing to stand there: every listing looks at them.
fn whole_text(
    entries: &Entries,
    known: impl Iterator<Item = (u8, Known)>,
    table: &mut Table,
) -> (Vec<u8>, u64) {
    let mut folders = Vec::new();
    for (folder, known) in known {
        known.encode(folder, &mut folders);
        table.set(folder, known);
    }
    let mut order: Vec<_> = entries.iter().collect();
    order.sort_unstable_by(|(one_id, one), (other_id, other)| {
        (other.updated_ms, *other_id).cmp(&(one.updated_ms, *one_id))
    });
    let (mut settled, mut open) = (Vec::new(), Vec::new());
    for (id, entry) in order {
        entry.encode(id, if entry.open { &mut open } else { &mut settled });
    }
    let head = Head {
        folders: folders.len() as u64,
        entries: settled.len() as u64,
    };
    let mut text = Vec::with_capacity(HEAD_BYTES + folders.len() + settled.len() + open.len());
    head.encode(&mut text);
    text.append(&mut folders);
    text.append(&mut settled);
    let appended_from = text.len() as u64;
    text.append(&mut open);
    (text, appended_from)
}
