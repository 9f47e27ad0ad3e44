//! Provisioning: once for all who wait, detached from whoever asked first.

use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use haft_api::{
    Binding, Error, ErrorData, ErrorKind, RemoteRunnerProvider, RemoteRunnerSession, Result,
    Resumed, SessionState,
};

use super::StateKeeper;
use crate::guard;

type Session = Arc<dyn RemoteRunnerSession>;
type Attempt = Shared<BoxFuture<'static, std::result::Result<Session, ErrorData>>>;

/// A workspace's session: none yet, on its way, or there.
pub(super) struct Provision {
    state: Arc<Mutex<State>>,
}

enum State {
    Idle { stored: Option<SessionState> },
    UnderWay(Attempt),
    Live(Session),
}

impl Provision {
    pub(super) fn new(stored: Option<SessionState>) -> Self {
        Self {
            state: Arc::new(Mutex::new(State::Idle { stored })),
        }
    }

    /// The live session. A failed attempt is shared by all who waited for it;
    /// the next call tries again.
    pub(super) async fn session(
        &self,
        provider: &Arc<dyn RemoteRunnerProvider>,
        binding: &Binding,
        keeper: Option<&Arc<dyn StateKeeper>>,
    ) -> Result<Session> {
        let attempt = {
            let mut state = lock(&self.state);
            match &*state {
                State::Live(session) => return Ok(Arc::clone(session)),
                State::UnderWay(attempt) => attempt.clone(),
                State::Idle { stored } => {
                    let attempt = self.start(provider, binding, keeper, stored.clone());
                    *state = State::UnderWay(attempt.clone());
                    attempt
                }
            }
        };
        attempt.await.map_err(Error::from)
    }

    /// The handle of the sandbox that is live, or was.
    pub(super) fn stored(&self) -> Option<SessionState> {
        match &*lock(&self.state) {
            State::Idle { stored } => stored.clone(),
            State::Live(session) => Some(session.state()),
            State::UnderWay(_) => None,
        }
    }

    /// Forgets the live session but not where to find it.
    pub(super) fn set_stored(&self, stored: Option<SessionState>) {
        *lock(&self.state) = State::Idle { stored };
    }

    /// Takes a session that was found otherwise.
    pub(super) fn set_live(&self, session: Session) {
        *lock(&self.state) = State::Live(session);
    }

    /// Takes the live session out.
    pub(super) fn take(&self) -> Option<Session> {
        let mut state = lock(&self.state);
        match std::mem::replace(&mut *state, State::Idle { stored: None }) {
            State::Live(session) => Some(session),
            other => {
                *state = other;
                None
            }
        }
    }

    fn start(
        &self,
        provider: &Arc<dyn RemoteRunnerProvider>,
        binding: &Binding,
        keeper: Option<&Arc<dyn StateKeeper>>,
        stored: Option<SessionState>,
    ) -> Attempt {
        let (provider, binding, keeper) = (
            Arc::clone(provider),
            binding.clone(),
            keeper.map(Arc::clone),
        );
        let state = Arc::clone(&self.state);
        // A task of its own: an interrupt of the turn that asked doesn't strand
        // a sandbox that is half made.
        let task = tokio::spawn(async move {
            let outcome = obtain(&provider, &binding, keeper.as_deref(), stored.clone())
                .await
                .map_err(|error| {
                    error
                        .operation("provision")
                        .context("runner", provider.id())
                        .context("destination", &binding.destination.id)
                        .to_data()
                });
            *lock(&state) = match &outcome {
                Ok(session) => State::Live(Arc::clone(session)),
                Err(_) => State::Idle { stored },
            };
            outcome
        });
        let joined = task.map(|joined| {
            joined.unwrap_or_else(|error| {
                Err(Error::new(ErrorKind::Unexpected, error.to_string()).to_data())
            })
        });
        joined.boxed().shared()
    }
}

/// Finds the stored sandbox again or makes a fresh one, and keeps its handle
/// before anybody may use it.
async fn obtain(
    provider: &Arc<dyn RemoteRunnerProvider>,
    binding: &Binding,
    keeper: Option<&dyn StateKeeper>,
    stored: Option<SessionState>,
) -> Result<Session> {
    let id = provider.id().as_str();
    if let Some(stored) = stored {
        match guard::future(id, provider.resume(binding.clone(), stored)).await? {
            Resumed::Session(session) => {
                keep(keeper, &session).await?;
                return Ok(session);
            }
            Resumed::Gone { reason } => {
                if let Some(keeper) = keeper {
                    keeper.lost(&reason).await?;
                }
            }
        }
    }
    let session = guard::future(id, provider.create(binding.clone())).await?;
    if let Err(error) = keep(keeper, &session).await {
        // Nobody will know of it: it must not stay.
        guard::future(id, session.close()).await.ok();
        return Err(error);
    }
    Ok(session)
}

async fn keep(keeper: Option<&dyn StateKeeper>, session: &Session) -> Result<()> {
    match keeper {
        Some(keeper) => keeper.keep(&session.state()).await,
        None => Ok(()),
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
