//! A thread's log, open for writing.

mod group;
mod mend;
mod opening;

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;

use haft_api::{
    Appended, Diagnostic, Durability, Error, ErrorKind, MetadataPatch, NewRecord, Result,
    ThreadMetadata, unix_ms_now,
};

use crate::blobs::{self, BLOB_BYTES};
use crate::config::DurabilityPolicy;
use crate::disk::{Folder, Glance, disk_error, is_full};
use crate::index::{ANNOUNCE_EVERY_MS, Index};
use crate::kinds::{self, METADATA, Repair};
use crate::lock::ThreadLock;
use crate::log_file::LOG_FILE;
use crate::repair::{cut_torn, write_all};
use crate::unused;
use group::GroupText;
use mend::Mend;

/// A thread's one writer, on this side of async.
pub(crate) struct ThreadLog {
    folder: Folder,
    file: File,
    path: PathBuf,
    identity: (u64, u64),
    policy: DurabilityPolicy,
    state: State,
    metadata: ThreadMetadata,
    /// Up to where the log is good, and how long it is to be: the same but for
    /// what is to be cut off.
    good: u64,
    size: u64,
    mend: Mend,
    /// Whether something was written that a barrier hasn't covered.
    unsynced: bool,
    since_checkpoint: (u64, u64),
    /// For the next append to hand over.
    diagnostics: Vec<Diagnostic>,
    index: Arc<Index>,
    /// When the index was last told that this thread is being written to, in
    /// milliseconds since the Unix epoch.
    announced_ms: Option<u64>,
    /// Let go of last.
    _lock: ThreadLock,
}

#[derive(Debug, Clone)]
enum State {
    Open,
    /// Nothing may be written, and why: it isn't a log of this version.
    ReadOnly(ErrorKind, &'static str),
    /// Nothing can be written any more, and why.
    Closed(String),
}

/// What a write is about.
enum Content<'a> {
    Records(&'a [NewRecord]),
    /// A change of metadata, as JSON and as such.
    Patch(&'a str, &'a MetadataPatch),
}

impl Content<'_> {
    /// About how many bytes it makes.
    fn len(&self) -> usize {
        const FRAME: usize = 100;
        match self {
            Self::Records(records) => records
                .iter()
                .map(|record| record.data.get().len() + FRAME)
                .sum(),
            Self::Patch(data, _) => data.len() + FRAME,
        }
    }
}

impl ThreadLog {
    pub(crate) fn next_seq(&self) -> u64 {
        self.metadata.next_seq
    }

    pub(crate) fn metadata(&self) -> &ThreadMetadata {
        &self.metadata
    }

    /// Whether appending this group is a matter of microseconds: one write, and
    /// no waiting for the disk.
    pub(crate) fn is_quick(&self, group: &[NewRecord], durability: Durability) -> bool {
        const QUICK_BYTES: usize = 64 * 1024;
        let lengths = || group.iter().map(|record| record.data.get().len());
        let bytes: usize = lengths().sum();
        self.is_announced()
            && !self.mend.is_needed()
            && bytes <= QUICK_BYTES
            // It may get a file of its own.
            && lengths().all(|len| len < BLOB_BYTES)
            && !self.policy.syncs_append(durability, group)
    }

    /// Appends a group.
    pub(crate) fn append(&mut self, group: &[NewRecord], wish: Durability) -> Result<Appended> {
        self.appendable()?;
        kinds::check_group(group).map_err(|e| self.explain(e))?;
        let sync = self.policy.syncs_append(wish, group);
        let time_ms = unix_ms_now();
        if group.is_empty() {
            let before = self.good;
            self.barrier(sync, before)?;
            let mut appended = Appended::new(self.metadata.next_seq, time_ms);
            appended.diagnostics.append(&mut self.diagnostics);
            return Ok(appended);
        }
        let first_seq = self.write(time_ms, sync, Content::Records(group))?;
        if !self.is_announced() {
            self.announce(true);
        }
        let mut appended = Appended::new(first_seq, time_ms);
        appended.diagnostics.append(&mut self.diagnostics);
        Ok(appended)
    }

    /// Changes the metadata.
    pub(crate) fn patch(&mut self, patch: &MetadataPatch) -> Result<ThreadMetadata> {
        self.appendable()?;
        let changes = patch.title.is_some() || patch.archived.is_some() || !patch.extra.is_empty();
        if !changes {
            return Ok(self.metadata.clone());
        }
        let data = serde_json::to_string(patch).map_err(|e| {
            let message = format!("the metadata aren't JSON: {e}");
            self.explain(Error::new(ErrorKind::InvalidInput, message).source(e))
        })?;
        kinds::check_data(METADATA, &data).map_err(|e| self.explain(e))?;
        let sync = self.policy.syncs_metadata();
        self.write(unix_ms_now(), sync, Content::Patch(&data, patch))?;
        self.metadata.apply(patch);
        self.announce(true);
        Ok(self.metadata.clone())
    }

