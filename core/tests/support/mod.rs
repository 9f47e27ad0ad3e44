//! A runtime made of test doubles.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test binary uses its own part of this"
)]

use std::sync::Arc;

use haft_api::{
    Event, ExtensionId, ExtensionRegistryBuilder, Item, PolicyMode, RemoteRunnerProvider, Result,
    ThreadStore, Tool, ToolResult, ToolSource, ToolSpec,
};
use haft_core::{
    FallbackEngine, Runtime, RuntimeOptions, Subscription, Thread, ThreadOptions, TurnEnd,
    TurnRequest,
};
use haft_testkit::{FaultStore, Journal, MemoryStore, Round, ScriptedEngine, Tools};

/// What a runtime is made of, until [`start`](World::start).
pub struct World {
    pub registry: ExtensionRegistryBuilder,
    pub options: RuntimeOptions,
    tools: Tools,
    engine: ScriptedEngine,
    store: Option<Arc<dyn ThreadStore>>,
    external: Vec<ToolSpec>,
}

/// A runtime, its engine, and all that it stored and published, in order.
pub struct Started {
    pub runtime: Runtime,
    pub engine: Arc<ScriptedEngine>,
    pub store: FaultStore,
    pub journal: Journal,
}

impl World {
    pub fn new(rounds: impl IntoIterator<Item = Round>) -> Self {
        Self::with_engine(ScriptedEngine::new().rounds(rounds))
    }

    pub fn with_engine(engine: ScriptedEngine) -> Self {
        let mut options = RuntimeOptions::default();
        options.local_runner = None;
        Self {
            registry: ExtensionRegistryBuilder::new(),
            options,
            tools: Tools::new(),
            engine,
            store: None,
            external: Vec::new(),
        }
    }

    pub fn tool(mut self, tool: impl Tool) -> Self {
        self.tools = self.tools.with(tool);
        self
    }

    pub fn external(mut self, spec: ToolSpec) -> Self {
        self.external.push(spec);
        self
    }

    pub fn source(mut self, source: &Arc<impl ToolSource>) -> Self {
        self.registry
            .tool_source(Arc::clone(source) as Arc<dyn ToolSource>);
        self
    }

    pub fn runner(mut self, runner: Arc<dyn RemoteRunnerProvider>) -> Self {
        self.registry.runner(runner);
        self
    }

    pub fn options(mut self, set: impl FnOnce(&mut RuntimeOptions)) -> Self {
        set(&mut self.options);
        self
    }

    pub fn store(mut self, store: Arc<dyn ThreadStore>) -> Self {
        self.store = Some(store);
        self
    }

    pub fn start(self) -> Started {
        self.try_start().unwrap()
    }

    pub fn try_start(mut self) -> Result<Started> {
        let journal = Journal::new();
        let engine = Arc::new(self.engine);
        self.registry.engine(Arc::clone(&engine) as Arc<_>);
        self.registry.tools(Arc::new(self.tools));
        self.registry.event_sink(Arc::new(journal.clone()));
        let inner = self.store.unwrap_or_else(|| MemoryStore::new().shared());
        let store = FaultStore::new(inner).with_journal(&journal);
        let registry = self.registry.build()?;
        let builder = Runtime::builder(registry).options(self.options);
        let builder = self
            .external
            .into_iter()
            .fold(builder, |b, spec| b.external_tool(spec));
        let runtime = builder.build(store.shared())?;
        Ok(Started {
            runtime,
            engine,
            store,
            journal,
        })
    }
}

impl Started {
    pub async fn thread(&self) -> Thread {
        self.runtime
            .create_thread(ThreadOptions::default())
            .await
            .unwrap()
    }

    /// One turn on a fresh thread, in `bypass` mode.
    pub async fn turn(&self, text: &str) -> (Thread, TurnEnd) {
        let thread = self.thread().await;
        let end = run(&thread, text).await;
        (thread, end)
    }
}

pub fn engine_id(id: &str) -> ExtensionId {
    ExtensionId::new(id).unwrap()
}

/// An engine to fall back on.
pub fn fallback(engine: &str, model: Option<&str>) -> FallbackEngine {
    FallbackEngine {
        engine: engine_id(engine),
        model: model.map(str::to_owned),
    }
}

pub fn request(text: &str) -> TurnRequest {
    TurnRequest::text(text).mode(PolicyMode::Bypass)
}

/// Runs a turn to its end.
pub async fn run(thread: &Thread, text: &str) -> TurnEnd {
    thread
        .start_turn(request(text))
        .await
        .unwrap()
        .ended()
        .await
}

/// A thread's items, which are valid by the rules of every provider.
pub async fn items(thread: &Thread) -> Vec<Item> {
    let items: Vec<Item> = thread
        .items(None, usize::MAX)
        .await
        .items
        .into_iter()
        .map(|placed| (*placed.item).clone())
        .collect();
    haft_testkit::validate_history(&items).unwrap();
    items
}

/// The results among them.
pub async fn results(thread: &Thread) -> Vec<ToolResult> {
    let results = items(thread)
        .await
        .into_iter()
        .filter_map(|item| match item {
            Item::ToolResult(result) => Some(result),
            _ => None,
        });
    results.collect()
}

/// Each result as `name: text`, with `!` before an error's text.
pub async fn outcomes(thread: &Thread) -> Vec<String> {
    let show = |result: &ToolResult| {
        let mark = if result.is_error { "!" } else { "" };
        format!("{}: {mark}{}", result.name, result.text())
    };
    results(thread).await.iter().map(show).collect()
}

/// Waits for the first event that fits.
pub async fn wait_for(events: &mut Subscription, fits: impl Fn(&Event) -> bool) -> Event {
    loop {
        let next = tokio::time::timeout(std::time::Duration::from_secs(20), events.next());
        let event = next.await.expect("an event that fits, within 20 s");
        if fits(&event) {
            return event;
        }
    }
}
