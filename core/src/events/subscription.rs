//! A subscriber's own queue.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use haft_api::{Event, EventBody};
use tokio::sync::Notify;

/// Waits for its reader. Lossless events always find room: they are as many as
/// the thread has records, and their items are shared with its history. Lossy
/// ones find room for a fixed number; the rest becomes one `lagged` each run.
pub(crate) struct Queue {
    capacity: usize,
    state: Mutex<State>,
    arrived: Notify,
}

#[derive(Default)]
struct State {
    events: VecDeque<Event>,
    lossy: usize,
}

impl Queue {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            state: Mutex::default(),
            arrived: Notify::new(),
        }
    }

    pub(crate) fn push(&self, event: &Event) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if event.body.is_lossy() {
            if state.lossy >= self.capacity {
                if let Some(Event {
                    body: EventBody::Lagged { to, .. },
                    ..
                }) = state.events.back_mut()
                {
                    *to = event.seq;
                } else {
                    let mut lagged = event.clone();
                    lagged.body = EventBody::Lagged {
                        from: event.seq,
                        to: event.seq,
                    };
                    state.events.push_back(lagged);
                }
                return;
            }
            state.lossy += 1;
        }
        state.events.push_back(event.clone());
        drop(state);
        self.arrived.notify_one();
    }

    fn pop(&self) -> Option<Event> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let event = state.events.pop_front()?;
        if event.body.is_lossy() {
            state.lossy -= 1;
        }
        Some(event)
    }
}

/// A thread's events from the moment of subscribing on, in order.
///
/// A slow reader never slows the turn. It gets every lossless event; where it
/// was too slow for lossy ones, a [`EventBody::Lagged`] stands in their place.
pub struct Subscription {
    queue: Arc<Queue>,
}

impl Subscription {
    pub(crate) fn new(queue: Arc<Queue>) -> Self {
        Self { queue }
    }

    /// Waits for the next event. Cancel safe: dropping the future loses nothing.
    pub async fn next(&mut self) -> Event {
        loop {
            let arrived = self.queue.arrived.notified();
            if let Some(event) = self.queue.pop() {
                return event;
            }
            arrived.await;
        }
    }

    /// The next event if it is there already.
    pub fn try_next(&mut self) -> Option<Event> {
        self.queue.pop()
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Subscription")
    }
}
