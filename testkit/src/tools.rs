//! Tools for tests.

use std::fmt;
use std::sync::Arc;

use haft_api::{
    Error, ErrorKind, OutputChannel, Result, Tool, ToolCall, ToolContext, ToolContributor,
    ToolOutput, ToolRegistry, async_trait,
};

mod function;
mod source;
mod track;

#[cfg(test)]
mod tests;

pub use function::FnTool;
pub use source::{BatchSource, Outcome};
pub use track::{ExecutionCounts, Executions};

/// Gives a tool that is made of a [`FnTool`] that one's methods.
macro_rules! made_of_function {
    ($tool:ident) => {
        impl $tool {
            /// Declares other effects than [`Effects::PURE`](haft_api::Effects::PURE).
            #[must_use]
            pub fn effects(self, effects: haft_api::Effects) -> Self {
                Self(self.0.effects(effects))
            }

            /// Sets its own time limit, in milliseconds.
            #[must_use]
            pub fn timeout_ms(self, timeout: u64) -> Self {
                Self(self.0.timeout_ms(timeout))
            }

            /// What was called and what became of it.
            pub fn executions(&self) -> Executions {
                self.0.executions()
            }
        }

        #[async_trait]
        impl Tool for $tool {
            fn spec(&self) -> &haft_api::ToolSpec {
                self.0.spec()
            }

            async fn execute(&self, call: ToolCall, context: ToolContext) -> Result<ToolOutput> {
                self.0.execute(call, context).await
            }
        }
    };
}

/// Says its arguments' text back, as it was given.
#[derive(Debug, Clone)]
pub struct EchoTool(FnTool);

impl EchoTool {
    /// A tool of this name.
    ///
    /// # Panics
    /// If the text isn't a tool's name.
    pub fn new(name: &str) -> Self {
        Self(FnTool::new(name, |call, _| async move {
            Ok(ToolOutput::text(call.arguments.get()))
        }))
    }
}

made_of_function!(EchoTool);

/// Takes `{"ms": N}` milliseconds, or for ever without it, and then says
/// `slept`.
#[derive(Debug, Clone)]
pub struct SleepTool(FnTool);

impl SleepTool {
    /// A tool of this name.
    ///
    /// # Panics
    /// If the text isn't a tool's name.
    pub fn new(name: &str) -> Self {
        #[derive(serde::Deserialize)]
        struct Arguments {
            ms: Option<u64>,
        }
        let function = FnTool::new(name, |call, _| async move {
            match call.parse::<Arguments>()?.ms {
                Some(ms) => tokio::time::sleep(std::time::Duration::from_millis(ms)).await,
                None => std::future::pending().await,
            }
            Ok(ToolOutput::text("slept"))
        });
        Self(
            function
                .schema(r#"{"type":"object","properties":{"ms":{"type":"integer","minimum":0}}}"#),
        )
    }
}

made_of_function!(SleepTool);

/// Always fails.
#[derive(Debug, Clone)]
pub struct FailTool(FnTool);

impl FailTool {
    /// A tool of this name that breaks: its `execute` is an `Err`.
    ///
    /// # Panics
    /// If the text isn't a tool's name.
    pub fn new(name: &str, message: &str) -> Self {
        let message = message.to_owned();
        Self(FnTool::new(name, move |_, _| {
            let error = Error::new(ErrorKind::Unexpected, message.clone());
            async move { Err(error) }
        }))
    }

