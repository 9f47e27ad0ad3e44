//! The histories that a plug-in's engine was sent, so that a round costs only
//! its new items.

use std::collections::HashMap;
use std::sync::Arc;

use crate::engine::{EngineMemo, History};
use crate::id::ThreadId;
use crate::item::Item;

/// Most threads that are kept.
const MAX_THREADS: usize = 64;
/// Most bytes of items that are kept, as far as they are known: their size on
/// the way here.
const MAX_BYTES: usize = 64 * 1024 * 1024;

struct Kept {
    history: History,
    memo: EngineMemo,
    bytes: usize,
    last_used: u64,
}

/// Histories by thread, the ones used last.
pub(super) struct Histories {
    kept: HashMap<ThreadId, Kept>,
    clock: u64,
    max_threads: usize,
    max_bytes: usize,
}

impl Default for Histories {
    fn default() -> Self {
        Self {
            kept: HashMap::new(),
            clock: 0,
            max_threads: MAX_THREADS,
            max_bytes: MAX_BYTES,
        }
    }
}

/// The history isn't here, or not as far as it was taken to be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Missing;

impl Histories {
    /// The history of which `items` are those after the first `from`, and its
    /// engine's memo. `bytes` is how much came.
    pub(super) fn extend(
        &mut self,
        thread: &ThreadId,
        generation: u64,
        from: usize,
        items: Vec<Arc<Item>>,
        bytes: usize,
    ) -> Result<(History, EngineMemo), Missing> {
        let earlier = self.kept.remove(thread);
        let memo = earlier.as_ref().map(|kept| kept.memo.clone());
        let (history, bytes) = if from == 0 {
            (History::new(generation, items), bytes)
        } else {
            let kept = earlier.ok_or(Missing)?;
            let known = kept.history.items();
            if kept.history.generation() != generation || known.len() < from {
                return Err(Missing);
            }
            if known.len() == from {
                let mut history = kept.history;
                for item in items {
                    history.push(item);
                }
                (history, kept.bytes + bytes)
            } else {
                let all = known[..from].iter().cloned().chain(items).collect();
                (History::new(generation, all), kept.bytes + bytes)
            }
        };
        let memo = memo.unwrap_or_default();
        self.clock += 1;
        let kept = Kept {
            history: history.clone(),
            memo: memo.clone(),
            bytes,
            last_used: self.clock,
        };
        self.kept.insert(thread.clone(), kept);
        self.shrink();
        Ok((history, memo))
    }

    fn shrink(&mut self) {
        let mut bytes: usize = self.kept.values().map(|kept| kept.bytes).sum();
        while self.kept.len() > self.max_threads || (bytes > self.max_bytes && self.kept.len() > 1)
        {
            let oldest = self.kept.iter().min_by_key(|(_, kept)| kept.last_used);
            let Some(oldest) = oldest.map(|(thread, _)| thread.clone()) else {
                return;
            };
            if let Some(gone) = self.kept.remove(&oldest) {
                bytes -= gone.bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(name: &str) -> ThreadId {
        ThreadId::new(name).unwrap()
    }

    fn items(texts: &str) -> Vec<Arc<Item>> {
        texts.chars().map(|c| Arc::new(Item::user(c))).collect()
    }

    fn texts(history: &History) -> String {
        let text = |item: &Arc<Item>| match &**item {
            Item::UserMessage { parts } => crate::item::join_text(parts),
            _ => unreachable!("only user messages here"),
        };
        history.items().iter().map(text).collect()
    }

    #[test]
    fn a_history_is_what_was_sent_or_missing() {
        let mut histories = Histories::default();
        let mut check = |generation, from, new: &str, expected: Result<&str, Missing>| {
            let result = histories.extend(&thread("t"), generation, from, items(new), 1);
            let result = result.map(|(history, _)| {
                assert_eq!(history.generation(), generation);
                texts(&history)
            });
            assert_eq!(result, expected.map(str::to_owned));
        };
        check(1, 2, "c", Err(Missing));
        check(1, 0, "ab", Ok("ab"));
        check(1, 2, "cd", Ok("abcd"));
        check(1, 4, "", Ok("abcd"));
        check(1, 3, "e", Ok("abce"));
        check(1, 9, "f", Err(Missing));
        check(1, 4, "f", Err(Missing));
        check(1, 0, "xy", Ok("xy"));
        check(2, 2, "z", Err(Missing));
        check(2, 0, "s", Ok("s"));
    }

    #[test]
    fn the_memo_stays_with_its_thread() {
        let mut histories = Histories::default();
        let mut memo = |name: &str| {
            let sent = histories.extend(&thread(name), 1, 0, items("a"), 1);
            sent.unwrap().1
        };
        memo("a").put(Box::new(7_u8));
        assert!(memo("b").take::<u8>().is_none());
        assert_eq!(memo("a").take::<u8>().as_deref(), Some(&7));
    }

    #[test]
    fn the_oldest_go_first() {
        let mut histories = Histories {
            max_threads: 2,
            max_bytes: 100,
            ..Histories::default()
        };
        let mut send = |name: &str, bytes| {
            let sent = histories.extend(&thread(name), 1, 0, items("a"), bytes);
            assert!(sent.is_ok());
            let mut names: Vec<_> = histories.kept.keys().map(ToString::to_string).collect();
            names.sort();
            names.concat()
        };
        assert_eq!(send("a", 1), "a");
        assert_eq!(send("b", 1), "ab");
        assert_eq!(send("a", 1), "ab");
        assert_eq!(send("c", 1), "ac");
        assert_eq!(send("d", 99), "cd");
        assert_eq!(send("e", 200), "e");
    }
}
