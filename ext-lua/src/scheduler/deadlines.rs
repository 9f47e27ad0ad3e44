//! When tasks have to end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

/// Entries that are no longer needed are kept up to this many times the others.
const SLACK: usize = 4;
/// Fewest entries that are worth a clearance.
const FEW: usize = 256;

/// Deadlines, the next one first. Most tasks end long before theirs, so an
/// entry stays until its turn comes or there are too many.
#[derive(Default)]
pub(super) struct Deadlines {
    heap: BinaryHeap<Reverse<(Instant, u64)>>,
    /// How many were left at the last clearance.
    lived: usize,
}

impl Deadlines {
    pub(super) fn add(&mut self, at: Instant, task: u64) {
        self.heap.push(Reverse((at, task)));
    }

    /// The next deadline of a task that is alive.
    pub(super) fn next(&mut self, alive: impl Fn(u64) -> bool) -> Option<Instant> {
        if self.heap.len() > FEW.max(self.lived * SLACK) {
            self.heap.retain(|Reverse((_, task))| alive(*task));
            self.lived = self.heap.len();
        }
        while let Some(Reverse((at, task))) = self.heap.peek() {
            if alive(*task) {
                return Some(*at);
            }
            self.heap.pop();
        }
        None
    }

    /// Takes a deadline that has passed.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<u64> {
        match self.heap.peek() {
            Some(Reverse((at, task))) if *at <= now => {
                let task = *task;
                self.heap.pop();
                Some(task)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_next_one_alive_is_told_and_the_ended_are_cleared() {
        let mut deadlines = Deadlines::default();
        let now = Instant::now();
        let at = |n: u64| now + Duration::from_secs(n);
        for task in (1..=10_000).rev() {
            deadlines.add(at(task), task);
        }
        assert_eq!(deadlines.next(|task| task >= 9_990), Some(at(9_990)));
        assert!(deadlines.heap.len() <= 11);
        assert_eq!(deadlines.take_due(at(9_989)), None);
        assert_eq!(deadlines.take_due(at(9_991)), Some(9_990));
        assert_eq!(deadlines.take_due(at(9_991)), Some(9_991));
        assert_eq!(deadlines.take_due(at(9_991)), None);
        assert_eq!(deadlines.next(|_| false), None);
    }
}
