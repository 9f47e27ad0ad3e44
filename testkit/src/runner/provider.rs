//! The provider: sandboxes made, found and fenced.

use std::sync::Arc;

use haft_api::{
    Binding, Destination, ExtensionId, Lease, LeaseRequest, Readiness, RemoteRunnerProvider,
    RemoteRunnerSession, Result, Resumed, RunnerCapabilities, SessionState, async_trait,
};

use super::session::MemorySession;
use super::{MemoryRunner, RunnerOperation};

#[async_trait]
impl RemoteRunnerProvider for MemoryRunner {
    fn id(&self) -> &ExtensionId {
        &self.setup.id
    }

    fn capabilities(&self) -> RunnerCapabilities {
        self.setup.capabilities
    }

    fn default_workspace(&self) -> Option<String> {
        self.setup.default_workspace.clone()
    }

    async fn readiness(&self) -> Readiness {
        self.setup.readiness.clone()
    }

    fn validate(&self, destination: &Destination) -> Result<()> {
        (self.setup.check_config)(destination)
    }

    async fn create(&self, binding: Binding) -> Result<Arc<dyn RemoteRunnerSession>> {
        binding.validate().map_err(|e| e.operation("create"))?;
        self.world.note_creation(&binding);
        let made = async {
            let sandbox = self.world.sandbox_for(&self.setup, &binding)?;
            Ok(MemorySession::attach(self, sandbox, binding.destination.id))
        };
        let session = self.faults.run(RunnerOperation::Create, made).await?;
        Ok(Arc::new(session))
    }

    async fn resume(&self, binding: Binding, state: SessionState) -> Result<Resumed> {
        self.world.note_resumption(&state);
        let found = async {
            let id = &state.session_id;
            let Some(sandbox) = self.world.find(id) else {
                let reason = format!("there is no sandbox {id} any more");
                return Ok(Resumed::Gone { reason });
            };
            sandbox.wake();
            let session = MemorySession::attach(self, sandbox, binding.destination.id);
            Ok(Resumed::Session(Arc::new(session)))
        };
        self.faults.run(RunnerOperation::Resume, found).await
    }

    async fn acquire_lease(
        &self,
        state: SessionState,
        request: LeaseRequest,
    ) -> Result<Option<Arc<dyn Lease>>> {
        if !self.setup.capabilities.leases {
            return Ok(None);
        }
        self.world.leases.note_request(request);
        let acquired = self.world.leases.acquire(&state.session_id, request);
        let held = self
            .faults
            .run(RunnerOperation::AcquireLease, acquired)
            .await?;
        Ok(Some(Arc::new(held.with_faults(&self.faults))))
    }
}
