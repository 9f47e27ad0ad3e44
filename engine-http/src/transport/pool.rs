//! Connections that wait for their next request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::connection::Connection;

/// How long a connection is kept. Most servers close theirs after about as
/// long.
const KEPT: Duration = Duration::from_secs(90);

/// How many are kept.
const MOST: usize = 128;

/// How often those are let go that are too old, or that the server has closed.
const SWEEP: Duration = Duration::from_secs(15);

/// The idle connections to one server.
#[derive(Default)]
pub(super) struct Pool {
    idle: Mutex<Idle<Connection>>,
}

/// The connections, and whether a task sweeps them.
struct Idle<C> {
    /// The one that was used last is the last.
    connections: Vec<(C, Instant)>,
    is_swept: bool,
}

impl<C> Default for Idle<C> {
    fn default() -> Self {
        Self {
            connections: Vec::new(),
            is_swept: false,
        }
    }
}

impl Pool {
    fn idle(&self) -> MutexGuard<'_, Idle<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection that was used last, if it is still good.
    pub(super) fn take(&self) -> Option<Connection> {
        self.idle().take(Connection::is_reusable)
    }

    /// Keeps a connection whose answer was read to its end.
    pub(super) fn put(self: &Arc<Self>, mut connection: Connection) {
        if !connection.is_reusable() {
            return;
        }
        let begin_sweeping = {
            let mut idle = self.idle();
            idle.put(connection);
            !std::mem::replace(&mut idle.is_swept, true)
        };
        if begin_sweeping {
            // Without a runtime it is dropped at once, and the next one tries.
            let sweeper = Sweeper(Arc::downgrade(self));
            if let Ok(runtime) = Handle::try_current() {
                runtime.spawn(sweeper.run());
            }
        }
    }
}

impl<C> Idle<C> {
    fn take(&mut self, is_reusable: impl Fn(&mut C) -> bool) -> Option<C> {
        loop {
            let (mut connection, since) = self.connections.pop()?;
            if since.elapsed() > KEPT {
                // So are all others.
                self.connections.clear();
                return None;
            }
            if is_reusable(&mut connection) {
                return Some(connection);
            }
        }
    }

    fn put(&mut self, connection: C) {
        if self.connections.len() >= MOST {
            self.connections.remove(0);
        }
        self.connections.push((connection, Instant::now()));
    }

    fn sweep(&mut self, is_reusable: impl Fn(&mut C) -> bool) {
        self.connections
            .retain_mut(|(connection, since)| since.elapsed() <= KEPT && is_reusable(connection));
    }
}

/// Lets connections go as long as there are any. Where it is dropped before,
/// with the runtime it runs on, the next connection that is kept brings another.
struct Sweeper(Weak<Pool>);

impl Sweeper {
    async fn run(mut self) {
        loop {
            tokio::time::sleep(SWEEP).await;
            let Some(pool) = self.0.upgrade() else {
                return;
            };
            let mut idle = pool.idle();
            idle.sweep(Connection::is_reusable);
            if idle.connections.is_empty() {
                idle.is_swept = false;
                // Nothing is left to say at the end: there may be another by then.
                self.0 = Weak::new();
                return;
            }
        }
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        if let Some(pool) = self.0.upgrade() {
            pool.idle().is_swept = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection is whether it is still good, and a number.
    type Fake = (bool, usize);

    fn good(fake: &mut Fake) -> bool {
        fake.0
    }

    fn numbers(idle: &Idle<Fake>) -> Vec<usize> {
        idle.connections.iter().map(|(fake, _)| fake.1).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_good_one_is_taken_and_old_ones_go() {
        let mut idle = Idle::default();
        for fake in [(true, 1), (true, 2), (false, 3)] {
            idle.put(fake);
        }
        assert_eq!(idle.take(good), Some((true, 2)), "the last good one");
        tokio::time::advance(KEPT / 2).await;
        idle.put((true, 4));
        idle.put((false, 5));
        idle.sweep(good);
        assert_eq!(numbers(&idle), [1, 4], "a closed one goes");
        tokio::time::advance(KEPT / 2 + SWEEP).await;
        idle.sweep(good);
        assert_eq!(numbers(&idle), [4], "an old one goes");
        tokio::time::advance(KEPT).await;
        assert_eq!(idle.take(good), None, "and isn't used");
        assert_eq!(numbers(&idle), [0; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_are_kept_than_a_bound() {
        let mut idle = Idle::default();
        for number in 0..MOST + 2 {
            idle.put((true, number));
        }
        assert_eq!(numbers(&idle), (2..MOST + 2).collect::<Vec<_>>());
    }
}
