//! Wherever an extension panics, whoever called it gets an error that names the
//! extension, the log a line, and the next call is served.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::StreamExt as _;
use haft_api::{
    BatchCall, BatchOutcomes, CallId, Decision, Durability, Effects, EngineEvent, EngineRequest,
    EngineStream, Error, ErrorKind, ExtensionId, History, InferenceEngine, LeaseRequest,
    ListOptions, ListThreads, MetadataPatch, ModelInfo, NewThread, PolicyContributor,
    PolicyRequest, ProcessId, ProcessSpec, ReadOptions, ReadRange, Readiness, RemoteRunnerProvider,
    RemoteRunnerSession, Result, SlashCommand, SlashCommandCall, SlashCommandOutput, StoreOptions,
    ThreadId, ThreadStore, Tool, ToolCall, ToolContext, ToolName, ToolOutput, ToolSource, ToolSpec,
    TurnId, WriteOptions, async_trait,
};
use haft_testkit::{
    FaultStore, MemoryRunner, MemoryStore, MemoryStoreFactory, RunnerOperation, StoreOperation,
    Tools,
};

mod support;

use support::{Loaded, context, tool_call, within};

/// The panic in `what` was told as it has to be.
fn told(loaded: &Loaded, what: &str, error: &Error) {
    let text = format!("panicked: a bug in {what}");
    assert_eq!(error.kind(), ErrorKind::Unexpected, "{what}: {error}");
    assert!(!error.is_temporary(), "{what}: {error}");
    assert_eq!(error.context_value("extension"), Some("parts"), "{error}");
    assert!(error.to_string().contains(&text), "{what}: {error}");
    assert!(loaded.log.contains(&text), "{what} isn't in the log");
}

/// Each of its methods panics.
struct Broken {
    id: ExtensionId,
    spec: ToolSpec,
}

impl Broken {
    fn new() -> Arc<Self> {
        let name = ToolName::new("broken").unwrap();
        Arc::new(Self {
            id: ExtensionId::new("broken").unwrap(),
            spec: ToolSpec::new(name, "Doesn't work.").effects(Effects::PURE),
        })
    }
}

#[async_trait]
impl Tool for Broken {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn execute(&self, _: ToolCall, _: ToolContext) -> Result<ToolOutput> {
        panic!("a bug in execute")
    }
}

#[async_trait]
impl InferenceEngine for Broken {
    fn id(&self) -> &ExtensionId {
        &self.id
    }

    async fn readiness(&self) -> Readiness {
        panic!("a bug in readiness")
    }

    async fn models(&self) -> Result<Vec<ModelInfo>> {
        panic!("a bug in models")
    }

    async fn model(&self, _: Option<&str>) -> Result<ModelInfo> {
        panic!("a bug in model")
    }

    async fn stream_turn(&self, request: EngineRequest) -> Result<EngineStream> {
        match request.model.as_deref() {
            Some("poll") => Ok(Box::pin(BrokenStream::Poll)),
            Some("drop") => Ok(Box::pin(BrokenStream::Drop)),
            _ => panic!("a bug in stream_turn"),
        }
    }
}

/// A stream that says a word, and then panics when it is polled, or dropped.
enum BrokenStream {
    Poll,
    Said,
    Drop,
}

impl futures::Stream for BrokenStream {
    type Item = Result<EngineEvent>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match *self {
            Self::Poll => *self = Self::Said,
            Self::Said => panic!("a bug in poll_next"),
            Self::Drop => {}
        }
        let text = "word".to_owned();
        Poll::Ready(Some(Ok(EngineEvent::TextDelta { text })))
    }
}

impl Drop for BrokenStream {
    fn drop(&mut self) {
        assert!(!matches!(self, Self::Drop), "a bug in drop");
    }
}

#[async_trait]
impl ToolSource for Broken {
    fn id(&self) -> &ExtensionId {
        &self.id
    }

    async fn tools(&self) -> Result<Vec<ToolSpec>> {
        panic!("a bug in tools")
    }

