//! The system's table of processes, as `/proc` shows it.

use std::collections::HashSet;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

/// A process that has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) session: u32,
    /// When it started, in ticks since the system did: tells it from a later
    /// process of the same number.
    pub(crate) started: u64,
}

impl Entry {
    pub(crate) fn read(pid: u32) -> Option<Self> {
        Self::parse(pid, &std::fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// `pid (name) state parent group session …`; the name may hold anything. The
    /// eighteenth field after the name counts threads: a process whose first one
    /// has ended looks dead, and isn't as long as there are others.
    fn parse(pid: u32, stat: &[u8]) -> Option<Self> {
        let end_of_name = stat.iter().rposition(|&byte| byte == b')')?;
        let rest = std::str::from_utf8(stat.get(end_of_name + 1..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse().ok();
        let dead = matches!(*fields.first()?, "Z" | "X");
        if dead && number(17).is_none_or(|threads: u32| threads <= 1) {
            return None;
        }
        Some(Self {
            pid,
            parent: number(1)?,
            group: number(2)?,
            session: number(3)?,
            started: fields.get(19)?.parse().ok()?,
        })
    }

    /// Sends a signal to this very process, not to a later one of its number.
    pub(crate) fn signal(&self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid.cast_signed()) else {
            return;
        };
        let same = || Self::read(self.pid).is_some_and(|now| now.started == self.started);
        // What fails here has ended, or may not be signalled: then it is found
        // again, and reported as left over.
        let _ = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(descriptor) if same() => pidfd_send_signal(&descriptor, signal),
            Err(Errno::NOSYS | Errno::PERM) if same() => kill_process(pid, signal),
            _ => Ok(()),
        };
    }

    /// Whether it was started with this in its environment.
    pub(crate) fn has_variable(&self, assignment: &str) -> bool {
        // While it becomes another program it has no environment for a moment;
        // the system's own threads never have one.
        const LOOKS: u32 = 5;
        for _ in 0..LOOKS {
            match std::fs::read(format!("/proc/{}/environ", self.pid)) {
                Ok(all) if all.is_empty() => std::thread::sleep(Duration::from_millis(1)),
                Ok(all) => return all.split(|&b| b == 0).any(|v| v == assignment.as_bytes()),
                Err(_) => return false,
            }
        }
        false
    }
}

/// All processes that have not ended.
pub(crate) fn snapshot() -> Vec<Entry> {
    let Ok(folder) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    folder
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(Entry::read)
        .collect()
}

/// Those of a snapshot that one process has started, however far down.
pub(crate) fn beneath(of: u32, all: &[Entry]) -> Vec<Entry> {
    let mut found = Vec::new();
    let mut seen = HashSet::from([of]);
    let mut next = vec![of];
    while let Some(parent) = next.pop() {
        for entry in all.iter().filter(|entry| entry.parent == parent) {
            if seen.insert(entry.pid) {
                found.push(*entry);
                next.push(entry.pid);
            }
        }
    }
    found
}

/// The numbers of all processes beneath this one, in order.
pub(crate) fn descendants() -> Vec<u32> {
    let mut pids: Vec<u32> = own().iter().map(|entry| entry.pid).collect();
    pids.sort_unstable();
    pids
}

/// Signals all processes beneath this one. Who is being started at that very
/// moment may miss it.
pub(crate) fn signal_descendants(signal: Signal) {
    for entry in own() {
        entry.signal(signal);
    }
}

/// All processes beneath this one. They are looked up from parent to child, which
/// takes no longer on a machine with many others; where the system keeps no lists
/// of children, the whole table is looked through.
fn own() -> Vec<Entry> {
    let of = std::process::id();
    let Some(first) = children(of) else {
        return beneath(of, &snapshot());
    };
    let mut found = Vec::new();
    let mut seen = HashSet::from([of]);
    let mut next = first;
    while let Some(pid) = next.pop() {
        if seen.insert(pid) {
            // None of one that has ended since: its own have another parent now.
            next.extend(children(pid).unwrap_or_default());
            found.extend(Entry::read(pid));
        }
    }
    found
}

/// The children of all of a process's threads; `None` if that isn't told.
fn children(of: u32) -> Option<Vec<u32>> {
    let mut lists = std::fs::read_dir(format!("/proc/{of}/task"))
        .ok()?
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok())
        .peekable();
    lists.peek()?;
    let parse = |list: String| -> Vec<u32> {
        let numbers = list.split_ascii_whitespace();
        numbers.filter_map(|number| number.parse().ok()).collect()
    };
    Some(lists.flat_map(parse).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_hold_anything_and_the_dead_are_left_out() {
        let tail = "1 2 3 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 12345 0";
        let check = |stat: &str, expected: Option<(u32, u32, u32, u64)>| {
            let entry = Entry::parse(9, stat.as_bytes());
            let entry = entry.map(|e| (e.parent, e.group, e.session, e.started));
            assert_eq!(entry, expected, "{stat}");
        };
        let whole = Some((1, 2, 3, 12345));
        check(&format!("9 (sh) S {tail}"), whole);
        check(&format!("9 (a) Z 5 (b c) R {tail}"), whole);
        check(&format!("9 (a\nb) D {tail}"), whole);
        check(&format!("9 (sh) Z {tail}"), None);
        // Its first thread has ended, and one more lives.
        check(
            &format!("9 (sh) Z {}", tail.replace(" 20 0 1 ", " 20 0 2 ")),
            whole,
        );
        check("9 (sh", None);
        check("9 (sh) S 1 2", None);
    }

    #[test]
    fn beneath_follows_every_generation() {
        let entry = |pid, parent| Entry {
            pid,
            parent,
            group: 0,
            session: 0,
            started: 0,
        };
        let all = [
            entry(5, 4),
            entry(2, 1),
            entry(3, 1),
            entry(4, 2),
            entry(1, 5),
        ];
        let mut found: Vec<u32> = beneath(1, &all).iter().map(|e| e.pid).collect();
        found.sort_unstable();
        assert_eq!(found, [2, 3, 4, 5]);
        assert!(beneath(9, &all).is_empty());
    }
}
