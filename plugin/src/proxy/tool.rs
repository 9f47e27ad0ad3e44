//! Tools and tool sources.

use std::sync::Arc;

use haft_api::boundary::wire::{BatchArgs, ExecuteArgs, Nothing, OutputData};
use haft_api::boundary::{MessageRef, Remote, ServedOutcomes, is_unimplemented};
use haft_api::{
    BatchCall, BatchOutcomes, Error, ErrorData, ExtensionId, Result, SlashCommand,
    SlashCommandCall, SlashCommandOutput, Tool, ToolCall, ToolContext, ToolContributor, ToolOutput,
    ToolRegistry, ToolSource, ToolSpec, async_trait,
};

use crate::lend::Lender;

/// A set of tools.
pub(crate) struct Tools(Vec<Arc<OneTool>>);

impl Tools {
    pub(crate) fn new(
        tools: impl IntoIterator<Item = (Remote, ToolSpec)>,
        lender: &Lender,
    ) -> Self {
        let tool = |(remote, spec)| {
            Arc::new(OneTool {
                remote,
                spec,
                lender: lender.clone(),
            })
        };
        Self(tools.into_iter().map(tool).collect())
    }
}

impl ToolContributor for Tools {
    fn contribute(&self, tools: &mut ToolRegistry) -> Result<()> {
        self.0
            .iter()
            .try_for_each(|tool| tools.add(Arc::clone(tool) as Arc<dyn Tool>))
    }
}

struct OneTool {
    remote: Remote,
    spec: ToolSpec,
    lender: Lender,
}

#[async_trait]
impl Tool for OneTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn execute(&self, call: ToolCall, context: ToolContext) -> Result<ToolOutput> {
        let mut lending = self.lender.begin(self.remote.link());
        let context = lending.context(context);
        let arguments = ExecuteArgs { call, context };
        let call = self
            .remote
            .call_with("execute", &arguments, &[], lending.finish());
        drop(arguments);
        call.reply_with(|message: MessageRef<'_>| {
            message.read::<OutputData>()?.into_output(message.blob)
        })
        .await
    }
}

/// Many tools behind one door.
pub(crate) struct Source {
    remote: Remote,
    id: ExtensionId,
    lender: Lender,
}

impl Source {
    pub(crate) fn new(remote: Remote, id: ExtensionId, lender: Lender) -> Self {
        Self { remote, id, lender }
    }
}

#[async_trait]
impl ToolSource for Source {
    fn id(&self) -> &ExtensionId {
        &self.id
    }

    async fn tools(&self) -> Result<Vec<ToolSpec>> {
        self.remote.call("tools", &Nothing {}).reply().await
    }

    async fn problems(&self) -> Vec<Error> {
        let told: Result<Vec<ErrorData>> = self.remote.call("problems", &Nothing {}).reply().await;
        match told {
            Ok(problems) => problems.into_iter().map(Error::from).collect(),
            Err(error) if is_unimplemented(&error) => Vec::new(),
            Err(error) => vec![error],
        }
    }

    async fn commands(&self) -> Result<Vec<SlashCommand>> {
        match self.remote.call("commands", &Nothing {}).reply().await {
            Err(error) if is_unimplemented(&error) => Ok(Vec::new()),
            told => told,
        }
    }

    async fn run_command(&self, call: SlashCommandCall) -> Result<SlashCommandOutput> {
        self.remote.call("run_command", &call).reply().await
    }

    async fn call_batch(
        &self,
        calls: Vec<BatchCall>,
        outcomes: Arc<dyn BatchOutcomes>,
    ) -> Result<()> {
        let mut lending = self.lender.begin(self.remote.link());
        let calls = calls.into_iter().map(|BatchCall { call, context }| {
            let context = lending.context(context);
            ExecuteArgs { call, context }
        });
        let calls = calls.collect();
        let outcomes = lending.lend(Arc::new(ServedOutcomes(outcomes)));
        let arguments = BatchArgs { calls, outcomes };
        let call = self
            .remote
            .call_with("call_batch", &arguments, &[], lending.finish());
        drop(arguments);
        call.done().await
    }
}
