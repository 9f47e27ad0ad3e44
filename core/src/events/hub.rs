//! Numbers a thread's events and hands them to subscribers and sinks.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use haft_api::{Event, EventBody, EventSink, ThreadId, TurnId, unix_ms_now};

use super::subscription::{Queue, Subscription};
use crate::guard;

/// How many lossless events a thread keeps at hand for refills.
const RECENT: usize = 1024;

/// An event that has no number yet.
pub(crate) struct Unnumbered {
    pub(crate) turn: Option<TurnId>,
    pub(crate) body: EventBody,
}

/// A thread's events: one order, one numbering.
///
/// While a group of records is on its way to the store, its events have their
/// numbers but may not be shown yet; lossy events that arise meanwhile wait,
/// so that what subscribers see is in the order of the numbers.
pub(crate) struct EventHub {
    thread: ThreadId,
    sinks: Arc<[Arc<dyn EventSink>]>,
    state: Mutex<State>,
}

struct State {
    next_seq: u64,
    subscribers: Vec<Weak<Queue>>,
    recent: VecDeque<Event>,
    /// What arose while an append was under way; `None` if none is.
    held: Option<Vec<Unnumbered>>,
}

impl EventHub {
    pub(crate) fn new(thread: ThreadId, next_seq: u64, sinks: Arc<[Arc<dyn EventSink>]>) -> Self {
        let state = State {
            next_seq,
            subscribers: Vec::new(),
            recent: VecDeque::new(),
            held: None,
        };
        Self {
            thread,
            sinks,
            state: Mutex::new(state),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Numbers events from here on, if it isn't further already: another process
    /// has written to the thread meanwhile.
    pub(crate) fn go_on_from(&self, seq: u64) {
        let mut state = self.state();
        state.next_seq = state.next_seq.max(seq);
    }

    /// A subscriber from now on, with room for so many lossy events.
    pub(crate) fn subscribe(&self, capacity: usize) -> Subscription {
        let queue = Arc::new(Queue::new(capacity));
        self.state().subscribers.push(Arc::downgrade(&queue));
        Subscription::new(queue)
    }

    /// Publishes an event that no record stands for.
    pub(crate) fn publish(&self, turn: Option<TurnId>, body: EventBody) {
        let event = Unnumbered { turn, body };
        let mut state = self.state();
        match &mut state.held {
            Some(held) => held.push(event),
            None => self.deliver(&mut state, event),
        }
    }

    /// Publishes a fresh thread's first event, which its header stands for.
    pub(crate) fn tell_of_creation(&self, body: EventBody) {
        let mut state = self.state();
        // Reading the header counted the event already.
        state.next_seq = state.next_seq.saturating_sub(1);
        self.deliver(&mut state, Unnumbered { turn: None, body });
    }

    /// Begins an append: returns the number its first event will have. Ends
    /// when the returned guard is dropped; without
    /// [`commit`](PendingAppend::commit) its events never were.
    pub(crate) fn begin_append(&self) -> PendingAppend<'_> {
        let mut state = self.state();
        debug_assert!(
            state.held.is_none(),
            "the log's lock admits one append at a time"
        );
        state.held = Some(Vec::new());
        PendingAppend {
            hub: self,
            first_seq: state.next_seq,
        }
    }

    /// The lossless events with numbers from `from` to `to` that are still at
    /// hand, and whether these are all there were since `from`.
    pub(crate) fn recent(&self, from: u64, to: u64) -> (Vec<Event>, bool) {
        let state = self.state();
        let complete = state.recent.front().is_some_and(|first| first.seq <= from)
            && state.recent.len() < RECENT;
        let events = state
            .recent
            .iter()
            .filter(|e| (from..=to).contains(&e.seq))
            .cloned();
        (events.collect(), complete)
    }

    fn deliver(&self, state: &mut State, Unnumbered { turn, body }: Unnumbered) {
        let event = Event::new(
            state.next_seq,
            self.thread.clone(),
            turn,
            unix_ms_now(),
            body,
        );
        state.next_seq += 1;
        let mut gone = false;
        for subscriber in &state.subscribers {
            match subscriber.upgrade() {
                Some(queue) => queue.push(&event),
                None => gone = true,
            }
        }
        if gone {
            state
                .subscribers
                .retain(|subscriber| subscriber.strong_count() > 0);
        }
        for sink in self.sinks.iter() {
            // A panicking sink costs that sink that event; nobody else.
            guard::call("event sink", || sink.publish(&event)).ok();
        }
        if !event.body.is_lossy() {
            if state.recent.len() == RECENT {
                state.recent.pop_front();
            }
            state.recent.push_back(event);
        }
    }
}

/// An append that is under way.
pub(crate) struct PendingAppend<'a> {
    hub: &'a EventHub,
    first_seq: u64,
}

impl PendingAppend<'_> {
    /// The number of the group's first event.
    pub(crate) fn first_seq(&self) -> u64 {
        self.first_seq
    }

    /// Publishes the group's events: its records are in the store.
    pub(crate) fn commit(self, events: Vec<Unnumbered>) {
        let mut state = self.hub.state();
        for event in events {
            self.hub.deliver(&mut state, event);
        }
    }
}

impl Drop for PendingAppend<'_> {
    fn drop(&mut self) {
        let mut state = self.hub.state();
        for event in state.held.take().unwrap_or_default() {
            self.hub.deliver(&mut state, event);
        }
    }
}
