//! Runner providers and leases. Sessions are the boundary's own: they cross it
//! in both directions.

use std::sync::Arc;

use haft_api::boundary::wire::{
    ContributedRunner, CreateArgs, DestinationArgs, LeaseArgs, LeaseData, LostData, Nothing,
    ResumeArgs, ResumedData, SessionData,
};
use haft_api::boundary::{Remote, SessionProxy, is_unimplemented};
use haft_api::{
    Binding, Destination, Error, ErrorKind, ExtensionId, Lease, LeaseRequest, Readiness,
    RemoteRunnerProvider, RemoteRunnerSession, Result, Resumed, RunnerCapabilities, SessionState,
    async_trait,
};

use super::engine::readiness_from;

pub(crate) struct Provider {
    remote: Remote,
    id: ExtensionId,
    capabilities: RunnerCapabilities,
    default_workspace: Option<String>,
}

impl Provider {
    pub(crate) fn new(remote: Remote, contributed: ContributedRunner) -> Self {
        Self {
            remote,
            id: contributed.id,
            capabilities: contributed.capabilities,
            default_workspace: contributed.default_workspace,
        }
    }

    fn given(&self, object: u64) -> Remote {
        Remote::given(Arc::clone(self.remote.link()), object)
    }

    fn session(&self, data: SessionData) -> Arc<dyn RemoteRunnerSession> {
        let remote = Arc::new(self.given(data.object));
        Arc::new(SessionProxy::new(remote, data))
    }
}

#[async_trait]
impl RemoteRunnerProvider for Provider {
    fn id(&self) -> &ExtensionId {
        &self.id
    }

    fn capabilities(&self) -> RunnerCapabilities {
        self.capabilities
    }

    fn default_workspace(&self) -> Option<String> {
        self.default_workspace.clone()
    }

    async fn readiness(&self) -> Readiness {
        match self.remote.call("readiness", &Nothing {}).reply().await {
            Ok(readiness) => readiness,
            Err(error) => readiness_from(&error),
        }
    }

    async fn explain(&self) -> Option<String> {
        // One that doesn't know the question has nothing to say.
        let call = self.remote.call("explain", &Nothing {});
        call.reply().await.ok().flatten()
    }

    fn validate(&self, destination: &Destination) -> Result<()> {
        let arguments = DestinationArgs {
            destination: destination.clone(),
        };
        match self.remote.call("validate", &arguments).done_now() {
            Err(error) if is_unimplemented(&error) => Ok(()),
            result => result,
        }
    }

    async fn create(&self, binding: Binding) -> Result<Arc<dyn RemoteRunnerSession>> {
        let call = self.remote.call("create", &CreateArgs { binding });
        Ok(self.session(call.reply().await?))
    }

    async fn resume(&self, binding: Binding, state: SessionState) -> Result<Resumed> {
        let call = self.remote.call("resume", &ResumeArgs { binding, state });
        match call.reply().await? {
            ResumedData {
                session: Some(data),
                gone: None,
            } => Ok(Resumed::Session(self.session(data))),
            ResumedData {
                session: None,
                gone: Some(reason),
            } => Ok(Resumed::Gone { reason }),
            _ => Err(
                Error::new(ErrorKind::Corrupt, "a session is either back or gone")
                    .operation("resume")
                    .context("plug-in", self.remote.link().name()),
            ),
        }
    }

    async fn acquire_lease(
        &self,
        state: SessionState,
        request: LeaseRequest,
    ) -> Result<Option<Arc<dyn Lease>>> {
        let arguments = LeaseArgs { state, request };
        let call = self.remote.call("acquire_lease", &arguments);
        match call.reply().await {
            Err(error) if is_unimplemented(&error) => Ok(None),
            result => {
                let LeaseData { lease } = result?;
                let lease = lease.map(|lease| LeaseProxy(self.given(lease)));
                Ok(lease.map(|lease| Arc::new(lease) as Arc<dyn Lease>))
            }
        }
    }
}

struct LeaseProxy(Remote);

#[async_trait]
impl Lease for LeaseProxy {
    async fn lost(&self) -> String {
        match self.0.call("lost", &Nothing {}).reply().await {
            Ok(LostData { reason }) => reason,
            // A fence that can't be watched is none.
            Err(error) => error.to_string(),
        }
    }

    async fn release(&self) -> Result<()> {
        self.0.call("release", &Nothing {}).done().await
    }
}
