//! Event sinks and policy contributors.

use haft_api::boundary::wire::ReviewArgs;
use haft_api::boundary::{LogLevel, Remote, write_event};
use haft_api::{
    Decision, Event, EventSink, ExtensionId, PolicyContributor, PolicyRequest, Result, async_trait,
};

/// Gets every event.
pub(crate) struct Sink(Remote);

impl Sink {
    pub(crate) fn new(remote: Remote) -> Self {
        Self(remote)
    }

    fn send(&self, event: &Event) -> Result<()> {
        let mut blob = Vec::new();
        let arguments = write_event(event, &mut blob)?;
        let call = self.0.call_with("publish", &arguments, &blob, Vec::new());
        call.done_now()
    }
}

impl EventSink for Sink {
    fn publish(&self, event: &Event) {
        if self.0.link().is_closed() {
            return;
        }
        if let Err(error) = self.send(event) {
            let text = format!("an event wasn't taken (event: {}): {error}", event.seq);
            self.0.link().server().log(LogLevel::Warn, &text);
        }
    }
}

/// Has a say in what may run.
pub(crate) struct Policy {
    remote: Remote,
    id: ExtensionId,
}

impl Policy {
    pub(crate) fn new(remote: Remote, id: ExtensionId) -> Self {
        Self { remote, id }
    }
}

#[async_trait]
impl PolicyContributor for Policy {
    fn id(&self) -> &ExtensionId {
        &self.id
    }

    async fn review(&self, request: PolicyRequest) -> Result<Decision> {
        let call = self.remote.call("review", &ReviewArgs { request });
        call.reply().await
    }
}
