//! The bytes of one write.

use haft_api::{MetadataPatch, ThreadMetadata};

use crate::frame::{encode, encode_with_blobs};
use crate::kinds::{CHECKPOINT, Checkpoint, HEADER, Header, METADATA, REPAIR, Repair, check_data};

/// A checkpoint is due after so many records.
const CHECKPOINT_RECORDS: u64 = 1000;
/// Or so many bytes.
const CHECKPOINT_BYTES: u64 = 1024 * 1024;
/// But it takes no more than this part of the log.
const CHECKPOINT_SHARE: u64 = 16;

/// Records on their way to the log.
pub(super) struct GroupText<'m> {
    bytes: Vec<u8>,
    /// Where they begin in the log.
    offset: u64,
    time_ms: u64,
    next_seq: u64,
    records: u64,
    /// What the thread was before.
    metadata: &'m ThreadMetadata,
    patch: Option<&'m MetadataPatch>,
    /// Where the checkpoint begins in `bytes`, if there is one.
    checkpoint: Option<usize>,
}

/// What is to be written, and what the log comes to then.
pub(super) struct Group {
    pub(super) bytes: Vec<u8>,
    pub(super) next_seq: u64,
    pub(super) since_checkpoint: (u64, u64),
}

impl<'m> GroupText<'m> {
    /// Begins a group of about so many bytes at this place in the log.
    pub(super) fn new(metadata: &'m ThreadMetadata, offset: u64, time_ms: u64, len: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(len),
            offset,
            time_ms,
            next_seq: metadata.next_seq,
            records: 0,
            metadata,
            patch: None,
            checkpoint: None,
        }
    }

    pub(super) fn next_seq(&self) -> u64 {
        self.next_seq
    }

    pub(super) fn push(&mut self, kind: &str, data: &str) {
        encode(&mut self.bytes, self.next_seq, self.time_ms, kind, data);
        self.next_seq += 1;
        self.records += 1;
    }

    /// Adds a record whose data have references to payloads at these places.
    pub(super) fn push_with_blobs(&mut self, kind: &str, data: &str, places: &[(usize, usize)]) {
        encode_with_blobs(
            &mut self.bytes,
            self.next_seq,
            self.time_ms,
            kind,
            data,
            places,
        );
        self.next_seq += 1;
        self.records += 1;
    }

    pub(super) fn push_line_break(&mut self) {
        self.bytes.push(b'\n');
    }

    /// Adds a change of metadata; `data` is its JSON.
    pub(super) fn push_patch(&mut self, data: &str, patch: &'m MetadataPatch) {
        self.push(METADATA, data);
        self.patch = Some(patch);
    }

    /// A header for a log that lost its own and all else.
    pub(super) fn push_header(&mut self) {
        let id = self.metadata.id.clone();
        let header = Header::new(id, self.metadata.created_ms, MetadataPatch::default());
        self.push(HEADER, &json(&header));
    }

    pub(super) fn push_repair(&mut self, repair: &Repair) {
        self.push(REPAIR, &json(repair));
    }

    /// Ends the group, with a checkpoint if the log has grown enough since the
    /// last one.
    pub(super) fn finish(mut self, since_checkpoint: (u64, u64)) -> Group {
        let (records, bytes) = self.since_checkpoint(since_checkpoint);
        if records >= CHECKPOINT_RECORDS || bytes >= CHECKPOINT_BYTES {
            self.push_checkpoint(bytes / CHECKPOINT_SHARE);
        }
        Group {
            since_checkpoint: self.since_checkpoint(since_checkpoint),
            next_seq: self.next_seq,
            bytes: self.bytes,
        }
    }

    fn push_checkpoint(&mut self, max_len: u64) {
        let mut metadata = self.metadata.clone();
        if let Some(patch) = self.patch {
            metadata.apply(patch);
        }
        metadata.updated_ms = self.time_ms;
        metadata.next_seq = self.next_seq;
        let at = self.bytes.len();
        let data = json(&Checkpoint {
            offset: self.offset + at as u64,
            metadata,
        });
        if data.len() as u64 <= max_len && check_data(CHECKPOINT, &data).is_ok() {
            self.push(CHECKPOINT, &data);
            self.checkpoint = Some(at);
        }
    }

    /// Records and bytes since the last checkpoint.
    fn since_checkpoint(&self, before: (u64, u64)) -> (u64, u64) {
        match self.checkpoint {
            Some(at) => (1, (self.bytes.len() - at) as u64),
            None => (before.0 + self.records, before.1 + self.bytes.len() as u64),
        }
    }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("the store's own records are plain data")
}