    /// A tool of this name that tells the model of a failure: its `execute` is
    /// an `Ok` that is an error.
    ///
    /// # Panics
    /// If the text isn't a tool's name.
    pub fn telling(name: &str, message: &str) -> Self {
        let output = ToolOutput::error(message);
        Self(FnTool::new(name, move |_, _| {
            let output = output.clone();
            async move { Ok(output) }
        }))
    }
}

made_of_function!(FailTool);

/// Always panics.
#[derive(Debug, Clone)]
pub struct PanicTool(FnTool);

impl PanicTool {
    /// A tool of this name.
    ///
    /// # Panics
    /// If the text isn't a tool's name.
    pub fn new(name: &str, message: &str) -> Self {
        let message = message.to_owned();
        Self(FnTool::new(name, move |_, _| {
            let message = message.clone();
            async move { panic!("{message}") }
        }))
    }
}

made_of_function!(PanicTool);

/// Says how often it was called: `1`, `2`, …
#[derive(Debug, Clone)]
pub struct CountingTool(FnTool);

impl CountingTool {
    /// A tool of this name.
    ///
    /// # Panics
    /// If the text isn't a tool's name.
    pub fn new(name: &str) -> Self {
        let executions = Executions::new();
        let counted = executions.clone();
        let function = FnTool::new(name, move |_, _| {
            let count = counted.counts().started;
            async move { Ok(ToolOutput::text(count.to_string())) }
        });
        Self(function.with_executions(executions))
    }

    /// How often it was called.
    pub fn count(&self) -> usize {
        self.0.executions().counts().started
    }
}

made_of_function!(CountingTool);

/// Writes bytes to [`ToolContext::output`] and then ends, or hangs.
#[derive(Debug, Clone)]
pub struct OutputTool(FnTool);

impl OutputTool {
    /// A tool of this name that writes each piece as it stands, and returns
    /// nothing besides.
    ///
    /// # Panics
    /// If the text isn't a tool's name.
    pub fn new(
        name: &str,
        pieces: impl IntoIterator<Item = (OutputChannel, impl Into<Vec<u8>>)>,
    ) -> Self {
        Self::then(name, pieces, false)
    }

    /// A tool that writes and then never ends.
    ///
    /// # Panics
    /// If the text isn't a tool's name.
    pub fn hanging(
        name: &str,
        pieces: impl IntoIterator<Item = (OutputChannel, impl Into<Vec<u8>>)>,
    ) -> Self {
        Self::then(name, pieces, true)
    }

    fn then(
        name: &str,
        pieces: impl IntoIterator<Item = (OutputChannel, impl Into<Vec<u8>>)>,
        hangs: bool,
    ) -> Self {
        let pieces: Arc<[(OutputChannel, Vec<u8>)]> = pieces
            .into_iter()
            .map(|(channel, bytes)| (channel, bytes.into()))
            .collect();
        Self(FnTool::new(name, move |_, context: ToolContext| {
            let pieces = Arc::clone(&pieces);
            async move {
                for (channel, bytes) in &*pieces {
                    context.output.write(*channel, bytes);
                    tokio::task::yield_now().await;
                }
                if hangs {
                    std::future::pending::<()>().await;
                }
                Ok(ToolOutput::default())
            }
        }))
    }
}

made_of_function!(OutputTool);

/// Brings a list of tools.
///
/// ```
/// use haft_api::{ToolContributor, ToolRegistry};
/// use haft_testkit::{EchoTool, SleepTool, Tools};
///
/// let tools = Tools::new().with(EchoTool::new("echo")).with(SleepTool::new("sleep"));
/// let mut registry = ToolRegistry::new();
/// tools.contribute(&mut registry)?;
/// assert!(registry.get("echo").is_some());
/// # Ok::<(), haft_api::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Tools(Vec<Arc<dyn Tool>>);

impl Tools {
    /// No tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool.
    #[must_use]
    pub fn with(mut self, tool: impl Tool) -> Self {
        self.0.push(Arc::new(tool));
        self
    }

    /// Adds a tool that is shared with the test.
    #[must_use]
    pub fn with_shared(mut self, tool: Arc<dyn Tool>) -> Self {
        self.0.push(tool);
        self
    }
}

impl fmt::Debug for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.iter().map(|t| &t.spec().name).collect();
        f.debug_tuple("Tools").field(&names).finish()
    }
}

impl ToolContributor for Tools {
    fn contribute(&self, tools: &mut ToolRegistry) -> Result<()> {
        self.0
            .iter()
            .try_for_each(|tool| tools.add(Arc::clone(tool)))
    }
}