    async fn problems(&self) -> Vec<Error> {
        panic!("a bug in problems")
    }

    async fn call_batch(&self, _: Vec<BatchCall>, _: Arc<dyn BatchOutcomes>) -> Result<()> {
        panic!("a bug in call_batch")
    }

    async fn commands(&self) -> Result<Vec<SlashCommand>> {
        panic!("a bug in commands")
    }

    async fn run_command(&self, _: SlashCommandCall) -> Result<SlashCommandOutput> {
        panic!("a bug in run_command")
    }
}

#[async_trait]
impl PolicyContributor for Broken {
    fn id(&self) -> &ExtensionId {
        &self.id
    }

    async fn review(&self, _: PolicyRequest) -> Result<Decision> {
        panic!("a bug in review")
    }
}

fn broken() -> Loaded {
    Loaded::in_process(|registry| {
        let broken = Broken::new();
        registry.engine(Arc::clone(&broken) as _);
        registry.tool_source(Arc::clone(&broken) as _);
        registry.policy(Arc::clone(&broken) as _);
        registry.tools(Arc::new(Tools::new().with_shared(broken)));
    })
}

fn request(model: Option<&str>) -> EngineRequest {
    let (thread, turn) = (ThreadId::new("t").unwrap(), TurnId::new("u").unwrap());
    let mut request = EngineRequest::new(thread, turn, History::new(1, Vec::new()));
    request.model = model.map(str::to_owned);
    request
}

#[tokio::test]
async fn in_an_engine() {
    let loaded = broken();
    let engine = loaded.registry.engine("broken").unwrap();
    for _ in 0..2 {
        let error = within(engine.models()).await.unwrap_err();
        told(&loaded, "models", &error);
        let error = within(engine.model(Some("m"))).await.unwrap_err();
        told(&loaded, "model", &error);
        let error = within(engine.stream_turn(request(None))).await.err();
        told(&loaded, "stream_turn", &error.unwrap());
        // What has no error to give says why it isn't ready.
        let Readiness::Unavailable { reason } = within(engine.readiness()).await else {
            panic!("it can't be ready");
        };
        assert!(reason.contains("panicked: a bug in readiness"), "{reason}");
    }
    loaded.at_rest().await;
}

#[tokio::test]
async fn in_a_stream() {
    let loaded = broken();
    let engine = loaded.registry.engine("broken").unwrap();
    for _ in 0..2 {
        let mut stream = within(engine.stream_turn(request(Some("poll"))))
            .await
            .unwrap();
        let word = within(stream.next()).await.unwrap().unwrap();
        assert!(matches!(word, EngineEvent::TextDelta { .. }), "{word:?}");
        let error = within(stream.next()).await.unwrap().unwrap_err();
        told(&loaded, "poll_next", &error);
        assert!(within(stream.next()).await.is_none());
    }
    // Whoever drops a stream can't be given an error.
    let mut stream = within(engine.stream_turn(request(Some("drop"))))
        .await
        .unwrap();
    assert!(within(stream.next()).await.unwrap().is_ok());
    drop(stream);
    assert!(loaded.log.contains("panicked: a bug in drop"));
    loaded.at_rest().await;
}

/// The slots of a batch that nobody fills.
struct Untouched;

impl BatchOutcomes for Untouched {
    fn complete(&self, call: &CallId, _: Result<ToolOutput>) -> bool {
        panic!("{call} is filled")
    }
}

