//! What may be done with a workspace as a whole.

use std::sync::Arc;

use haft_api::{Error, ErrorKind, RemoteRunnerSession, Result, Resumed, SessionState};

use super::{Place, Workspace};
use crate::guard;

impl Workspace {
    /// Puts the sandbox to sleep, made first if need be. Its next use wakes it.
    pub(crate) async fn pause(&self) -> Result<SessionState> {
        let session = self.session().await?;
        let state = guard::future("runner session", session.pause()).await?;
        self.let_go_of(state).await
    }

    /// Lets go of the sandbox without ending it.
    pub(crate) async fn detach(&self) -> Result<SessionState> {
        let session = self.session().await?;
        let state = guard::future("runner session", session.detach()).await?;
        self.let_go_of(state).await
    }

    async fn let_go_of(&self, state: SessionState) -> Result<SessionState> {
        if let Place::Bound { keeper, .. } = &self.place {
            keeper.keep(&state).await?;
        }
        self.provision.set_stored(Some(state.clone()));
        Ok(state)
    }

    /// Reattaches to the stored sandbox; never makes one.
    pub(crate) async fn rejoin(&self) -> Result<Arc<dyn RemoteRunnerSession>> {
        let (Place::Bound {
            provider, binding, ..
        }
        | Place::Local { provider, binding }) = &self.place
        else {
            return self.session().await;
        };
        let refuse = |why: String| {
            Error::new(ErrorKind::NotFound, why)
                .operation("rejoin")
                .context("runner", provider.id())
                .context("destination", &binding.destination.id)
        };
        let Some(stored) = self.provision.stored() else {
            return Err(refuse("there is no stored session to rejoin".to_owned()));
        };
        let id = provider.id().as_str();
        match guard::future(id, provider.resume(binding.clone(), stored)).await? {
            Resumed::Gone { reason } => Err(refuse(format!("the session is gone: {reason}"))),
            Resumed::Session(session) => {
                if let Place::Bound { keeper, .. } = &self.place {
                    keeper.keep(&session.state()).await?;
                }
                self.provision.set_live(Arc::clone(&session));
                Ok(session)
            }
        }
    }

    /// Ends the session if there is one.
    ///
    /// # Errors
    /// If the sandbox may still be there.
    pub(crate) async fn close(&self) -> Result<()> {
        match self.provision.take() {
            Some(session) => guard::future("runner session", session.close()).await,
            None => Ok(()),
        }
    }
}
