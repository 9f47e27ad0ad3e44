//! What other threads can see of a skill's thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How a skill's thread is.
#[derive(Debug)]
pub(crate) struct Pulse {
    began: Instant,
    /// When the code that runs now must have ended, in milliseconds from
    /// `began`, plus one; zero while none runs.
    until: AtomicU64,
    given_up: AtomicBool,
}

impl Pulse {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            until: AtomicU64::new(0),
            given_up: AtomicBool::new(false),
        }
    }

    /// Code begins to run that has to end by then.
    pub(crate) fn enter(&self, deadline: Instant) {
        let ms = deadline.saturating_duration_since(self.began).as_millis();
        let ms = u64::try_from(ms).unwrap_or(u64::MAX - 1);
        self.until.store(ms + 1, Ordering::Relaxed);
    }

    /// The code has ended.
    pub(crate) fn leave(&self) {
        self.until.store(0, Ordering::Relaxed);
    }

    /// By how much the code that runs now is late; `None` if none runs.
    pub(crate) fn late_by(&self) -> Option<Duration> {
        match self.until.load(Ordering::Relaxed) {
            0 => None,
            until => Some(
                self.began
                    .elapsed()
                    .saturating_sub(Duration::from_millis(until - 1)),
            ),
        }
    }

    pub(crate) fn give_up(&self) -> bool {
        !self.given_up.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }
}
