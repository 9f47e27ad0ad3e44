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

use super::line::Entry;
use crate::disk::{Access, Folder, identity, tighten};
use crate::layout::unique_name;
use crate::repair::write_all;
use crate::scan::read_full;

const INDEX: &str = "index.jsonl";
const INDEX_LOCK: &str = "index.lock";
const TEMPORARY: &str = ".index-";

/// The file is replaced when it has so many lines more than one and a half times
/// the threads.
const SPARE_LINES: usize = 500;

pub(super) type Entries = HashMap<ThreadId, Entry>;

/// How far the file was read.
#[derive(Default)]
pub(super) struct IndexFile {
    identity: Option<(u64, u64)>,
    offset: u64,
    lines: usize,
}

/// The lines of a text that aren't blank.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut start = 0;
    let ends = memchr::memchr_iter(b'\n', text);
    ends.map(move |end| &text[std::mem::replace(&mut start, end + 1)..end])
        .filter(|line| !line.is_empty())
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
    /// Reads what was appended since the last time, or all if the file is
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
            *self = Self {
                identity: Some(identity(&stat)),
                ..Self::default()
            };
            entries.clear();
            changed = true;
        }
        Ok(self.read_to(&file, size, entries)? || changed)
    }

    fn read_to(&mut self, file: &File, size: u64, entries: &mut Entries) -> io::Result<bool> {
        let len = usize::try_from(size.saturating_sub(self.offset)).unwrap_or(0);
        if len == 0 {
            return Ok(false);
        }
        let mut text = vec![0; len];
        let got = read_full(file, &mut text, self.offset)?;
        // A line that is being written is read the next time.
        let whole = memchr::memrchr(b'\n', &text[..got]).map_or(0, |at| at + 1);
        let lines: Vec<_> = lines(&text[..whole]).collect();
        self.lines += lines.len();
        self.offset += whole as u64;
        if entries.is_empty() {
            entries.reserve(lines.len());
        }
        // From the end: the last line of a thread is nearly always the one that
        // counts, and the others need only a glance then.
        let mut news = HashSet::new();
        for line in lines.into_iter().rev() {
            let found = Entry::decode(line, |id, version| {
                entries
                    .get(id)
                    .is_some_and(|known| match known.version().cmp(&version) {
                        Ordering::Less => false,
                        Ordering::Equal => news.contains(id),
                        Ordering::Greater => true,
                    })
            });
            if let Some((id, entry)) = found {
                news.insert(id.clone());
                entries.insert(id, entry);
            }
        }
        Ok(whole > 0)
    }

    /// Whether the file consists mostly of lines that count no more.
    pub(super) fn is_bloated(&self, threads: usize) -> bool {
        self.lines > threads + threads / 2 + SPARE_LINES
    }

    /// Replaces the file by one that has one line for each thread. Does nothing
    /// if another process is at it.
    pub(super) fn compact(&mut self, threads: &Folder, entries: &Entries) -> io::Result<()> {
        let lock = threads.ensure_file(INDEX_LOCK, Access::ReadWrite)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(()),
            Err(TryLockError::Error(e)) => return Err(e),
        }
        let outcome = self.replace(threads, entries);
        // A child process that is just being started may hold a copy.
        lock.unlock()?;
        outcome
    }

    fn replace(&mut self, threads: &Folder, entries: &Entries) -> io::Result<()> {
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
        let mut text = Vec::new();
        for (id, entry) in entries {
            entry.encode(id, &mut text);
        }
        let name = format!("{TEMPORARY}{}", unique_name());
        let new = threads.create_file(&name, Access::Append)?;
        let replaced = write_all(&**threads.ops(), &new, &text)
            .and_then(|()| threads.rename_to(&name, threads, INDEX));
        if let Err(error) = replaced {
            let _ = threads.remove_file(&name);
            return Err(error);
        }
        if let Some(old) = old {
            // Lines of those who had the old file open already.
            let mut late = vec![
                0;
                usize::try_from(old.metadata()?.len().saturating_sub(self.offset))
                    .unwrap_or(0)
            ];
            let got = read_full(&old, &mut late, self.offset)?;
            late.truncate(got);
            if !late.is_empty() {
                late.push(b'\n');
                write_all(&**threads.ops(), &new, &late)?;
            }
        }
        *self = Self {
            identity: Some(identity(&fstat(&new)?)),
            offset: text.len() as u64,
            lines: entries.len(),
        };
        Ok(())
    }
}