#[tokio::test]
async fn in_a_tool_a_source_and_a_policy() {
    let loaded = broken();
    let source = &loaded.registry.tool_sources()[0].part;
    let policy = &loaded.registry.policies()[0].part;
    for _ in 0..2 {
        let error = loaded.call("broken", "{}").await.unwrap_err();
        told(&loaded, "execute", &error);
        let error = within(source.tools()).await.unwrap_err();
        told(&loaded, "tools", &error);
        let problems = within(source.problems()).await;
        told(&loaded, "problems", &problems[0]);
        let error = within(source.commands()).await.unwrap_err();
        told(&loaded, "commands", &error);
        let command = SlashCommandCall::new("x", "");
        let error = within(source.run_command(command)).await.unwrap_err();
        told(&loaded, "run_command", &error);
        let calls = vec![BatchCall {
            call: tool_call("broken", "{}"),
            context: context(),
        }];
        let error = within(source.call_batch(calls, Arc::new(Untouched))).await;
        told(&loaded, "call_batch", &error.unwrap_err());
        let (thread, turn) = (ThreadId::new("t").unwrap(), TurnId::new("u").unwrap());
        let call = tool_call("broken", "{}");
        let request = PolicyRequest::new(thread, turn, call, Effects::PURE);
        let error = within(policy.review(request)).await.unwrap_err();
        told(&loaded, "review", &error);
    }
    loaded.at_rest().await;
}

/// Two calls that meet before they panic.
struct Meeting {
    spec: ToolSpec,
    together: tokio::sync::Barrier,
}

#[async_trait]
impl Tool for Meeting {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn execute(&self, call: ToolCall, _: ToolContext) -> Result<ToolOutput> {
        self.together.wait().await;
        panic!("a bug in {}", call.id)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_two_tasks_at_once() {
    let loaded = Loaded::in_process(|registry| {
        let name = ToolName::new("meeting").unwrap();
        let meeting = Meeting {
            spec: ToolSpec::new(name, "Meets another call.").effects(Effects::PURE),
            together: tokio::sync::Barrier::new(2),
        };
        registry.tools(Arc::new(Tools::new().with(meeting)));
    });
    for _ in 0..50 {
        let calls = ["one", "other"].map(|id| {
            let tool = loaded.tool("meeting");
            let mut call = tool_call("meeting", "{}");
            call.id = CallId::new(id).unwrap();
            tokio::spawn(async move { tool.execute(call, context()).await })
        });
        for (call, id) in calls.into_iter().zip(["one", "other"]) {
            let error = within(call).await.unwrap().unwrap_err();
            told(&loaded, id, &error);
        }
    }
    loaded.at_rest().await;
}

/// An operation, and what calls it.
type Operation<'a, Op> = (
    Op,
    &'a str,
    Pin<Box<dyn Future<Output = Option<Error>> + 'a>>,
);

fn operation<'a, Op, T>(
    operation: Op,
    name: &'a str,
    call: impl Future<Output = Result<T>> + 'a,
) -> Operation<'a, Op> {
    (operation, name, Box::pin(async { call.await.err() }))
}

