//! What the index says of one thread.

use haft_api::{ThreadId, ThreadMetadata};

use crate::frame::{SUFFIX_LEN, checksum_digits, number, push_decimal, push_seal, same_checksum};

/// Metadata larger than this stay in the thread's log, lest the index grows
/// with them.
const LARGEST_METADATA: usize = 4096;

/// A thread as the index knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) created_ms: u64,
    pub(super) updated_ms: u64,
    /// The log's length at the time.
    pub(super) size: u64,
    /// Whether somebody was writing to the thread, so that the log may have
    /// grown since.
    pub(super) open: bool,
    pub(super) archived: bool,
    /// The metadata as JSON, if they are short.
    pub(super) metadata: Option<Box<str>>,
}

/// Which of a thread's entries is the newer one: that of a thread that was
/// created later under the same id, else that of the longer log. Logs only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version {
    created_ms: u64,
    size: u64,
}

/// What a line comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decoded {
    Entry(ThreadId, Entry),
    /// Something at least as new is known of the thread.
    Known,
    /// It isn't what was written.
    Damaged,
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

    /// What tells it from older ones of the thread.
    pub(super) fn version(&self) -> Version {
        Version {
            created_ms: self.created_ms,
            size: self.size,
        }
    }

    /// Appends its line. A line break goes before it as well: what a crash cut
    /// off there stays a line of its own.
    pub(super) fn encode(&self, id: &ThreadId, buffer: &mut Vec<u8>) {
        buffer.push(b'\n');
        let start = buffer.len();
        buffer.extend_from_slice(b"{\"i\":\"");
        buffer.extend_from_slice(id.as_str().as_bytes());
        buffer.push(b'"');
        for (name, number) in [
            (b"n", self.created_ms),
            (b"z", self.size),
            (b"u", self.updated_ms),
            (b"o", u64::from(self.open)),
            (b"a", u64::from(self.archived)),
        ] {
            buffer.extend_from_slice(b",\"");
            buffer.extend_from_slice(name);
            buffer.extend_from_slice(b"\":");
            push_decimal(buffer, number);
        }
        buffer.extend_from_slice(b",\"m\":");
        buffer.extend_from_slice(self.metadata.as_deref().unwrap_or("null").as_bytes());
        push_seal(buffer, start);
    }

    /// Reads a line, without its line break, unless `known` says of the thread
    /// that an entry as new as this is known already. The metadata's JSON isn't
    /// looked into: most threads aren't shown.
    pub(super) fn decode(line: &[u8], known: impl FnOnce(&str, Version) -> bool) -> Decoded {
        match Self::try_decode(line, known) {
            Some(decoded) => decoded,
            None => Decoded::Damaged,
        }
    }

    fn try_decode(line: &[u8], known: impl FnOnce(&str, Version) -> bool) -> Option<Decoded> {
        let (body, suffix) = line.split_at_checked(line.len().checked_sub(SUFFIX_LEN)?)?;
        let rest = body.strip_prefix(b"{\"i\":\"")?;
        let id_len = memchr::memchr(b'"', rest)?;
        let id = std::str::from_utf8(&rest[..id_len]).ok()?;
        let (created_ms, rest) = field(&rest[id_len + 1..], b",\"n\":")?;
        let (size, rest) = field(rest, b",\"z\":")?;
        if known(id, Version { created_ms, size }) {
            return Some(Decoded::Known);
        }
        if !same_checksum(crc32c::crc32c(body), checksum_digits(suffix)?) {
            return None;
        }
        let (updated_ms, rest) = field(rest, b",\"u\":")?;
        let (open, rest) = field(rest, b",\"o\":")?;
        let (archived, rest) = field(rest, b",\"a\":")?;
        let metadata = std::str::from_utf8(rest.strip_prefix(b",\"m\":")?).ok()?;
        let entry = Self {
            created_ms,
            updated_ms,
            size,
            open: open == 1,
            archived: archived == 1,
            metadata: (metadata != "null").then(|| metadata.into()),
        };
        Some(Decoded::Entry(ThreadId::new(id).ok()?, entry))
    }
}

/// A number after its name.
fn field<'a>(text: &'a [u8], name: &[u8]) -> Option<(u64, &'a [u8])> {
    number(text.strip_prefix(name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(line: &[u8]) -> Option<(ThreadId, Entry)> {
        match Entry::decode(line, |_, _| false) {
            Decoded::Entry(id, entry) => Some((id, entry)),
            _ => None,
        }
    }

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
        assert_eq!(decode(line), Some((id, entry.clone())));
        let json = entry.metadata.unwrap();
        let back: ThreadMetadata = serde_json::from_str(&json).unwrap();
        assert_eq!(back.title, metadata.title);
        for at in 0..line.len() {
            let mut bad = line.to_vec();
            bad[at] ^= 1;
            assert_eq!(decode(&bad), None);
            assert_eq!(decode(&line[..at]), None);
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
        assert_eq!(decode(&buffer[1..buffer.len() - 1]), Some((id, entry)));
    }
}
