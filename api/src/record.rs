//! What a thread's log is made of.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind, Result};

/// A record that is to be written.
///
/// A store doesn't look into the data: whatever kinds the runtime or an
/// extension invents, now or later, are kept byte for byte.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NewRecord {
    /// What the record is: a word of `a-z`, `0-9`, `_` and `.`.
    pub kind: String,
    /// Its data: a JSON value without line breaks between its tokens.
    pub data: Box<RawValue>,
}

impl NewRecord {
    /// A record with this value as its data.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the value can't be written as JSON.
    pub fn new(kind: impl Into<String>, data: &impl Serialize) -> Result<Self> {
        let kind = kind.into();
        let data = serde_json::value::to_raw_value(data).map_err(|e| {
            Error::new(
                ErrorKind::InvalidInput,
                format!("the record isn't JSON: {e}"),
            )
            .context("kind", &kind)
            .source(e)
        })?;
        Ok(Self { kind, data })
    }
}

/// A record as it was read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// Its number in the thread, contiguous from 0. Record 0 is the header.
    pub seq: u64,
    /// When it was written, in milliseconds since the Unix epoch. For
    /// information; never an order.
    pub time_ms: u64,
    /// What it is.
    pub kind: String,
    /// Its data.
    pub data: Box<RawValue>,
}

impl Record {
    /// Reads the data into a type.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`], naming the record, if it doesn't fit.
    pub fn parse<'a, T: Deserialize<'a>>(&'a self) -> Result<T> {
        serde_json::from_str(self.data.get()).map_err(|e| {
            Error::new(
                ErrorKind::Corrupt,
                format!("the record's data don't fit its kind: {e}"),
            )
            .context("record", self.seq)
            .context("kind", &self.kind)
        })
    }
}

/// Something a reader found in a log that isn't as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// What kind of thing.
    pub code: DiagnosticCode,
    /// Whether something that was once written is gone.
    pub lost: bool,
    /// The record it is about, as far as that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Where in the store (a file and an offset, a row).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// What a person should know.
    pub message: String,
}

/// What kind of thing a [`Diagnostic`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DiagnosticCode {
    /// The log's end was cut off in the middle of a write.
    TornTail,
    /// Bytes in the middle aren't a record.
    DamagedRecord,
    /// A record's checksum doesn't fit its bytes.
    ChecksumMismatch,
    /// A record has no checksum.
    Unverified,
    /// Records are missing between two others.
    Gap,
    /// One number was used for two different records.
    Duplicate,
    /// A kind of record that this version doesn't know; kept.
    UnknownKind,
    /// The log was written by a newer version; it is read, not written.
    NewerFormat,
    /// The history isn't valid, and was repaired in memory.
    RepairedHistory,
    /// Permissions were looser than they should be.
    LoosePermissions,
    /// Something is there that the store didn't make.
    Foreign,
}
