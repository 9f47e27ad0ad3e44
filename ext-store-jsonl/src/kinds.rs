//! The records that the store itself writes.

use haft_api::{
    Error, ErrorKind, ForkPoint, MetadataPatch, NewRecord, Result, ThreadId, ThreadMetadata,
};
use serde::{Deserialize, Serialize};

use crate::frame::{MAX_DEPTH, MAX_LINE, is_kind, is_too_deep};

/// The log's first record: what the log is and whose.
pub(crate) const HEADER: &str = "header";
/// A change of the thread's metadata: a [`MetadataPatch`].
pub(crate) const METADATA: &str = "metadata";
/// What a writer found torn at the log's end, and where it put it.
pub(crate) const REPAIR: &str = "repair";
/// All that the records before it come to, as far as the store cares: a
/// [`Checkpoint`].
pub(crate) const CHECKPOINT: &str = "checkpoint";

const OWN: [&str; 4] = [HEADER, METADATA, REPAIR, CHECKPOINT];

/// The format's name, in each header.
pub(crate) const FORMAT: &str = "haft-thread";
/// A reader copes with any; a writer keeps its hands off a newer one.
pub(crate) const MAJOR: u64 = 1;
/// Additions that an older writer may overlook. 1: payloads beside the log.
pub(crate) const MINOR: u64 = 1;

/// The data of a [`HEADER`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) format: String,
    pub(crate) major: u64,
    #[serde(default)]
    pub(crate) minor: u64,
    pub(crate) id: ThreadId,
    /// The program that made the log.
    #[serde(default)]
    pub(crate) creator: String,
    /// In milliseconds since the Unix epoch.
    pub(crate) created_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) parent: Option<ForkPoint>,
    #[serde(default)]
    pub(crate) metadata: MetadataPatch,
}

impl Header {
    pub(crate) fn new(id: ThreadId, created_ms: u64, metadata: MetadataPatch) -> Self {
        Self {
            format: FORMAT.to_owned(),
            major: MAJOR,
            minor: MINOR,
            id,
            creator: concat!("haft ", env!("CARGO_PKG_VERSION")).to_owned(),
            created_ms,
            parent: None,
            metadata,
        }
    }

    /// The metadata of a thread of which there is only this.
    pub(crate) fn to_metadata(&self) -> ThreadMetadata {
        let mut metadata = ThreadMetadata::new(self.id.clone(), self.created_ms);
        metadata.parent.clone_from(&self.parent);
        metadata.next_seq = self.first_seq() + 1;
        metadata.apply(&self.metadata);
        metadata
    }

    /// The header's own number: a fork's log goes on where it left its parent.
    pub(crate) fn first_seq(&self) -> u64 {
        first_seq(self.parent.as_ref())
    }
}

/// The number of the first record in the log of a thread with this parent.
pub(crate) fn first_seq(parent: Option<&ForkPoint>) -> u64 {
    parent.map_or(0, |parent| parent.seq.saturating_add(1))
}

/// The data of a [`CHECKPOINT`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    /// Where the record itself begins in the log. A checkpoint that stands
    /// elsewhere was moved, and says nothing of what is before it.
    pub(crate) offset: u64,
    /// Last change and next number are those of the record before.
    pub(crate) metadata: ThreadMetadata,
}

/// The data of a [`REPAIR`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Repair {
    /// Where the torn bytes stood in the log.
    pub(crate) offset: u64,
    /// How many there were.
    pub(crate) bytes: u64,
    /// The file beside the log that keeps them, without the zeros at their
    /// end. None if they were all zeros, or if only a line break was missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kept: Option<String>,
    /// Whether the last record was whole and only its line break was missing.
    #[serde(default)]
    pub(crate) line_break: bool,
}

/// Says no to a group that can't be written as it is.
pub(crate) fn check_group(group: &[NewRecord]) -> Result<()> {
    for record in group {
        let refuse = |message: String| {
            let kind: String = record
                .kind
                .chars()
                .take(80)
                .flat_map(char::escape_default)
                .collect();
            Err(Error::new(ErrorKind::InvalidInput, message).context("kind", kind))
        };
        if !is_kind(&record.kind) {
            return refuse("a record's kind must be a word of a-z, 0-9, _ and .".to_owned());
        }
        if OWN.contains(&record.kind.as_str()) {
            return refuse("this kind of record is the store's own; choose another".to_owned());
        }
        check_data(&record.kind, record.data.get())?;
    }
    Ok(())
}

/// Says no to data that are too large or too deep for a record.
pub(crate) fn check_data(kind: &str, data: &str) -> Result<()> {
    // What frames the data, with room to spare for the numbers.
    const FRAME: usize = 256;
    let refuse =
        |message: String| Err(Error::new(ErrorKind::InvalidInput, message).context("kind", kind));
    if data.len() + FRAME > MAX_LINE {
        let len = data.len();
        return refuse(format!(
            "a record of {len} bytes is longer than the 16 MiB a line may have"
        ));
    }
    if is_too_deep(data) {
        return refuse(format!("a record nested deeper than {MAX_DEPTH} levels"));
    }
    Ok(())
}
