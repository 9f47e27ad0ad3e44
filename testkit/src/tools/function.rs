//! A tool made of a function.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use haft_api::{Effects, Result, Tool, ToolCall, ToolContext, ToolOutput, ToolSpec, async_trait};

use super::track::Executions;
use crate::fixture::tool_name;

type Function =
    dyn Fn(ToolCall, ToolContext) -> BoxFuture<'static, Result<ToolOutput>> + Send + Sync;

/// A tool made of an async function. Unless told otherwise it is
/// [pure](Effects::PURE) and takes any arguments.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> haft_api::Result<()> {
/// use haft_api::{Effects, Tool, ToolOutput};
/// use haft_testkit::{FnTool, fixture};
///
/// let tool = FnTool::new("shout", |call, _| async move {
///     Ok(ToolOutput::text(call.arguments.get().to_uppercase()))
/// })
/// .effects(Effects::NETWORK);
///
/// let call = fixture::tool_call("c1", "shout", r#"{"a":"b"}"#);
/// let output = tool.execute(call, fixture::tool_context()).await?;
/// assert_eq!(output.parts[0].as_text(), Some(r#"{"A":"B"}"#));
/// assert_eq!(tool.executions().counts().finished, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct FnTool {
    spec: ToolSpec,
    function: Arc<Function>,
    executions: Executions,
}

impl FnTool {
    /// A tool of this name.
    ///
    /// # Panics
    /// If the text isn't a tool's name.
    pub fn new<F, R>(name: &str, function: F) -> Self
    where
        F: Fn(ToolCall, ToolContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<ToolOutput>> + Send + 'static,
    {
        let spec = ToolSpec::new(tool_name(name), format!("The test tool {name}."));
        Self {
            spec: spec.effects(Effects::PURE),
            function: Arc::new(move |call, context| Box::pin(function(call, context))),
            executions: Executions::new(),
        }
    }

    /// Declares other effects.
    #[must_use]
    pub fn effects(mut self, effects: Effects) -> Self {
        self.spec.effects = effects;
        self
    }

    /// Sets what the model is told of it.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.spec.description = description.into();
        self
    }

    /// Sets the schema of its arguments, as JSON text.
    ///
    /// # Panics
    /// If the text is no JSON object.
    #[must_use]
    pub fn schema(mut self, schema: &str) -> Self {
        self.spec = self
            .spec
            .schema(schema)
            .unwrap_or_else(|error| panic!("{schema} stands in a test as a schema: {error}"));
        self
    }

    /// Sets its own time limit, in milliseconds.
    #[must_use]
    pub fn timeout_ms(mut self, timeout: u64) -> Self {
        self.spec.timeout_ms = Some(timeout);
        self
    }

    /// Keeps its executions there: several tools may share one record.
    #[must_use]
    pub fn with_executions(mut self, executions: Executions) -> Self {
        self.executions = executions;
        self
    }

    /// What was called and what became of it.
    pub fn executions(&self) -> Executions {
        self.executions.clone()
    }
}

impl fmt::Debug for FnTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FnTool")
            .field("name", &self.spec.name)
            .field("counts", &self.executions.counts())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Tool for FnTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn execute(&self, call: ToolCall, context: ToolContext) -> Result<ToolOutput> {
        let running = self.executions.start(&call);
        let outcome = (self.function)(call, context).await;
        running.finish();
        outcome
    }
}
