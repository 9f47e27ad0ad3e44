//! Removes payloads that no line of a log names.
//!
//! A payload's file is there before the line that names it, so that a crash, or
//! a write that failed, between the two leaves a file that nobody asks for. Only
//! the thread's writer makes such files and only its lock's holder removes them;
//! forks name none of their parent's but by its lines. So what no line names
//! when nothing is being appended will never be named.

use std::collections::HashSet;
use std::fs::File;
use std::io;

use memchr::memmem;
use rustix::fs::{FileType, Stat};

use crate::blobs::{FOLDER, HASH_LEN, MENTION};
use crate::disk::Folder;
use crate::layout::NEW_PREFIX;
use crate::scan::read_full;

const CHUNK: usize = 256 * 1024;

/// Whether there may be unused payloads: whether one was made after the log was
/// last written to. Costs a look at the folder.
pub(crate) fn are_likely(thread: &Folder, log: &Stat) -> bool {
    // The times of one tick of the clock are equal.
    thread
        .stat(FOLDER)
        .is_ok_and(|folder| changed(&folder) >= changed(log))
}

// The types differ between systems.
#[allow(clippy::unnecessary_cast)]
fn changed(stat: &Stat) -> (i64, i64) {
    (stat.st_mtime as i64, stat.st_mtime_nsec as i64)
}

/// Removes the payloads that the log doesn't name, and the remains of such as
/// were never finished. A name counts wherever it stands, in damaged lines too:
/// they may be mended by hand.
///
/// To be called with the thread's lock and with no append under way.
pub(crate) fn remove(thread: &Folder, log: &File, log_end: u64) -> io::Result<()> {
    let folder = match thread.folder(FOLDER) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        outcome => outcome?,
    };
    let mut unused = Vec::new();
    let mut payloads = HashSet::new();
    for entry in folder.entries()? {
        match entry.name.into_string() {
            Ok(name) if entry.kind != FileType::RegularFile => drop(name),
            Ok(name) if name.starts_with(NEW_PREFIX) => unused.push(name),
            Ok(name) if is_hash(name.as_bytes()) => drop(payloads.insert(name)),
            // Somebody else's.
            _ => {}
        }
    }
    keep_unnamed(&mut payloads, log, log_end)?;
    unused.extend(payloads);
    unused
        .iter()
        .try_for_each(|name| match folder.remove_file(name) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            outcome => outcome,
        })
}

fn is_hash(name: &[u8]) -> bool {
    let digit = |c: &u8| c.is_ascii_digit() || (b'a'..=b'f').contains(c);
    name.len() == HASH_LEN && name.iter().all(digit)
}

/// Takes those out of a set that a log names.
fn keep_unnamed(payloads: &mut HashSet<String>, log: &File, log_end: u64) -> io::Result<()> {
    let finder = memmem::Finder::new(MENTION);
    let mut buffer = vec![0; CHUNK];
    // What a mention may have of itself in the chunk before.
    const OVERLAP: usize = MENTION.len() + HASH_LEN - 1;
    let mut at = 0;
    while at < log_end && !payloads.is_empty() {
        let left = usize::try_from(log_end - at).unwrap_or(usize::MAX);
        let len = read_full(log, &mut buffer[..left.min(CHUNK)], at)?;
        let chunk = &buffer[..len];
        for found in finder.find_iter(chunk) {
            let start = found + MENTION.len();
            let name = chunk.get(start..start + HASH_LEN);
            if let Some(Ok(name)) = name.map(std::str::from_utf8) {
                payloads.remove(name);
            }
        }
        if len <= OVERLAP || len == left {
            break;
        }
        at += (len - OVERLAP) as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_mention_is_found_wherever_it_stands() {
        let names: Vec<_> = (0..3_u8)
            .map(|n| format!("{n:x}").repeat(HASH_LEN))
            .collect();
        for before in [0, 1, CHUNK - 90, CHUNK - 76, CHUNK - 40, CHUNK, 3 * CHUNK] {
            let mut log = tempfile::tempfile().unwrap();
            log.write_all(&vec![b'x'; before]).unwrap();
            for name in &names[..2] {
                write!(log, "\"blob:sha256-{name}\"").unwrap();
            }
            // Behind the end, and cut off by it.
            write!(log, "\"blob:sha256-{}", names[2]).unwrap();
            let end = log.metadata().unwrap().len() - 1;
            let mut payloads = names.iter().cloned().collect();
            keep_unnamed(&mut payloads, &log, end).unwrap();
            assert_eq!(payloads, HashSet::from([names[2].clone()]), "{before}");
        }
    }

    #[test]
    fn only_names_that_the_store_gives_are_its_own() {
        assert!(is_hash("0123456789abcdef".repeat(4).as_bytes()));
        for other in ["", "a", &"A".repeat(64), &"a".repeat(65), &"é".repeat(32)] {
            assert!(!is_hash(other.as_bytes()), "{other}");
        }
    }
}