    /// Makes all that was written durable. The thread is let go of when `self`
    /// is dropped.
    pub(crate) fn close(&mut self) -> Result<()> {
        match &self.state {
            State::Closed(reason) if self.unsynced => return Err(self.closed(reason)),
            _ => {}
        }
        if self.policy.syncs_life_cycle() {
            let before = self.good;
            self.barrier(true, before)?;
        }
        Ok(())
    }

    fn appendable(&self) -> Result<()> {
        match &self.state {
            State::Open => Ok(()),
            State::ReadOnly(kind, reason) => Err(self.explain(Error::new(*kind, *reason))),
            State::Closed(reason) => Err(self.closed(reason)),
        }
    }

    fn closed(&self, reason: &str) -> Error {
        let message = format!("the writer was closed: {reason}; open the thread again");
        self.explain(Error::new(ErrorKind::Unavailable, message).permanent())
    }

    fn explain(&self, error: Error) -> Error {
        error
            .context("thread", &self.metadata.id)
            .context("path", self.path.display())
    }

    /// Writes records, whatever has to be mended before them, and a checkpoint
    /// if one is due. Gives the number of the first of the records.
    fn write(&mut self, time_ms: u64, sync: bool, content: Content<'_>) -> Result<u64> {
        let thorough = sync || self.mend.is_needed() || !self.is_announced();
        self.expect_own_log(thorough)?;
        self.mend()?;
        let mut text = GroupText::new(&self.metadata, self.good, time_ms, content.len());
        if self.mend.line_break {
            text.push_line_break();
        }
        if self.mend.header {
            text.push_header();
        }
        if let Some(repair) = &self.mend.repair {
            text.push_repair(repair);
        }
        let first_seq = text.next_seq();
        let mut with_payloads = false;
        match content {
            Content::Records(records) => {
                for record in records {
                    match blobs::split(record.data.get()) {
                        None => text.push(&record.kind, record.data.get()),
                        Some(split) => {
                            with_payloads = true;
                            let durable = self.policy.syncs_blobs();
                            if let Err(error) = split.write(&self.folder, durable) {
                                return Err(self.give_up_payloads(error));
                            }
                            text.push_with_blobs(&record.kind, &split.data, &split.places);
                        }
                    }
                }
            }
            Content::Patch(data, patch) => text.push_patch(data, patch),
        }
        let group = text.finish(self.since_checkpoint);

        let ops = Arc::clone(self.folder.ops());
        if let Err(error) = write_all(&*ops, &self.file, &group.bytes) {
            return Err(self.take_back(error, with_payloads));
        }
        let before = self.good;
        self.good += group.bytes.len() as u64;
        self.size = self.good;
        self.unsynced = true;
        self.barrier(sync, before)?;
        self.since_checkpoint = group.since_checkpoint;
        self.metadata.next_seq = group.next_seq;
        self.metadata.updated_ms = time_ms;
        self.mend = Mend::default();
        Ok(first_seq)
    }

