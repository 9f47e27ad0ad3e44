//! Connections that wait for their next request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Poll;
use std::time::Duration;

use hyper::body::Incoming;
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

/// How long an answer's rest may take that says nothing any more.
const REST: Duration = Duration::from_millis(250);

/// The idle connections to one server.
#[derive(Default)]
pub(super) struct Pool {
    idle: Mutex<Idle<Kept>>,
}

/// A connection, and what is left of its last answer.
struct Kept {
    connection: Connection,
    rest: Option<(Incoming, Instant)>,
}

/// Whether a connection can be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Now,
    /// Its last answer hasn't ended yet.
    Later,
    Never,
}

impl Kept {
    fn usable(&mut self) -> Use {
        if let Some((body, since)) = &mut self.rest {
            match self.connection.poll_rest(body) {
                Poll::Ready(Ok(())) => self.rest = None,
                Poll::Ready(Err(_)) => return Use::Never,
                Poll::Pending if since.elapsed() > REST => return Use::Never,
                Poll::Pending => return Use::Later,
            }
        }
        match self.connection.is_reusable() {
            true => Use::Now,
            false => Use::Never,
        }
    }

    /// The connection once its last answer has ended, if that takes no longer
    /// than it may.
    async fn ended(mut self) -> Option<Connection> {
        if let Some((mut body, since)) = self.rest.take() {
            let read = async { while let Some(Ok(_)) = self.connection.frame(&mut body).await {} };
            tokio::time::timeout_at(since + REST, read).await.ok()?;
        }
        self.connection.is_reusable().then_some(self.connection)
    }
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
    fn idle(&self) -> MutexGuard<'_, Idle<Kept>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection that was used last, of those that are good now; else the
    /// one whose last answer is about to end, once it has.
    pub(super) async fn take(&self) -> Option<Connection> {
        let taken = self.idle().take(Kept::usable)?;
        match taken {
            (kept, Use::Now) => Some(kept.connection),
            // Boxed, for it is rare: every request would carry its room.
            (kept, _) => Box::pin(kept.ended()).await,
        }
    }

    /// Keeps a connection whose answer was read to its end.
    pub(super) fn put(self: &Arc<Self>, mut connection: Connection) {
        if connection.is_reusable() {
            self.keep(Kept {
                connection,
                rest: None,
            });
        }
    }

    /// Keeps a connection whose answer is about to end.
    pub(super) fn put_with_rest(self: &Arc<Self>, connection: Connection, body: Incoming) {
        self.keep(Kept {
            connection,
            rest: Some((body, Instant::now())),
        });
    }

    fn keep(self: &Arc<Self>, kept: Kept) {
        let begin_sweeping = {
            let mut idle = self.idle();
            idle.put(kept);
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
    /// The last one that can be used now, or else the last one that can be used
    /// later; and which of the two it is.
    fn take(&mut self, usable: impl Fn(&mut C) -> Use) -> Option<(C, Use)> {
        let mut later = None;
        let mut at = self.connections.len();
        while at > 0 {
            at -= 1;
            let (connection, since) = &mut self.connections[at];
            if since.elapsed() > KEPT {
                // So are all before it.
                self.connections.drain(..=at);
                later = later.map(|later: usize| later - (at + 1));
                break;
            }
            match usable(connection) {
                Use::Now => return Some((self.connections.remove(at).0, Use::Now)),
                Use::Later => later = later.or(Some(at)),
                Use::Never => {
                    self.connections.remove(at);
                    later = later.map(|later| later - 1);
                }
            }
        }
        later.map(|at| (self.connections.remove(at).0, Use::Later))
    }

    fn put(&mut self, connection: C) {
        if self.connections.len() >= MOST {
            self.connections.remove(0);
        }
        self.connections.push((connection, Instant::now()));
    }

    fn sweep(&mut self, usable: impl Fn(&mut C) -> Use) {
        self.connections.retain_mut(|(connection, since)| {
            since.elapsed() <= KEPT && usable(connection) != Use::Never
        });
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
            idle.sweep(Kept::usable);
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
    type Fake = (Use, usize);

    fn usable(fake: &mut Fake) -> Use {
        fake.0
    }

    fn numbers(idle: &Idle<Fake>) -> Vec<usize> {
        idle.connections.iter().map(|(fake, _)| fake.1).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_good_one_is_taken_and_old_ones_go() {
        let mut idle = Idle::default();
        for fake in [(Use::Now, 1), (Use::Now, 2), (Use::Never, 3)] {
            idle.put(fake);
        }
        let taken = idle.take(usable).unwrap();
        assert_eq!(taken, ((Use::Now, 2), Use::Now), "the last good one");
        tokio::time::advance(KEPT / 2).await;
        idle.put((Use::Now, 4));
        idle.put((Use::Never, 5));
        idle.sweep(usable);
        assert_eq!(numbers(&idle), [1, 4], "a closed one goes");
        tokio::time::advance(KEPT / 2 + SWEEP).await;
        idle.sweep(usable);
        assert_eq!(numbers(&idle), [4], "an old one goes");
        tokio::time::advance(KEPT).await;
        assert_eq!(idle.take(usable), None, "and isn't used");
        assert_eq!(numbers(&idle), [0; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_whose_answer_has_not_ended_is_taken_last() {
        let mut idle = Idle::default();
        for fake in [
            (Use::Now, 1),
            (Use::Later, 2),
            (Use::Never, 3),
            (Use::Later, 4),
        ] {
            idle.put(fake);
        }
        assert_eq!(idle.take(usable), Some(((Use::Now, 1), Use::Now)));
        idle.sweep(usable);
        assert_eq!(numbers(&idle), [2, 4]);
        idle.put((Use::Never, 5));
        assert_eq!(idle.take(usable), Some(((Use::Later, 4), Use::Later)));
        assert_eq!(numbers(&idle), [2]);
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_are_kept_than_a_bound() {
        let mut idle = Idle::default();
        for number in 0..MOST + 2 {
            idle.put((Use::Now, number));
        }
        assert_eq!(numbers(&idle), (2..MOST + 2).collect::<Vec<_>>());
    }
}
