//! A thread's history in a request's body, the bytes of old items kept between
//! rounds, so that a round costs its new items and a copy.

use std::sync::Arc;

use haft_api::{EngineRequest, Item};

/// What the first items of a history come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// How many items were taken; at least one.
    pub items: usize,
    /// Whether no later item can change these bytes. Bytes that aren't final are
    /// made again in the next round.
    pub is_final: bool,
}

/// The elements of a history's first items.
struct Prefix<S> {
    generation: u64,
    settings: Arc<S>,
    /// How many items they were made of.
    items: usize,
    /// The elements, each after a comma.
    bytes: Vec<u8>,
}

/// Appends a request's history and then `tail` to a body that ends within a
/// list. Says how many items had to be looked at: those that the request's memo
/// didn't hold.
///
/// `write` appends the list's elements, each after a comma, for the first of the
/// items that it is given; `None` if there is nothing left for the model to see.
/// It is a function of the items and of `settings` alone, for what it wrote is
/// used again as long as both are the same.
///
/// The comma before the list's first element becomes a blank.
pub fn append<S: PartialEq + Send + Sync + 'static>(
    body: &mut Vec<u8>,
    request: &EngineRequest,
    settings: &Arc<S>,
    tail: &[u8],
    write: impl Fn(&[Arc<Item>], &mut Vec<u8>) -> Option<Written>,
) -> usize {
    let history = &request.history;
    let items = history.items();
    let kept = request.memo.take::<Prefix<S>>();
    let usable = |prefix: &Prefix<S>| {
        prefix.generation == history.generation()
            && prefix.items <= items.len()
            && (Arc::ptr_eq(&prefix.settings, settings) || prefix.settings == *settings)
    };
    let mut prefix = match kept {
        Some(prefix) if usable(&prefix) => prefix,
        _ => Box::new(Prefix {
            generation: history.generation(),
            settings: Arc::clone(settings),
            items: 0,
            bytes: Vec::new(),
        }),
    };
    let known = prefix.items;
    let mut open = Vec::new();
    loop {
        let end = prefix.bytes.len();
        match write(&items[prefix.items..], &mut prefix.bytes) {
            Some(written) if written.is_final && written.items > 0 => {
                prefix.items += written.items;
            }
            Some(_) => {
                open = prefix.bytes.split_off(end);
                break;
            }
            None => break,
        }
    }

    let first = body.last() == Some(&b'[');
    body.reserve_exact(prefix.bytes.len() + open.len() + tail.len());
    let begin = body.len();
    body.extend_from_slice(&prefix.bytes);
    body.extend_from_slice(&open);
    body.extend_from_slice(tail);
    if first && body.get(begin) == Some(&b',') {
        body[begin] = b' ';
    }
    request.memo.put(prefix);
    items.len() - known
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use haft_api::{History, ThreadId, TurnId};

    use super::*;

    fn request(items: &[Arc<Item>], generation: u64) -> EngineRequest {
        EngineRequest::new(
            ThreadId::new("t").unwrap(),
            TurnId::new("u").unwrap(),
            History::new(generation, items.to_vec()),
        )
    }

    #[test]
    fn final_bytes_are_made_once_as_long_as_nothing_else_changes() {
        let items: Vec<_> = ["a", "b", "c"]
            .map(|text| Arc::new(Item::user(text)))
            .to_vec();
        let calls = Cell::new(0);
        // The last item is never final.
        let write = |items: &[Arc<Item>], out: &mut Vec<u8>| {
            let [first, rest @ ..] = items else {
                return None;
            };
            calls.set(calls.get() + 1);
            out.push(b',');
            crate::json::write(out, &**first);
            Some(Written {
                items: 1,
                is_final: !rest.is_empty(),
            })
        };
        let settings = Arc::new(1);
        let first = request(&items[..2], 1);
        let memo = first.memo.clone();
        let check = |request: &EngineRequest, settings: &Arc<i32>, looked_at, written| {
            calls.set(0);
            let mut body = b"[".to_vec();
            let count = append(&mut body, request, settings, b"]", write);
            let list: Vec<Item> = serde_json::from_slice(&body).unwrap();
            assert_eq!(list.len(), request.history.items().len());
            assert_eq!((count, calls.get()), (looked_at, written));
        };
        check(&first, &settings, 2, 2);
        let mut longer = request(&items, 1);
        longer.memo = memo;
        check(&longer, &settings, 2, 2);
        check(&longer, &Arc::new(1), 1, 1);
        check(&longer, &Arc::new(2), 3, 3);
        let mut other = request(&items, 2);
        other.memo = longer.memo;
        check(&other, &settings, 3, 3);
        let mut empty = request(&[], 2);
        empty.memo = other.memo;
        check(&empty, &settings, 0, 0);
    }
}
