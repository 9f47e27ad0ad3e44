//! What was stored and what was published, in one order.

use std::sync::{Arc, Mutex};

use haft_api::{Durability, Event, EventBody, EventSink, Item, NewRecord, ThreadId};
use tokio::sync::watch;

use crate::lock::lock;

/// One entry of a [`Journal`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum JournalEntry {
    /// A store acknowledged a group of records.
    Stored {
        /// The thread.
        thread: ThreadId,
        /// The number of the first record.
        first_seq: u64,
        /// The group.
        records: Vec<NewRecord>,
        /// How durably it was asked for.
        durability: Durability,
    },
    /// A runtime published an event.
    Published(Event),
}

#[derive(Debug, Default)]
struct Inner {
    entries: Mutex<Vec<JournalEntry>>,
    length: watch::Sender<usize>,
}

/// Keeps what a [`FaultStore`](crate::FaultStore) acknowledged and what a
/// runtime published in the order in which it happened, so that a test can tell
/// whether everything was durable before it was visible. It is an
/// [`EventSink`]. Clones are the same journal.
///
/// ```
/// use haft_api::*;
/// use haft_testkit::{Journal, fixture};
///
/// let journal = Journal::new();
/// let body = EventBody::TurnCompleted { usage: Usage::default() };
/// journal.publish(&Event::new(0, fixture::thread_id("t1"), None, 0, body));
/// assert_eq!(journal.summary(), "turn.completed");
/// ```
#[derive(Debug, Clone, Default)]
pub struct Journal(Arc<Inner>);

impl Journal {
    /// An empty journal.
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn push(&self, entry: JournalEntry) {
        let mut entries = lock(&self.0.entries);
        entries.push(entry);
        self.0.length.send_replace(entries.len());
    }

    /// Everything, in order.
    pub fn entries(&self) -> Vec<JournalEntry> {
        lock(&self.0.entries).clone()
    }

    /// The events, in order.
    pub fn events(&self) -> Vec<Event> {
        let published = |entry: &JournalEntry| match entry {
            JournalEntry::Published(event) => Some(event.clone()),
            JournalEntry::Stored { .. } => None,
        };
        lock(&self.0.entries).iter().filter_map(published).collect()
    }

    /// The events in one line; see [`summarise`](crate::summarise).
    pub fn summary(&self) -> String {
        crate::events::summarise(&self.events())
    }

    /// Waits until the events are as the test wants them.
    pub async fn wait_until(&self, until: impl Fn(&[Event]) -> bool) {
        let mut length = self.0.length.subscribe();
        while !until(&self.events()) {
            // Can't fail: the sender lives as long as `self`.
            length.changed().await.ok();
        }
    }

    /// Checks that each item was acknowledged by the store before the event
    /// that shows it, and each turn's end after a barrier with nothing stored
    /// since. `holds` says whether a record is that of an item: only the
    /// runtime knows how it writes them.
    ///
    /// # Errors
    /// The first event that came too early.
    pub fn check_durable_before_visible(
        &self,
        holds: impl Fn(&NewRecord, &Item) -> bool,
    ) -> Result<(), String> {
        let entries = self.entries();
        for (place, entry) in entries.iter().enumerate() {
            let JournalEntry::Published(event) = entry else {
                continue;
            };
            let before = || {
                entries[..place].iter().filter_map(|entry| match entry {
                    JournalEntry::Stored {
                        thread,
                        records,
                        durability,
                        ..
                    } if *thread == event.thread => Some((records, *durability)),
                    _ => None,
                })
            };
            match &event.body {
                EventBody::ItemAppended { item } => {
                    let stored =
                        before().any(|(records, _)| records.iter().any(|r| holds(r, item)));
                    if !stored {
                        return Err(format!(
                            "event {} shows an unstored item: {item:?}",
                            event.seq
                        ));
                    }
                }
                body if body.is_turn_end() => {
                    let last = before().next_back().map(|(_, durability)| durability);
                    if last != Some(Durability::Barrier) {
                        return Err(format!(
                            "event {} ends a turn, but the last append before it was {last:?}",
                            event.seq
                        ));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl EventSink for Journal {
    fn publish(&self, event: &Event) {
        self.push(JournalEntry::Published(event.clone()));
    }
}
