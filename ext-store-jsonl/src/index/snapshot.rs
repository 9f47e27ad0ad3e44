//! What the index says besides its entries, so that a list's beginning needs
//! only its beginning.
//!
//! When the file is replaced, it begins with a *head*: how long the two parts
//! after it are. The first says of each folder which threads the index knows in
//! it, as of when the folder changed last; the second has the entries, the one
//! changed last first. A folder that hasn't changed since needn't be read, nor
//! the rest of the entries before somebody asks for them. Lines about folders
//! are appended, too, like entries; the last one counts.

use haft_api::ThreadId;
use rustix::fs::Stat;

use crate::frame::{SUFFIX_LEN, checksum_digits, number, push_decimal, push_seal, same_checksum};
use crate::layout::BUCKETS;

/// What the head begins with: its kind and version.
const HEAD: &[u8] = b"{\"h\":1,\"b\":";
/// What a line about a folder begins with.
const FOLDER: &[u8] = b"{\"b\":";

/// The longest that a head is.
pub(super) const HEAD_BYTES: usize = 100;

/// How many bytes the parts after the head have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) folders: u64,
    pub(super) entries: u64,
}

/// Which folder it is, and when it changed last: its inode and, in nanoseconds,
/// the time that no program can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    inode: u64,
    changed_ns: u64,
}

/// The threads that the index knew in a folder, by a hash of their ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) state: State,
    /// In rising order.
    threads: Vec<u64>,
}

/// What the index says of each folder.
pub(super) struct Table {
    known: Vec<Option<Known>>,
}

/// FNV-1a of 64 bits: the same in every version, and with so many bits that two
/// ids don't meet.
fn hash(id: &str) -> u64 {
    id.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// A line's fields, if its checksum fits.
fn sealed(line: &[u8]) -> Option<&[u8]> {
    let (body, suffix) = line.split_at_checked(line.len().checked_sub(SUFFIX_LEN)?)?;
    let digits = checksum_digits(suffix)?;
    same_checksum(crc32c::crc32c(body), digits).then_some(body)
}

impl Head {
    /// Appends its line.
    pub(super) fn encode(self, buffer: &mut Vec<u8>) {
        let start = buffer.len();
        buffer.extend_from_slice(HEAD);
        push_decimal(buffer, self.folders);
        buffer.extend_from_slice(b",\"e\":");
        push_decimal(buffer, self.entries);
        push_seal(buffer, start);
    }

    /// Whether a line is a head: one that isn't at the beginning of what is read
    /// says nothing.
    pub(super) fn decode_line(line: &[u8]) -> bool {
        line.starts_with(HEAD) && sealed(line).is_some()
    }

    /// Reads the head that a file begins with, and its length. A file needn't
    /// have one.
    pub(super) fn decode(beginning: &[u8]) -> Option<(Self, u64)> {
        let end = memchr::memchr(b'\n', beginning)?;
        let rest = sealed(&beginning[..end])?.strip_prefix(HEAD)?;
        let (folders, rest) = number(rest)?;
        let (entries, _) = number(rest.strip_prefix(b",\"e\":")?)?;
        Some((Self { folders, entries }, end as u64 + 1))
    }
}

impl State {
    // The types differ between systems.
    #[allow(clippy::useless_conversion)]
    pub(super) fn of(stat: &Stat) -> Self {
        let seconds = u64::try_from(stat.st_ctime).unwrap_or(0);
        let nanoseconds = u64::try_from(stat.st_ctime_nsec).unwrap_or(0);
        Self {
            inode: stat.st_ino,
            changed_ns: seconds
                .saturating_mul(1_000_000_000)
                .saturating_add(nanoseconds),
        }
    }

    /// When the folder changed, in nanoseconds since the Unix epoch.
    pub(super) fn changed_ns(self) -> u64 {
        self.changed_ns
    }
}

impl Known {
    pub(super) fn new<'t>(state: State, threads: impl Iterator<Item = &'t ThreadId>) -> Self {
        let mut threads: Vec<_> = threads.map(|id| hash(id.as_str())).collect();
        threads.sort_unstable();
        Self { state, threads }
    }

    pub(super) fn contains(&self, id: &ThreadId) -> bool {
        self.threads.binary_search(&hash(id.as_str())).is_ok()
    }

    pub(super) fn count(&self) -> usize {
        self.threads.len()
    }

    /// Appends the line about a folder of this number. A line break goes before
    /// it as well: what a crash cut off there stays a line of its own.
    pub(super) fn encode(&self, folder: u8, buffer: &mut Vec<u8>) {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        buffer.push(b'\n');
        let start = buffer.len();
        buffer.extend_from_slice(FOLDER);
        push_decimal(buffer, u64::from(folder));
        buffer.extend_from_slice(b",\"v\":");
        push_decimal(buffer, self.state.inode);
        buffer.extend_from_slice(b",\"x\":");
        push_decimal(buffer, self.state.changed_ns);
        buffer.extend_from_slice(b",\"t\":\"");
        for thread in &self.threads {
            buffer.extend((0..16).map(|at| HEX[(thread >> (60 - 4 * at)) as usize & 15]));
        }
        buffer.push(b'"');
        push_seal(buffer, start);
    }

    /// Reads a line about a folder.
    fn decode(line: &[u8]) -> Option<(u8, Self)> {
        let (folder, rest) = number(sealed(line)?.strip_prefix(FOLDER)?)?;
        let (inode, rest) = number(rest.strip_prefix(b",\"v\":")?)?;
        let (changed_ns, rest) = number(rest.strip_prefix(b",\"x\":")?)?;
        let digits = rest.strip_prefix(b",\"t\":\"")?.strip_suffix(b"\"")?;
        let threads = digits.chunks(16).map(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u64::from_str_radix(digits, 16).ok()
        });
        let known = Self {
            state: State { inode, changed_ns },
            threads: threads.collect::<Option<_>>()?,
        };
        Some((u8::try_from(folder).ok()?, known))
    }
}

