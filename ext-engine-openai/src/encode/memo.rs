//! What is kept of a thread's encoded history between rounds.

use std::sync::Arc;

use haft_api::EngineRequest;

use super::EncodeSettings;
use super::messages::Group;

/// The messages of a history's first items.
struct Prefix {
    generation: u64,
    settings: Arc<EncodeSettings>,
    /// How many items they were made of.
    items: usize,
    /// The messages, each after a comma.
    bytes: Vec<u8>,
}

/// Appends a request's messages and then `tail` to a body, after what is in its
/// list already. Says how many items had to be encoded.
pub(super) fn append_history(
    body: &mut Vec<u8>,
    request: &EngineRequest,
    settings: &Arc<EncodeSettings>,
    tail: &[u8],
) -> usize {
    let history = &request.history;
    let items = history.items();
    let kept = request.memo.take::<Prefix>();
    let usable = |prefix: &Prefix| {
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
    while let Some(group) = Group::at_start_of(&items[prefix.items..]) {
        if group.is_closed() {
            group.write(&mut prefix.bytes, settings);
            prefix.items += group.len();
        } else {
            group.write(&mut open, settings);
            break;
        }
    }

    let first = body.last() == Some(&b'[');
    body.reserve_exact(prefix.bytes.len() + open.len() + tail.len());
    let begin = body.len();
    body.extend_from_slice(&prefix.bytes);
    body.extend_from_slice(&open);
    body.extend_from_slice(tail);
    if first && body.get(begin) == Some(&b',') {
        // No message stands before the first one; a comma would be one too many.
        body[begin] = b' ';
    }
    request.memo.put(prefix);
    items.len() - known
}
