//! What other threads can see of a state's thread.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How a state's thread is.
#[derive(Debug)]
pub(crate) struct Pulse {
    began: Instant,
    /// When it last began to run Lua, in milliseconds from `began`, plus one;
    /// zero while it runs none.
    busy_since: AtomicU64,
    given_up: AtomicBool,
    loading: Mutex<Option<PathBuf>>,
}

impl Pulse {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            busy_since: AtomicU64::new(0),
            given_up: AtomicBool::new(false),
            loading: Mutex::default(),
        }
    }

    pub(crate) fn enter(&self, now: Instant) {
        let now = now.saturating_duration_since(self.began).as_millis();
        let now = u64::try_from(now).unwrap_or(u64::MAX - 1);
        self.busy_since.store(now + 1, Ordering::Relaxed);
    }

    pub(crate) fn leave(&self) {
        self.busy_since.store(0, Ordering::Relaxed);
    }

    /// How long it has been running Lua without a pause.
    pub(crate) fn busy_for(&self) -> Duration {
        match self.busy_since.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => self
                .began
                .elapsed()
                .saturating_sub(Duration::from_millis(since - 1)),
        }
    }

    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    pub(crate) fn set_loading(&self, path: Option<PathBuf>) {
        *self.loading.lock().unwrap_or_else(PoisonError::into_inner) = path;
    }

    pub(crate) fn loading(&self) -> Option<PathBuf> {
        self.loading
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
