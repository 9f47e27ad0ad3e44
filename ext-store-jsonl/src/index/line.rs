//! What the index says of one thread.

use std::io::Write as _;

use haft_api::{ThreadId, ThreadMetadata};

use crate::frame::{SUFFIX_LEN, checksum_digits, same_checksum};

/// Metadata larger than this stay in the thread's log, lest the index grows
/// with them.
const LARGEST_METADATA: usize = 4096;

/// A thread as the index knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) created_ms: u64,
    pub(super) updated_ms: u64,
    /// The log's length at the time. It only grows, so that it also tells an
    /// older entry from a newer one.
    pub(super) size: u64,
    /// Whether somebody was writing to the thread, so that the log may have
    /// grown since.
    pub(super) open: bool,
    pub(super) archived: bool,
    /// The metadata as JSON, if they are short.
    pub(super) metadata: Option<Box<str>>,
}

impl Entry {
    pub(super) fn new(metadata: &ThreadMetadata, size: u64, open: bool) -> Self {
        let json = serde_json::to_string(metadata).ok();
        Self {
            created_ms: metadata.created_ms,
            updated_ms: metadata.updated_ms,
            size,
            open,
            archived: metadata.archived,
            metadata: json
                .filter(|json| json.len() <= LARGEST_METADATA)
                // Raw values may have line breaks between their tokens.
                .map(|json| json.replace('\n', " ").into_boxed_str()),
        }
    }

    /// Whether it is as new as another of the same thread, or newer.
    pub(super) fn replaces(&self, other: &Self) -> bool {
        (self.created_ms, self.size) >= (other.created_ms, other.size)
    }

    /// Appends its line. A line break goes before it as well: what a crash cut
    /// off there stays a line of its own.
    pub(super) fn encode(&self, id: &ThreadId, buffer: &mut Vec<u8>) {
        let sure = "writing to memory doesn't fail";
        buffer.push(b'\n');
        let start = buffer.len();
        write!(
            buffer,
            "{{\"i\":\"{id}\",\"n\":{},\"u\":{},\"z\":{},\"o\":{},\"a\":{},\"m\":{}",
            self.created_ms,
            self.updated_ms,
            self.size,
            u8::from(self.open),
            u8::from(self.archived),
            self.metadata.as_deref().unwrap_or("null"),
        )
        .expect(sure);
        let checksum = crc32c::crc32c(&buffer[start..]);
        writeln!(buffer, ",\"c\":\"{checksum:08x}\"}}").expect(sure);
    }

    /// Reads a line, without its line break. The metadata's JSON isn't looked
    /// into: most threads aren't shown.
    pub(super) fn decode(line: &[u8]) -> Option<(ThreadId, Self)> {
        let (body, suffix) = line.split_at_checked(line.len().checked_sub(SUFFIX_LEN)?)?;
        if !same_checksum(crc32c::crc32c(body), checksum_digits(suffix)?) {
            return None;
        }
        let text = std::str::from_utf8(body).ok()?;
        let (id, text) = text.strip_prefix("{\"i\":\"")?.split_once("\",\"n\":")?;
        let (created_ms, text) = text.split_once(",\"u\":")?;
        let (updated_ms, text) = text.split_once(",\"z\":")?;
        let (size, text) = text.split_once(",\"o\":")?;
        let (open, text) = text.split_once(",\"a\":")?;
        let (archived, metadata) = text.split_once(",\"m\":")?;
        let entry = Self {
            created_ms: created_ms.parse().ok()?,
            updated_ms: updated_ms.parse().ok()?,
            size: size.parse().ok()?,
            open: open == "1",
            archived: archived == "1",
            metadata: (metadata != "null").then(|| metadata.into()),
        };
        Some((ThreadId::new(id).ok()?, entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_or_not_at_all() {
        let id = ThreadId::new("t-1").unwrap();
        let mut metadata = ThreadMetadata::new(id.clone(), 5);
        metadata.title = Some("a \"title\",\"z\":9".to_owned());
        metadata.updated_ms = 7;
        metadata.archived = true;
        let entry = Entry::new(&metadata, 1234, true);
        let mut buffer = Vec::new();
        entry.encode(&id, &mut buffer);
        assert!(buffer.starts_with(b"\n{") && buffer.ends_with(b"}\n"));
        let line = &buffer[1..buffer.len() - 1];
        assert_eq!(Entry::decode(line), Some((id, entry.clone())));
        let json = entry.metadata.unwrap();
        let back: ThreadMetadata = serde_json::from_str(&json).unwrap();
        assert_eq!(back.title, metadata.title);
        for at in 0..line.len() {
            let mut bad = line.to_vec();
            bad[at] ^= 1;
            assert_eq!(Entry::decode(&bad), None);
            assert_eq!(Entry::decode(&line[..at]), None);
        }
    }

    #[test]
    fn large_metadata_stay_out() {
        let id = ThreadId::new("t").unwrap();
        let mut metadata = ThreadMetadata::new(id.clone(), 5);
        metadata.title = Some("x".repeat(LARGEST_METADATA));
        let entry = Entry::new(&metadata, 1, false);
        assert_eq!(entry.metadata, None);
        let mut buffer = Vec::new();
        entry.encode(&id, &mut buffer);
        assert_eq!(
            Entry::decode(&buffer[1..buffer.len() - 1]),
            Some((id, entry))
        );
    }
}
