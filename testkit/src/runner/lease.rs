//! Leases that a test counts and takes away.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft_api::{Error, ErrorKind, Lease, LeaseRequest, Result, SessionId, async_trait};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::RunnerOperation;
use crate::faults::Faults;
use crate::lock::lock;

/// What became of a runner's leases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseCounts {
    /// Leases that were given.
    pub acquired: usize,
    /// Leases that were given back.
    pub released: usize,
    /// Leases that were dropped without being given back.
    pub dropped: usize,
    /// Leases that were taken away.
    pub lost: usize,
}

/// One lease that was given.
#[derive(Debug)]
struct Held {
    /// When it lapses by itself.
    lapses: Option<Instant>,
    /// Why it was taken away, once it was.
    lost: watch::Sender<Option<String>>,
}

impl Held {
    fn stands(&self) -> bool {
        self.lost.borrow().is_none() && self.lapses.is_none_or(|lapses| Instant::now() < lapses)
    }
}

#[derive(Debug, Default)]
struct Inner {
    requests: Mutex<Vec<LeaseRequest>>,
    fences: Mutex<BTreeMap<SessionId, Arc<Held>>>,
    counts: watch::Sender<LeaseCounts>,
}

/// The fences around all sandboxes.
#[derive(Debug, Clone, Default)]
pub(super) struct Leases(Arc<Inner>);

impl Leases {
    pub(super) fn note_request(&self, request: LeaseRequest) {
        lock(&self.0.requests).push(request);
    }

    pub(super) fn requests(&self) -> Vec<LeaseRequest> {
        lock(&self.0.requests).clone()
    }

    pub(super) fn counts(&self) -> LeaseCounts {
        *self.0.counts.borrow()
    }

    pub(super) async fn wait_until(&self, until: impl Fn(LeaseCounts) -> bool) {
        let mut counts = self.0.counts.subscribe();
        // Can't fail: the sender lives as long as `self`.
        counts.wait_for(|counts| until(*counts)).await.ok();
    }

    pub(super) fn lose_all(&self, reason: &str) {
        let fences = std::mem::take(&mut *lock(&self.0.fences));
        let lost = fences.values().filter(|held| held.stands()).count();
        for held in fences.values() {
            held.lost.send_replace(Some(reason.to_owned()));
        }
        self.0.counts.send_modify(|counts| counts.lost += lost);
    }

    /// Puts up the fence if there is none; otherwise says when to look again.
    fn try_acquire(
        &self,
        session: &SessionId,
        request: LeaseRequest,
    ) -> Result<Arc<Held>, Option<Instant>> {
        let mut fences = lock(&self.0.fences);
        if let Some(other) = fences.get(session)
            && other.stands()
        {
            return Err(other.lapses);
        }
        let time = request.lease_timeout_ms.map(Duration::from_millis);
        let held = Arc::new(Held {
            lapses: time.map(|time| Instant::now() + time),
            lost: watch::Sender::new(None),
        });
        fences.insert(session.clone(), Arc::clone(&held));
        Ok(held)
    }

    pub(super) async fn acquire(
        &self,
        session: &SessionId,
        request: LeaseRequest,
    ) -> Result<MemoryLease> {
        let mut counts = self.0.counts.subscribe();
        let waiting = async {
            loop {
                counts.mark_unchanged();
                match self.try_acquire(session, request) {
                    Ok(held) => return held,
                    Err(Some(lapses)) => {
                        let changed = counts.changed();
                        futures::future::select(Box::pin(sleep_until(lapses)), Box::pin(changed))
                            .await;
                    }
                    Err(None) => drop(counts.changed().await),
                }
            }
        };
        let wait = Duration::from_millis(request.acquire_timeout_ms);
        let held = timeout(wait, waiting).await.map_err(|_| {
            Error::new(ErrorKind::Busy, "somebody else holds the lease")
                .operation("acquire_lease")
                .context("session", session)
                .context("waited ms", request.acquire_timeout_ms)
        })?;
        self.0.counts.send_modify(|counts| counts.acquired += 1);
        Ok(MemoryLease {
            leases: self.clone(),
            session: session.clone(),
            held,
            faults: Faults::new(),
            released: Mutex::new(false),
        })
    }

    /// Takes the fence down, if it is still this one.
    fn take_down(&self, session: &SessionId, held: &Arc<Held>) {
        let mut fences = lock(&self.0.fences);
        if fences
            .get(session)
            .is_some_and(|other| Arc::ptr_eq(other, held))
        {
            fences.remove(session);
        }
    }
}

/// A lease that was given.
pub(super) struct MemoryLease {
    leases: Leases,
    session: SessionId,
    held: Arc<Held>,
    faults: Faults<RunnerOperation>,
    released: Mutex<bool>,
}

impl MemoryLease {
    /// Lets its release fail as the test wants it.
    pub(super) fn with_faults(mut self, faults: &Faults<RunnerOperation>) -> Self {
        self.faults = faults.clone();
        self
    }
}

#[async_trait]
impl Lease for MemoryLease {
    async fn lost(&self) -> String {
        let mut lost = self.held.lost.subscribe();
        let taken = async {
            // Can't fail: the sender lives as long as `self.held`.
            let reason = lost.wait_for(Option::is_some).await.ok();
            reason.and_then(|reason| reason.clone()).unwrap_or_default()
        };
        match self.held.lapses {
            None => taken.await,
            Some(lapses) => {
                match timeout(lapses.saturating_duration_since(Instant::now()), taken).await {
                    Ok(reason) => reason,
                    Err(_) => "the lease has lapsed".to_owned(),
                }
            }
        }
    }

    async fn release(&self) -> Result<()> {
        *lock(&self.released) = true;
        // Counted even if it fails: it was asked for.
        self.leases
            .0
            .counts
            .send_modify(|counts| counts.released += 1);
        let released = async {
            self.leases.take_down(&self.session, &self.held);
            // Wakes who waits for the fence.
            self.leases.0.counts.send_modify(|_| {});
            Ok(())
        };
        self.faults
            .run(RunnerOperation::ReleaseLease, released)
            .await
    }
}

impl Drop for MemoryLease {
    fn drop(&mut self) {
        if !*lock(&self.released) {
            self.leases
                .0
                .counts
                .send_modify(|counts| counts.dropped += 1);
        }
    }
}
