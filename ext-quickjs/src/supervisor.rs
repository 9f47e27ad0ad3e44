//! Sees code that can't be interrupted, from another thread.
//!
//! It sleeps while no skill runs code.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use crate::worker::Worker;

/// How often it looks.
const EVERY: Duration = Duration::from_millis(25);
/// How many looks without anything running put it to sleep.
const QUIET: u32 = 40;

/// The one who looks after all skills of a host.
#[derive(Default)]
pub(crate) struct Supervisor {
    awake: AtomicBool,
    wake: Notify,
    workers: Mutex<Vec<Weak<Worker>>>,
}

impl Supervisor {
    pub(crate) fn watch(&self, worker: &Arc<Worker>) {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.retain(|known| known.strong_count() > 0);
        workers.push(Arc::downgrade(worker));
    }

    /// Code begins to run.
    pub(crate) fn rouse(&self) {
        if !self.awake.load(Ordering::Relaxed) && !self.awake.swap(true, Ordering::Relaxed) {
            self.wake.notify_one();
        }
    }

    /// Looks, for ever. A thread whose code is late by more than `wedge` is
    /// given up.
    pub(crate) async fn run(self: Arc<Self>, wedge: Duration) {
        loop {
            self.wake.notified().await;
            let mut quiet = 0;
            while quiet < QUIET {
                tokio::time::sleep(EVERY).await;
                quiet = match self.look(wedge) {
                    true => 0,
                    false => quiet + 1,
                };
            }
            self.awake.store(false, Ordering::Relaxed);
            // Code that began between the last look and the store.
            if self.look(wedge) {
                self.rouse();
            }
        }
    }

    /// Whether some code runs.
    fn look(&self, wedge: Duration) -> bool {
        let workers: Vec<_> = {
            let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
            workers.iter().filter_map(Weak::upgrade).collect()
        };
        let mut busy = false;
        for worker in workers {
            match worker.pulse.late_by() {
                Some(late) if late > wedge => {
                    worker.give_up("its code couldn't be interrupted at its deadline");
                }
                Some(_) => busy = true,
                None => {}
            }
        }
        busy
    }
}