    /// Makes sure that nobody else wrote to the log and, if `thorough`, that it
    /// is still the file under that name.
    fn expect_own_log(&mut self, thorough: bool) -> Result<()> {
        let looked = if thorough {
            self.folder.glance(LOG_FILE)
        } else {
            // A third of the price. The handle's position matters to nobody:
            // what is appended goes to the end, what is read says where.
            let size = (&self.file).seek(SeekFrom::End(0));
            size.map(|size| Glance {
                identity: self.identity,
                size,
            })
        };
        let found = match looked {
            Ok(glance) if glance.identity == self.identity => glance.size,
            Ok(_) => return Err(self.lose("another file was put in the log's place")),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Err(self.lose("the log was deleted"));
            }
            Err(e) => {
                return Err(self.explain(disk_error(e, "the log can't be looked at", &self.path)));
            }
        };
        if found == self.size {
            return Ok(());
        }
        let what = format!(
            "somebody else wrote to the log: it is {found} bytes long and was left with {}",
            self.size
        );
        Err(self.lose(&what))
    }

    /// Closes the writer because the log isn't its own any more.
    fn lose(&mut self, what: &str) -> Error {
        self.state = State::Closed(what.to_owned());
        self.closed(what)
    }

    /// Cuts off and puts aside what isn't a record.
    fn mend(&mut self) -> Result<()> {
        if self.mend.fragment {
            self.cut_fragment().map_err(|e| {
                self.write_error(
                    e,
                    "an earlier fragment can't be cut off; nothing was written",
                )
            })?;
        }
        if let Some(torn) = self.mend.torn.clone() {
            let durable = self.policy.syncs_life_cycle();
            let repair = cut_torn(&self.folder, &self.file, &torn, durable).map_err(|e| {
                self.write_error(e, "what a crash left at the log's end can't be put aside")
            })?;
            self.size = torn.start;
            self.mend.torn = None;
            self.repaired(repair);
        }
        if self.mend.payloads {
            self.remove_unused_payloads();
        }
        if self.mend.line_break && self.mend.repair.is_none() {
            let repair = Repair {
                offset: self.good,
                line_break: true,
                ..Repair::default()
            };
            self.repaired(repair);
        }
        Ok(())
    }

    fn repaired(&mut self, repair: Repair) {
        let mut seq = self.metadata.next_seq;
        if self.mend.header {
            seq += 1;
        }
        self.diagnostics
            .push(mend::diagnostic(&self.folder, &repair, seq));
        self.mend.repair = Some(repair);
    }

    /// Removes payloads that the log doesn't name. Room that isn't got back now
    /// is no reason not to write: the next writer may get it, or the thread's
    /// deletion will.
    fn remove_unused_payloads(&mut self) {
        self.mend.payloads = false;
        let _ = unused::remove(&self.folder, &self.file, self.good);
    }

    /// Gives up a group of which a payload couldn't be written.
    fn give_up_payloads(&mut self, error: io::Error) -> Error {
        self.remove_unused_payloads();
        self.write_error(
            error,
            "a large payload can't be put beside it; nothing was written, and nothing before it \
             is lost",
        )
    }

    /// Cuts a failed write off.
    fn take_back(&mut self, error: io::Error, with_payloads: bool) -> Error {
        self.mend.fragment = true;
        self.mend.payloads |= with_payloads;
        if self.cut_fragment().is_ok() {
            if with_payloads {
                self.remove_unused_payloads();
            }
            return self.write_error(error, "nothing was written, and nothing before it is lost");
        }
        // So that the fragment isn't taken for somebody else's.
        if let Ok(metadata) = self.file.metadata() {
            self.size = metadata.len();
        }
        let what = "nothing before it is lost; what was written of it is cut off before the next \
                    append";
        self.write_error(error, what)
    }

    fn cut_fragment(&mut self) -> io::Result<()> {
        self.folder.ops().set_len(&self.file, self.good)?;
        self.size = self.good;
        self.mend.fragment = false;
        Ok(())
    }

    fn write_error(&self, error: io::Error, what: &str) -> Error {
        let message = if is_full(&error) {
            format!("the disk is full: {what}; free some space and try again")
        } else {
            format!("the log can't be written: {what}")
        };
        self.explain(Error::new(ErrorKind::Unavailable, message).source(error))
    }

    /// Waits for the disk. After a failure nobody knows what is on it, so the
    /// writer is closed for good, and what was written last is taken back.
    fn barrier(&mut self, sync: bool, before: u64) -> Result<()> {
        if !sync || !self.unsynced {
            return Ok(());
        }
        let Err(error) = self.folder.ops().sync_data(&self.file) else {
            self.unsynced = false;
            return Ok(());
        };
        self.good = before;
        // Readers shouldn't see it either; if that can't be, the next writer
        // finds it whole.
        let _ = self.cut_fragment();
        self.state = State::Closed(format!("the disk failed at a barrier ({error})"));
        let message = "the disk failed at a barrier; what was appended since the last one may not \
                       be durable, and this writer takes no more; open the thread again to see \
                       what is there";
        Err(self.explain(
            Error::new(ErrorKind::Unavailable, message)
                .permanent()
                .source(error),
        ))
    }

    /// Tells the index what the thread is now. It is a cache: whoever lists
    /// notices what it doesn't know.
    pub(crate) fn announce(&mut self, open: bool) {
        let told = self.index.note(&self.metadata, self.size, open).is_ok();
        self.announced_ms = told.then(unix_ms_now);
    }

    fn is_announced(&self) -> bool {
        self.announced_ms
            .is_some_and(|at| unix_ms_now().abs_diff(at) < ANNOUNCE_EVERY_MS)
    }
}

impl Drop for ThreadLog {
    fn drop(&mut self) {
        // If the log isn't in order, listing shall look at it.
        if self.announced_ms.is_some() && matches!(self.state, State::Open) && !self.mend.fragment {
            self.announce(false);
        }
    }
}
