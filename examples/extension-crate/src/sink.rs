//! An event sink.

use std::sync::atomic::{AtomicU64, Ordering};

use haft_api::{Event, EventSink};

/// Counts the turns that have ended.
#[derive(Default)]
pub(crate) struct Turns {
    ended: AtomicU64,
}

impl EventSink for Turns {
    fn publish(&self, event: &Event) {
        if event.body.is_turn_end() {
            self.ended.fetch_add(1, Ordering::Relaxed);
        }
    }
}
