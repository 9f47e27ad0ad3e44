//! What a host hands to a tool or a source beside its arguments.

use std::sync::Arc;

use async_trait::async_trait;

use super::link::Remote;
use super::message::{Message, MessageRef};
use super::server::{Reply, Request, Served};
use super::session::{ServedSession, SessionProxy};
use super::wire::{CompleteArgs, Completed, ContextData, OutputData, WriteArgs};
use crate::context::{OutputChannel, OutputSink, ToolContext};
use crate::error::{Error, ErrorKind, Result};
use crate::id::CallId;
use crate::model::{ModelAnswer, ModelRequest, ModelService};
use crate::source::BatchOutcomes;
use crate::tool::ToolOutput;

/// An output sink of the other side.
pub(super) struct SinkProxy(pub(super) Arc<Remote>);

impl OutputSink for SinkProxy {
    fn write(&self, channel: OutputChannel, bytes: &[u8]) {
        let call = self
            .0
            .call_with("write", &WriteArgs { channel }, bytes, Vec::new());
        // It never fails; whoever is gone doesn't want it any more.
        call.done_now().ok();
    }
}

/// An output sink of one's own, for the other side.
pub struct ServedSink(pub Arc<dyn OutputSink>);

impl Served for ServedSink {
    fn call(self: Arc<Self>, request: Request<'_>) -> Result<Reply> {
        Ok(match request.method {
            "write" => {
                let WriteArgs { channel } = request.read()?;
                self.0.write(channel, request.blob());
                Reply::nothing()
            }
            _ => Reply::Unimplemented,
        })
    }
}

/// The slots of a batch at the other side.
pub(super) struct OutcomesProxy(pub(super) Arc<Remote>);

impl BatchOutcomes for OutcomesProxy {
    fn complete(&self, call: &CallId, outcome: Result<ToolOutput>) -> bool {
        let mut blob = Vec::new();
        let (output, error) = match outcome {
            Ok(output) => (Some(OutputData::new(output, &mut blob)), None),
            Err(error) => (None, serde_json::value::to_raw_value(&error.to_data()).ok()),
        };
        let call = call.clone();
        let arguments = CompleteArgs {
            call,
            output,
            error,
        };
        let call = self.0.call_with("complete", &arguments, &blob, Vec::new());
        // A slot that can't be reached isn't filled.
        call.now().is_ok_and(|Completed { accepted }| accepted)
    }
}

/// The slots of a batch of one's own, for the other side.
pub struct ServedOutcomes(pub Arc<dyn BatchOutcomes>);

impl Served for ServedOutcomes {
    fn call(self: Arc<Self>, request: Request<'_>) -> Result<Reply> {
        if request.method != "complete" {
            return Ok(Reply::Unimplemented);
        }
        let CompleteArgs {
            call,
            output,
            error,
        } = request.read()?;
        let outcome = match (output, error) {
            (Some(output), None) => output.into_output(request.blob()),
            (None, Some(error)) => Err(MessageRef {
                json: error.get().as_bytes(),
                blob: &[],
            }
            .read_error()),
            _ => Err(Error::new(
                ErrorKind::Corrupt,
                "an outcome is an output or an error",
            )),
        };
        let accepted = self.0.complete(&call, outcome);
        Reply::value(&Completed { accepted })
    }
}

/// A model of the other side.
struct ModelProxy(Arc<Remote>);

#[async_trait]
impl ModelService for ModelProxy {
    async fn generate(&self, request: ModelRequest) -> Result<ModelAnswer> {
        self.0.call("generate", &request).reply().await
    }
}

/// A model of one's own, for the other side.
struct ServedModel(Arc<dyn ModelService>);

impl Served for ServedModel {
    fn call(self: Arc<Self>, request: Request<'_>) -> Result<Reply> {
        if request.method != "generate" {
            return Ok(Reply::Unimplemented);
        }
        let asked: ModelRequest = request.read()?;
        Ok(Reply::later(async move {
            Message::json(&self.0.generate(asked).await?)
        }))
    }
}

impl ContextData {
    /// A context as it travels. `lend` puts an object where the other side can
    /// call it, and returns its number.
    pub fn new(context: ToolContext, mut lend: impl FnMut(Arc<dyn Served>) -> u64) -> Self {
        let output = lend(Arc::new(ServedSink(context.output)));
        let workspace = context.workspace.map(|session| {
            let mut data = ServedSession::describe(&*session, 0);
            data.object = lend(Arc::new(ServedSession(session)));
            data
        });
        let model = context
            .model
            .map(|model| lend(Arc::new(ServedModel(model))));
        Self {
            thread: context.thread,
            turn: context.turn,
            deadline: context.deadline,
            turn_deadline: context.turn_deadline,
            output: Some(output),
            workspace,
            model,
        }
    }

    /// The context again, its objects called over the boundary.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if the other side is gone.
    pub fn into_context(self, request: &mut Request<'_>) -> Result<ToolContext> {
        let mut context = ToolContext::new(self.thread, self.turn);
        context.deadline = self.deadline;
        context.turn_deadline = self.turn_deadline;
        if let Some(output) = self.output {
            context.output = Arc::new(SinkProxy(request.lent(output)?));
        }
        if let Some(workspace) = self.workspace {
            let remote = request.lent(workspace.object)?;
            context = context.with_workspace(Arc::new(SessionProxy::new(remote, workspace)));
        }
        if let Some(model) = self.model {
            context = context.with_model(Arc::new(ModelProxy(request.lent(model)?)));
        }
        Ok(context)
    }
}
