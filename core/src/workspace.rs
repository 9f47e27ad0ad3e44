//! A thread's workspace: found or made when it is first needed, once, and held
//! by one writing tool at a time.

mod lifecycle;
mod locks;
mod provision;

use std::sync::Arc;
use std::time::Duration;

use haft_api::{
    Binding, Error, ErrorKind, Lease, LeaseRequest, RemoteRunnerProvider, RemoteRunnerSession,
    Result, SessionState, async_trait,
};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard};

use crate::guard;
use crate::moment::Moment;
pub(crate) use locks::SessionLocks;
use provision::Provision;

/// Keeps a session's durable handle with its thread.
#[async_trait]
pub(crate) trait StateKeeper: Send + Sync + 'static {
    /// Durable when it returns.
    async fn keep(&self, state: &SessionState) -> Result<()>;

    /// The sandbox of a stored handle is gone for good; a fresh one takes its
    /// place. Durable when it returns.
    async fn lost(&self, reason: &str) -> Result<()>;
}

/// Where a thread's side effects happen.
pub(crate) enum Place {
    /// A runner, by a stored binding.
    Bound {
        provider: Arc<dyn RemoteRunnerProvider>,
        binding: Binding,
        keeper: Arc<dyn StateKeeper>,
    },
    /// The local directory.
    Local {
        provider: Arc<dyn RemoteRunnerProvider>,
        binding: Binding,
    },
    /// Nowhere, and why.
    Nowhere(String),
}

/// See the module's description.
pub(crate) struct Workspace {
    place: Place,
    provision: Provision,
    locks: Arc<SessionLocks>,
    lease_wait: Duration,
}

impl Workspace {
    pub(crate) fn new(
        place: Place,
        stored: Option<SessionState>,
        locks: Arc<SessionLocks>,
        lease_wait: Duration,
    ) -> Self {
        Self {
            place,
            provision: Provision::new(stored),
            locks,
            lease_wait,
        }
    }

    /// The session, made or found if need be.
    pub(crate) async fn session(&self) -> Result<Arc<dyn RemoteRunnerSession>> {
        match &self.place {
            Place::Bound {
                provider,
                binding,
                keeper,
            } => {
                self.provision
                    .session(provider, binding, Some(keeper))
                    .await
            }
            Place::Local { provider, binding } => {
                self.provision.session(provider, binding, None).await
            }
            Place::Nowhere(reason) => Err(Error::new(ErrorKind::Denied, reason.clone())),
        }
    }

    /// The session for one tool: shared with other readers, or alone under the
    /// provider's lease.
    pub(crate) async fn access(&self, exclusive: bool, deadline: Option<Moment>) -> Result<Access> {
        let session = self.session().await?;
        let state = session.state();
        let lock = self.locks.of(&state);
        if !exclusive {
            let held = Held::Shared(lock.read_owned().await);
            return Ok(Access {
                session,
                lease: None,
                _held: held,
            });
        }
        let held = Held::Alone(lock.write_owned().await);
        let (Place::Bound { provider, .. } | Place::Local { provider, .. }) = &self.place else {
            return Ok(Access {
                session,
                lease: None,
                _held: held,
            });
        };
        let request = LeaseRequest {
            acquire_timeout_ms: whole_ms(self.lease_wait).max(1),
            lease_timeout_ms: deadline.map(|deadline| whole_ms(deadline.remaining()).max(1)),
        };
        let id = provider.id().clone();
        let lease = guard::future(id.as_str(), provider.acquire_lease(state, request)).await?;
        Ok(Access {
            session,
            lease,
            _held: held,
        })
    }
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Holds the session's lock; only ever dropped.
enum Held {
    #[expect(dead_code, reason = "held for its destructor")]
    Shared(OwnedRwLockReadGuard<()>),
    #[expect(dead_code, reason = "held for its destructor")]
    Alone(OwnedRwLockWriteGuard<()>),
}

/// A tool's hold on the session.
pub(crate) struct Access {
    session: Arc<dyn RemoteRunnerSession>,
    lease: Option<Arc<dyn Lease>>,
    _held: Held,
}

impl Access {
    pub(crate) fn session(&self) -> &Arc<dyn RemoteRunnerSession> {
        &self.session
    }

    /// Whether the provider fences it.
    pub(crate) fn is_leased(&self) -> bool {
        self.lease.is_some()
    }

    /// Resolves when the lease is lost.
    pub(crate) async fn lost(&self) -> String {
        match &self.lease {
            Some(lease) => lease.lost().await,
            None => std::future::pending().await,
        }
    }

    /// Gives the lease back.
    ///
    /// # Errors
    /// If the fence may still stand.
    pub(crate) async fn release(self) -> Result<()> {
        match &self.lease {
            Some(lease) => guard::future("runner lease", lease.release()).await,
            None => Ok(()),
        }
    }
}
