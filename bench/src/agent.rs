//! Haft as a program embeds it: a runtime with one engine, one tool and threads
//! in files; and the work that is given to it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use haft_api::{
    Effects, ExtensionId, ExtensionRegistryBuilder, InferenceEngine, Tool, ToolCall, ToolContext,
    ToolContributor, ToolName, ToolOutput, ToolRegistry, ToolSpec, async_trait,
};
use haft_bench::Result;
use haft_core::{Runtime, RuntimeOptions, Thread, ThreadOptions, TurnEnd, TurnRequest, TurnStatus};
use haft_ext_engine_openai::{OpenAiConfig, OpenAiEngine};
use haft_ext_store_jsonl::{DurabilityPolicy, JsonlConfig, JsonlStore};
use serde::Deserialize;
use tempfile::TempDir;

/// The tool's name.
pub(crate) const TOOL: &str = "read_line";
/// What it says of itself.
pub(crate) const DESCRIPTION: &str = "Reads one line of a file.";
/// Its arguments.
pub(crate) const SCHEMA: &str = r#"{"type":"object","properties":{"path":{"type":"string"},"line":{"type":"integer"}},"required":["path","line"]}"#;
/// What the user says.
pub(crate) const PROMPT: &str = "Read all of the parser, line by line.";

/// The tool's arguments, and the tool.
#[derive(Debug, Deserialize)]
pub(crate) struct ReadLine {
    path: String,
    pub(crate) line: u32,
}

impl ReadLine {
    /// Says something as long as tools' results often are, without touching a
    /// file: it isn't the tool that is measured.
    pub(crate) fn run(&self) -> String {
        let Self { path, line } = self;
        format!(
            "{path}:{line}\n    let token = self.tokens.next().ok_or_else(|| Error::new(\
             \"the input ended within an expression\").at(self.position()))?;\n\
             \x20   self.depth = self.depth.checked_add(1).ok_or(TooDeep)?;\n"
        )
    }
}

/// The runtime of tokio that both sides run on: one thread, as in the `haft`
/// command.
pub(crate) fn one_thread() -> Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    Ok(builder.enable_all().build()?)
}

/// The same for many conversations in one process, as in a server.
pub(crate) fn many_threads() -> Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    Ok(builder.worker_threads(2).enable_all().build()?)
}

/// A runtime of Haft's, its threads in a folder that goes away with it.
pub(crate) struct Agent {
    pub(crate) runtime: Runtime,
    home: TempDir,
}

impl Agent {
    pub(crate) fn new(
        engine: impl InferenceEngine,
        tool: impl Tool,
        durability: DurabilityPolicy,
    ) -> Result<Self> {
        let home = tempfile::tempdir()?;
        let config = JsonlConfig::default().durability(durability);
        let store = JsonlStore::open(home.path(), config)?;
        let mut registry = ExtensionRegistryBuilder::new();
        registry.engine(Arc::new(engine));
        registry.tools(Arc::new(One(Arc::new(tool))));
        let mut options = RuntimeOptions::default();
        options.local_runner = None;
        options.max_rounds = u32::MAX;
        let runtime = Runtime::builder(registry.build()?).options(options);
        let runtime = runtime.build(Arc::new(store))?;
        Ok(Self { runtime, home })
    }

    /// Where its threads are.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// A new thread.
    pub(crate) async fn thread(&self) -> Result<Thread> {
        Ok(self.runtime.create_thread(ThreadOptions::default()).await?)
    }
}

/// An engine for the chat server at this address.
pub(crate) fn engine(address: SocketAddr) -> Result<OpenAiEngine> {
    let config = OpenAiConfig::new(format!("http://{address}/v1"));
    Ok(OpenAiEngine::new(ExtensionId::new("openai")?, config)?)
}

/// Runs a turn and makes sure that it completed.
pub(crate) async fn turn(thread: &Thread, model: &str) -> Result<TurnEnd> {
    let turn = thread
        .start_turn(TurnRequest::text(PROMPT).model(model))
        .await?;
    let end = turn.ended().await;
    match end.status {
        TurnStatus::Completed => Ok(end),
        status => Err(format!("the turn ended as {status:?}: {:?}", end.error).into()),
    }
}

/// The tool of the rounds, as a tool of Haft's.
pub(crate) struct ReadLineTool<F> {
    spec: ToolSpec,
    seen: F,
}

impl<F: Fn(u32) + Send + Sync + 'static> ReadLineTool<F> {
    /// `seen` is told of each call's line.
    pub(crate) fn new(seen: F) -> Result<Self> {
        let spec = ToolSpec::new(ToolName::new(TOOL)?, DESCRIPTION);
        let spec = spec.schema(SCHEMA)?.effects(Effects::PURE);
        Ok(Self { spec, seen })
    }
}

#[async_trait]
impl<F: Fn(u32) + Send + Sync + 'static> Tool for ReadLineTool<F> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn execute(&self, call: ToolCall, _: ToolContext) -> haft_api::Result<ToolOutput> {
        let arguments: ReadLine = call.parse()?;
        (self.seen)(arguments.line);
        Ok(ToolOutput::text(arguments.run()))
    }
}

/// Brings one tool.
struct One(Arc<dyn Tool>);

impl ToolContributor for One {
    fn contribute(&self, tools: &mut ToolRegistry) -> haft_api::Result<()> {
        tools.add(Arc::clone(&self.0))
    }
}
