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
use crate::scan::{Piece, Scanner};

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
/// were never finished. If anything of the log can't be read, nothing is removed:
/// it may be mended by hand, and name them then.
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

/// Takes those out of a set that a log names; all, if it has damage.
fn keep_unnamed(payloads: &mut HashSet<String>, log: &File, log_end: u64) -> io::Result<()> {
    if log.metadata()?.len() < log_end {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let finder = memmem::Finder::new(MENTION);
    let mut scanner = Scanner::new(log, 0..log_end);
    while !payloads.is_empty() {
        let frame = match scanner.next()? {
            None => break,
            Some(Piece::Record { frame, .. }) => frame,
            Some(Piece::Damage(_)) => {
                payloads.clear();
                break;
            }
        };
        for found in finder.find_iter(frame.data.as_bytes()) {
            let start = found + MENTION.len();
            if let Some(name) = frame.data.get(start..start + HASH_LEN) {
                payloads.remove(name);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::frame::encode;

    /// What is left of three payloads by a log of such data.
    fn left(datas: &[&str], behind: &[u8]) -> Vec<char> {
        let mut bytes = Vec::new();
        for (seq, data) in (0..).zip(datas) {
            encode(&mut bytes, seq, 1, "x", data);
        }
        bytes.extend_from_slice(behind);
        let mut log = tempfile::tempfile().unwrap();
        log.write_all(&bytes).unwrap();
        let mut payloads = ["a", "b", "c"].map(|c| c.repeat(HASH_LEN)).into();
        keep_unnamed(&mut payloads, &log, bytes.len() as u64).unwrap();
        let mut left: Vec<_> = payloads.iter().filter_map(|p| p.chars().next()).collect();
        left.sort_unstable();
        left
    }

    fn named(letter: &str) -> String {
        format!("\"blob:sha256-{}\"", letter.repeat(HASH_LEN))
    }

    #[test]
    fn what_a_line_names_is_kept() {
        assert_eq!(left(&[], b""), ['a', 'b', 'c']);
        assert_eq!(left(&["1", &named("a"), "{}"], b""), ['b', 'c']);
        let two = format!("[{},1,{{\"x\":{}}}]", named("c"), named("a"));
        assert_eq!(left(&[&two], b""), ['b']);
        // Somebody's words count as well.
        assert_eq!(left(&[r#""see blob:sha256-aa""#], b""), ['a', 'b', 'c']);
    }

    #[test]
    fn a_log_with_damage_keeps_all() {
        assert_eq!(left(&[&named("a")], b"fragment\n"), []);
        assert_eq!(left(&[&named("a")], &[0; 100]), []);
    }

    #[test]
    fn a_log_that_is_shorter_than_it_should_be_keeps_all() {
        let log = tempfile::tempfile().unwrap();
        assert!(keep_unnamed(&mut HashSet::new(), &log, 1).is_err());
    }

    #[test]
    fn only_names_that_the_store_gives_are_its_own() {
        assert!(is_hash("0123456789abcdef".repeat(4).as_bytes()));
        for other in ["", "a", &"A".repeat(64), &"a".repeat(65), &"é".repeat(32)] {
            assert!(!is_hash(other.as_bytes()), "{other}");
        }
    }
}
