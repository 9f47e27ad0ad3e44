//! The writer of a store in memory.

use std::sync::{Arc, Mutex};

use haft_api::{
    Appended, Durability, Error, ErrorKind, MetadataPatch, NewRecord, Record, Result, ThreadId,
    ThreadMetadata, ThreadWriter, async_trait, unix_ms_now,
};

use super::memory::Threads;
use crate::lock::lock;

/// Holds a thread's one writer for as long as it lives.
pub(super) struct MemoryWriter {
    threads: Arc<Mutex<Threads>>,
    thread: ThreadId,
    next_seq: u64,
}

impl MemoryWriter {
    /// Of a thread whose writer was just marked as taken.
    pub(super) fn new(threads: Arc<Mutex<Threads>>, thread: ThreadId, next_seq: u64) -> Self {
        Self {
            threads,
            thread,
            next_seq,
        }
    }

    /// Refuses what a line of a log couldn't hold.
    fn check(&self, record: &NewRecord) -> Result<()> {
        let word = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'_' | b'.');
        let problem = if record.kind.is_empty() || !record.kind.bytes().all(word) {
            "a record's kind must be a word of a-z, 0-9, _ and ."
        } else if record.data.get().contains(['\n', '\r']) {
            "a record's data must be free of line breaks between its tokens"
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::InvalidInput, problem)
            .operation("append")
            .context("thread", &self.thread)
            .context("kind", &record.kind))
    }
}

#[async_trait]
impl ThreadWriter for MemoryWriter {
    fn thread(&self) -> &ThreadId {
        &self.thread
    }

    fn next_seq(&self) -> u64 {
        self.next_seq
    }

    async fn append(&mut self, group: Vec<NewRecord>, _: Durability) -> Result<Appended> {
        group.iter().try_for_each(|record| self.check(record))?;
        let now = unix_ms_now();
        let mut threads = lock(&self.threads);
        let changed = threads.tick();
        let thread = threads
            .get_mut(&self.thread)
            .map_err(|e| e.operation("append"))?;
        let first_seq = thread.metadata.next_seq;
        for (seq, record) in (first_seq..).zip(group) {
            thread.records.push(Record {
                seq,
                time_ms: now,
                kind: record.kind,
                data: record.data,
            });
        }
        thread.changed = changed;
        thread.metadata.updated_ms = now;
        thread.metadata.next_seq = thread.records.len() as u64;
        self.next_seq = thread.metadata.next_seq;
        Ok(Appended::new(first_seq, now))
    }

    async fn patch_metadata(&mut self, patch: MetadataPatch) -> Result<ThreadMetadata> {
        let mut threads = lock(&self.threads);
        let thread = threads
            .get_mut(&self.thread)
            .map_err(|e| e.operation("patch_metadata"))?;
        thread.metadata.apply(&patch);
        Ok(thread.metadata.clone())
    }

    async fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl Drop for MemoryWriter {
    fn drop(&mut self) {
        if let Ok(thread) = lock(&self.threads).get_mut(&self.thread) {
            thread.writer_since_ms = None;
        }
    }
}
