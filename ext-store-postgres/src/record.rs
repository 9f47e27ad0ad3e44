//! Records as rows.

use haft_api::{
    Diagnostic, DiagnosticCode, Error, ErrorKind, ForkPoint, MetadataPatch, NewRecord, Record,
    Result, ThreadId, raw_json,
};
use serde::Serialize;

/// The record that opens a thread's own part of its log: what it is and whose.
pub(crate) const HEADER: &str = "header";

/// The largest record, as in every store of threads, so that threads can move.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// How deep a record's data may be nested.
const MAX_DEPTH: usize = 100;

/// The data of a [`HEADER`].
#[derive(Debug, Serialize)]
pub(crate) struct Header<'a> {
    pub(crate) format: &'static str,
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) id: &'a ThreadId,
    /// The program that made the thread.
    pub(crate) creator: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent: Option<&'a ForkPoint>,
    pub(crate) metadata: &'a MetadataPatch,
}

impl<'a> Header<'a> {
    pub(crate) fn new(
        id: &'a ThreadId,
        parent: Option<&'a ForkPoint>,
        metadata: &'a MetadataPatch,
    ) -> Self {
        Self {
            format: "haft-thread",
            major: 1,
            minor: 0,
            id,
            creator: concat!("haft ", env!("CARGO_PKG_VERSION")),
            parent,
            metadata,
        }
    }
}

/// The checksum of a record. It is there against accidents, such as a careless
/// `UPDATE` or a restored table that lacks some pages; the time isn't in it,
/// because the server sets it.
pub(crate) fn checksum(seq: i64, kind: &str, data: &str) -> i32 {
    let crc = crc32c::crc32c(&seq.to_be_bytes());
    let crc = crc32c::crc32c_append(crc, kind.as_bytes());
    // What can't be in a kind keeps the two apart.
    let crc = crc32c::crc32c_append(crc, b"\0");
    crc32c::crc32c_append(crc, data.as_bytes()).cast_signed()
}

/// Says no to a group that can't be stored as it is.
pub(crate) fn check_group(group: &[NewRecord]) -> Result<()> {
    group.iter().try_for_each(|record| {
        let refuse = |message: String| {
            let kind: String = record
                .kind
                .chars()
                .take(80)
                .flat_map(char::escape_default)
                .collect();
            Err(Error::new(ErrorKind::InvalidInput, message).context("kind", kind))
        };
        let word = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'_' | b'.');
        let (kind, data) = (&record.kind, record.data.get());
        if !(1..=128).contains(&kind.len()) || !kind.bytes().all(word) {
            return refuse("a record's kind must be a word of a-z, 0-9, _ and .".to_owned());
        }
        if kind == HEADER {
            return refuse("this kind of record is the store's own; choose another".to_owned());
        }
        if data.len() > MAX_BYTES {
            let len = data.len();
            return refuse(format!(
                "a record of {len} bytes is larger than the 16 MiB it may have"
            ));
        }
        if depth(data) > MAX_DEPTH {
            return refuse(format!("a record nested deeper than {MAX_DEPTH} levels"));
        }
        Ok(())
    })
}

/// How deep JSON text is nested.
fn depth(json: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// A row of the table of records.
pub(crate) struct Row {
    pub(crate) seq: i64,
    pub(crate) time_ms: i64,
    pub(crate) kind: String,
    pub(crate) data: String,
    pub(crate) crc: Option<i32>,
}

impl Row {
    /// The record, if that is what it is, and what is amiss with it.
    pub(crate) fn into_record(self, thread: &ThreadId) -> (Option<Record>, Option<Diagnostic>) {
        let seq = u64::try_from(self.seq).unwrap_or(0);
        let about = |code, lost, message: &str| {
            Some(Diagnostic {
                code,
                lost,
                seq: Some(seq),
                place: Some(format!("the row {seq} of the thread {thread}")),
                message: message.to_owned(),
            })
        };
        let diagnostic = match self.crc {
            Some(crc) if crc != checksum(self.seq, &self.kind, &self.data) => {
                let text = "the row doesn't fit its checksum and is passed over (to keep one that \
                            was changed on purpose, set its `crc` to null)";
                return (None, about(DiagnosticCode::ChecksumMismatch, true, text));
            }
            Some(_) => None,
            None => about(
                DiagnosticCode::Unverified,
                false,
                "the row has no checksum; it is taken at its word",
            ),
        };
        match raw_json(self.data) {
            Ok(data) => {
                let record = Record {
                    seq,
                    time_ms: u64::try_from(self.time_ms).unwrap_or(0),
                    kind: self.kind,
                    data,
                };
                (Some(record), diagnostic)
            }
            Err(error) => {
                let text = format!("the row's data aren't JSON and are passed over: {error}");
                (None, about(DiagnosticCode::DamagedRecord, true, &text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_stored_is_refused_by_name() {
        let check = |kind: &str, data: String, word: Option<&str>| {
            let record = NewRecord {
                kind: kind.to_owned(),
                data: raw_json(data).unwrap(),
            };
            match (check_group(&[record]), word) {
                (Ok(()), None) => {}
                (Err(error), Some(word)) => {
                    assert_eq!(error.kind(), ErrorKind::InvalidInput);
                    assert!(error.to_string().contains(word), "{error}");
                }
                (outcome, _) => panic!("{kind}: {outcome:?}"),
            }
        };
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        check("note", "1".into(), None);
        check("a.b_9", nested(100), None);
        check("a", nested(101), Some("100 levels"));
        check("a", format!(r#""{}""#, "[".repeat(200)), None);
        check("a", format!(r#""\"{}""#, "[".repeat(200)), None);
        check("", "1".into(), Some("kind"));
        check("A", "1".into(), Some("kind"));
        check("a\u{0}", "1".into(), Some("kind"));
        check(HEADER, "{}".into(), Some("own"));
        check(
            "a",
            format!("\"{}\"", "x".repeat(MAX_BYTES)),
            Some("16 MiB"),
        );
    }

    #[test]
    fn a_changed_row_is_noticed() {
        let thread = ThreadId::new("t").unwrap();
        let row = |seq, kind: &str, data: &str, crc| Row {
            seq,
            time_ms: 5,
            kind: kind.to_owned(),
            data: data.to_owned(),
            crc,
        };
        let crc = checksum(7, "note", "{\"a\":1}");
        let check = |row: Row, kept: bool, code: Option<DiagnosticCode>| {
            let (record, diagnostic) = row.into_record(&thread);
            assert_eq!(record.is_some(), kept);
            assert_eq!(diagnostic.as_ref().map(|d| d.code), code);
            assert_eq!(diagnostic.is_some_and(|d| d.lost), !kept);
        };
        let text = "{\"a\":1}";
        check(row(7, "note", text, Some(crc)), true, None);
        let mismatch = Some(DiagnosticCode::ChecksumMismatch);
        check(row(8, "note", text, Some(crc)), false, mismatch);
        check(row(7, "not", text, Some(crc)), false, mismatch);
        check(row(7, "note", "{\"a\":2}", Some(crc)), false, mismatch);
        let unverified = Some(DiagnosticCode::Unverified);
        check(row(7, "note", "{\"a\":2}", None), true, unverified);
        let damaged = Some(DiagnosticCode::DamagedRecord);
        check(row(7, "note", "{\"a\":", None), false, damaged);
    }
}