/// Whether a line is about a folder, or means to be.
pub(super) fn is_about_folder(line: &[u8]) -> bool {
    line.starts_with(FOLDER)
}

impl Default for Table {
    fn default() -> Self {
        Self {
            known: (0..BUCKETS).map(|_| None).collect(),
        }
    }
}

impl Table {
    /// What the index says of a folder.
    pub(super) fn get(&self, folder: u8) -> Option<&Known> {
        self.known[usize::from(folder)].as_ref()
    }

    pub(super) fn set(&mut self, folder: u8, known: Known) {
        self.known[usize::from(folder)] = Some(known);
    }

    /// Takes in a line. False if it isn't a good one.
    pub(super) fn take(&mut self, line: &[u8]) -> bool {
        let Some((folder, known)) = Known::decode(line) else {
            return false;
        };
        self.set(folder, known);
        true
    }

    /// Whether the index knows a thread of a folder.
    pub(super) fn knows(&self, folder: u8, id: &ThreadId) -> bool {
        self.get(folder).is_some_and(|known| known.contains(id))
    }

    /// Takes note that there is no entry of a thread any more.
    pub(super) fn forget(&mut self, folder: u8, id: &ThreadId) {
        if let Some(known) = &mut self.known[usize::from(folder)]
            && let Ok(at) = known.threads.binary_search(&hash(id.as_str()))
        {
            known.threads.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_or_not_at_all() {
        let ids = ["a", "b-1", "c"].map(|id| ThreadId::new(id).unwrap());
        let state = State {
            inode: 12,
            changed_ns: 1_760_000_000_123_456_789,
        };
        let known = Known::new(state, ids[..2].iter());
        let mut buffer = Vec::new();
        known.encode(255, &mut buffer);
        let line = &buffer[1..buffer.len() - 1];
        assert_eq!(Known::decode(line), Some((255, known.clone())));
        assert!(known.contains(&ids[0]) && known.contains(&ids[1]) && !known.contains(&ids[2]));
        for at in 0..line.len() {
            let mut bad = line.to_vec();
            bad[at] ^= 1;
            assert_eq!(Known::decode(&bad), None);
            assert_eq!(Known::decode(&line[..at]), None);
        }

        let head = Head {
            folders: u64::MAX,
            entries: u64::MAX,
        };
        let mut line = Vec::new();
        head.encode(&mut line);
        assert!(line.len() <= HEAD_BYTES);
        assert_eq!(Head::decode(&line), Some((head, line.len() as u64)));
        for at in 0..line.len() - 1 {
            let mut bad = line.clone();
            bad[at] ^= 1;
            assert_eq!(Head::decode(&bad), None);
            assert_eq!(Head::decode(&line[..at]), None);
        }
    }

    #[test]
    fn the_last_line_about_a_folder_counts() {
        let id = ThreadId::new("a").unwrap();
        let state = |changed_ns| State {
            inode: 1,
            changed_ns,
        };
        let mut table = Table::default();
        for (changed_ns, ids) in [(1, &[] as &[ThreadId]), (2, std::slice::from_ref(&id))] {
            let mut line = Vec::new();
            Known::new(state(changed_ns), ids.iter()).encode(7, &mut line);
            assert!(table.take(line.trim_ascii()));
        }
        assert!(!table.take(b"{\"b\":7}"));
        assert_eq!(table.get(7).unwrap().state, state(2));
        assert!(table.knows(7, &id) && !table.knows(8, &id));
        table.forget(7, &id);
        assert!(!table.knows(7, &id));
    }
}
