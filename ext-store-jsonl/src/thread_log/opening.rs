//! How a writer comes by its log.

use std::fs::File;
use std::io;
use std::sync::Arc;

use haft_api::{ErrorKind, Result, ThreadId, ThreadMetadata, unix_ms_now};
use rustix::fs::fstat;

use super::mend::Mend;
use super::{State, ThreadLog};
use crate::config::DurabilityPolicy;
use crate::disk::{Access, Folder, disk_error, identity, tighten};
use crate::frame::Fault;
use crate::index::Index;
use crate::kinds::Header;
use crate::lock::{LOCK_FILE, ThreadLock};
use crate::log_file::{LOG_FILE, LogFile, newer_format};
use crate::scan::{Piece, Scanner};
use crate::unused;

const NEWER: &str = "the thread was written by a newer version of haft, in a format that this one \
                     only reads; write to it with that version";

const UNREADABLE: &str = "no line of the thread's log is a record that this version can read, so it \
                          isn't touched; see whether it is another version's";

impl ThreadLog {
    /// Takes the log of a thread that was just created: it has a header and
    /// nothing else.
    pub(crate) fn created(
        folder: Folder,
        file: File,
        lock: ThreadLock,
        header: &Header,
        size: u64,
        policy: DurabilityPolicy,
        index: Arc<Index>,
    ) -> io::Result<Self> {
        let identity = identity(&fstat(&file)?);
        Ok(Self {
            path: folder.path_of(LOG_FILE),
            identity,
            policy,
            state: State::Open,
            metadata: header.to_metadata(),
            good: size,
            size,
            mend: Mend::default(),
            unsynced: false,
            since_checkpoint: (1, size),
            diagnostics: Vec::new(),
            index,
            announced_ms: None,
            folder,
            file,
            _lock: lock,
        })
    }

    /// Takes the log of a thread that exists. Changes nothing yet but
    /// permissions.
    pub(crate) fn open(
        folder: Folder,
        id: &ThreadId,
        policy: DurabilityPolicy,
        index: Arc<Index>,
    ) -> Result<Self> {
        let path = folder.path_of(LOG_FILE);
        let failed =
            |e| disk_error(e, "the thread's log can't be opened", &path).context("thread", id);
        // First of all, so that nothing is made in a folder without a log.
        let file = folder.file(LOG_FILE, Access::Append).map_err(failed)?;
        let lock = ThreadLock::take(&folder).map_err(|e| e.context("thread", id))?;
        let mut diagnostics = Vec::new();
        let ops = &**folder.ops();
        diagnostics.extend(tighten(ops, &folder, folder.path()).map_err(failed)?);
        diagnostics.extend(tighten(ops, &file, &path).map_err(failed)?);
        let locked = folder.file(LOCK_FILE, Access::Read).map_err(failed)?;
        diagnostics.extend(tighten(ops, locked, &folder.path_of(LOCK_FILE)).map_err(failed)?);

        let reader = file.try_clone().map_err(failed)?;
        let log = LogFile::new(reader, path.clone(), id).map_err(failed)?;
        let newer = newer_format(&log);
        let mut state = State::Open;
        if newer.is_some() {
            state = State::ReadOnly(ErrorKind::Denied, NEWER);
        }
        diagnostics.extend(newer);
        let stat = fstat(&file).map_err(|e| failed(e.into()))?;
        let identity = identity(&stat);
        let (size, tail) = (log.size, log.tail(id)?);
        let metadata;
        let (mut mend, good, since_checkpoint) = match tail {
            Some(tail) => {
                let (mend, good) = Mend::of_tail(&tail, size);
                metadata = tail.metadata;
                (mend, good, tail.since_checkpoint)
            }
            None => {
                if has_lines(&log).map_err(failed)? {
                    state = State::ReadOnly(ErrorKind::Corrupt, UNREADABLE);
                }
                metadata = ThreadMetadata::new(id.clone(), unix_ms_now());
                (Mend::of_nothing(size), 0, (0, 0))
            }
        };
        // What is put aside, or a log that lost all it had, may be put back by hand
        // and still name them.
        let whole = mend.torn.is_none() && !mend.header;
        mend.payloads = whole && unused::are_likely(&folder, &stat);
        Ok(Self {
            path,
            identity,
            policy,
            state,
            metadata,
            good,
            size,
            mend,
            unsynced: false,
            since_checkpoint,
            diagnostics,
            index,
            announced_ms: None,
            folder,
            file,
            _lock: lock,
        })
    }
}

/// Whether a log that has no record has more than what a crash may leave of its
/// first one.
fn has_lines(log: &LogFile) -> io::Result<bool> {
    let mut scanner = Scanner::new(&log.file, 0..log.size);
    let mut count = 0;
    while let Some(piece) = scanner.next()? {
        match piece {
            Piece::Damage(damage) if damage.fault == Fault::Zeros => {}
            _ => count += 1,
        }
    }
    Ok(count > 1)
}
