//! What a case has to do with: a contributor's tools, and ways to call them.

use std::sync::Arc;

use haft_api::{RemoteRunnerSession, Result, Tool, ToolContext, ToolOutput, ToolRegistry};

use super::ToolFixture;
use crate::fixture::{call_id, tool_call, tool_context};
use crate::suite::Unmet;
use crate::suite::expect::ok;
use crate::suite::outcome::settled;

/// A tool, and arguments for it.
pub(super) type Example<'a> = (Arc<dyn Tool>, &'a str);

/// The fixture of one case.
pub(super) struct Subject {
    fixture: ToolFixture,
}

impl Subject {
    pub(super) fn new(fixture: ToolFixture) -> Self {
        Self { fixture }
    }

    /// The tools, contributed anew.
    pub(super) fn tools(&self) -> Result<ToolRegistry, Unmet> {
        let mut tools = ToolRegistry::new();
        let contributed = self.fixture.contributor.contribute(&mut tools);
        ok("contributing tools", contributed)?;
        Ok(tools)
    }

    /// The examples, in order.
    pub(super) fn examples(&self) -> Result<Vec<Example<'_>>, Unmet> {
        let tools = self.tools()?;
        let mut examples = Vec::new();
        for (name, arguments) in &self.fixture.examples {
            let tool = tools
                .get(name)
                .ok_or_else(|| format!("expected an example of a tool, got one of {name:?}"))?;
            examples.push((Arc::clone(tool), arguments.as_str()));
        }
        if examples.is_empty() {
            return Err(Unmet::NotClaimed("the fixture has no examples".to_owned()));
        }
        Ok(examples)
    }

    /// A fresh workspace.
    pub(super) async fn workspace(&self) -> Result<Arc<dyn RemoteRunnerSession>, Unmet> {
        ok("making a workspace", (self.fixture.workspace)().await)
    }
}

/// The context of a call: with the workspace if the tool declares that it needs
/// one.
pub(super) fn context(tool: &dyn Tool, workspace: &Arc<dyn RemoteRunnerSession>) -> ToolContext {
    let context = tool_context();
    match tool.spec().effects.needs_workspace() {
        true => context.with_workspace(Arc::clone(workspace)),
        false => context,
    }
}

/// Runs a call to its end.
pub(super) async fn run(
    tool: &dyn Tool,
    arguments: &str,
    context: ToolContext,
) -> Result<Result<ToolOutput>, Unmet> {
    let name = &tool.spec().name;
    let shown: String = arguments.chars().take(200).collect();
    let mut call = tool_call("conformance", "x", arguments);
    call.id = call_id("conformance-1");
    name.as_str().clone_into(&mut call.name);
    settled(&format!("{name}({shown})"), tool.execute(call, context)).await
}