#[tokio::test]
async fn in_a_runner() {
    use RunnerOperation as Op;
    let runner = MemoryRunner::new().file("a", "abc");
    let shared = runner.clone();
    let loaded = Loaded::in_process(move |registry| {
        registry.runner(shared.shared());
    });
    let provider: &dyn RemoteRunnerProvider = &*loaded.registry.runners()[0].part;
    let create = || provider.create(runner.binding("d"));
    let session: Arc<dyn RemoteRunnerSession> = within(create()).await.unwrap();
    let state = session.state();
    let process = ProcessId::new("p").unwrap();
    let spec = ProcessSpec::new(process.clone(), vec!["x".to_owned()]);
    let lease = || LeaseRequest {
        acquire_timeout_ms: 1_000,
        lease_timeout_ms: None,
    };
    let held = within(provider.acquire_lease(state.clone(), lease())).await;
    let held = held.unwrap().expect("a lease");

    let operations = [
        operation(Op::Create, "create", create()),
        operation(
            Op::Resume,
            "resume",
            provider.resume(runner.binding("d"), state.clone()),
        ),
        operation(
            Op::AcquireLease,
            "acquire_lease",
            provider.acquire_lease(state.clone(), lease()),
        ),
        operation(Op::ReleaseLease, "release", held.release()),
        operation(
            Op::ReadFile,
            "read_file",
            session.read_file("a", ReadOptions::default()),
        ),
        operation(
            Op::WriteFile,
            "write_file",
            session.write_file("b", b"b".to_vec(), WriteOptions::default()),
        ),
        operation(Op::Metadata, "metadata", session.metadata("a")),
        operation(Op::List, "list", session.list(".", ListOptions::default())),
        operation(Op::Remove, "remove", session.remove("a")),
        operation(Op::MakeDir, "make_dir", session.make_dir("d")),
        operation(
            Op::StartProcess,
            "start_process",
            session.start_process(spec.clone()),
        ),
        operation(
            Op::ReadProcess,
            "read_process",
            session.read_process(&process, None, 10, 0),
        ),
        operation(
            Op::WriteStdin,
            "write_stdin",
            session.write_stdin(&process, None),
        ),
        operation(
            Op::Signal,
            "signal",
            session.signal(&process, haft_api::Signal::Kill),
        ),
        operation(Op::Pause, "pause", session.pause()),
        operation(Op::Detach, "detach", session.detach()),
        operation(Op::Snapshot, "snapshot", session.snapshot()),
        operation(Op::Port, "port", session.port(80)),
        operation(Op::Close, "close", session.close()),
    ];
    for (operation, name, call) in operations {
        let text = format!("a bug in {name}");
        let _ = runner.faults().on(operation).next().panic(text);
        let error = within(call).await.expect(name);
        told(&loaded, name, &error);
    }
    // It still serves.
    let data = within(session.read_file("a", ReadOptions::default())).await;
    assert_eq!(data.unwrap().bytes, b"abc");
    drop((session, held));
    loaded.at_rest().await;
}

#[tokio::test]
async fn in_a_store() {
    use StoreOperation as Op;
    let faulty = FaultStore::new(MemoryStore::new().shared());
    let shared = faulty.shared();
    let loaded = Loaded::in_process(move |registry| {
        registry.store(Arc::new(MemoryStoreFactory::new(Arc::clone(&shared))));
    });
    let factory = &loaded.registry.stores()[0].part;
    let store: Arc<dyn ThreadStore> = within(factory.open(StoreOptions::new("/h"))).await.unwrap();
    let thread = |name: &str| ThreadId::new(name).unwrap();
    let (a, b) = (thread("a"), thread("b"));
    let all = ReadRange::Forward {
        seq: 0,
        limit: None,
    };
    let operations = [
        operation(
            Op::Create,
            "create",
            store.create(NewThread::new(b.clone())),
        ),
        operation(Op::OpenWriter, "open_writer", store.open_writer(&a)),
        operation(Op::Append, "append", async {
            let mut writer = store.create(NewThread::new(thread("c"))).await?;
            writer.append(Vec::new(), Durability::Buffered).await
        }),
        operation(Op::Barrier, "barrier", async {
            let mut writer = store.create(NewThread::new(thread("d"))).await?;
            writer.append(Vec::new(), Durability::Barrier).await
        }),
        operation(Op::PatchMetadata, "patch_metadata", async {
            let mut writer = store.create(NewThread::new(thread("e"))).await?;
            writer.patch_metadata(MetadataPatch::default()).await
        }),
        operation(Op::Close, "close", async {
            let writer = store.create(NewThread::new(thread("f"))).await?;
            writer.close().await
        }),
        operation(Op::Read, "read", store.read(&a, all)),
        operation(Op::Metadata, "metadata", store.metadata(&a)),
        operation(Op::List, "list", store.list(ListThreads::default())),
        operation(Op::Delete, "delete", store.delete(&a)),
    ];
    for (operation, name, call) in operations {
        let text = format!("a bug in {name}");
        let _ = faulty.faults().on(operation).next().panic(text);
        let error = within(call).await.expect(name);
        told(&loaded, name, &error);
    }
    // It still serves.
    within(store.create(NewThread::new(a.clone())))
        .await
        .unwrap();
    assert_eq!(within(store.read(&a, all)).await.unwrap().records.len(), 1);
}
