//! What crossing the boundary costs: prints CPU time of the whole process per
//! operation, beside the same operation on the same extension linked in.
//!
//! ```sh
//! cargo xtask dylib haft-plugin-fixture
//! cargo run --release -p haft-plugin --example figures -- /path/of/libhaft_plugin_fixture.so
//! ```
#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_api::{
    CallId, DestinationId, EngineRequest, Error, ErrorKind, Event, EventBody, Extension,
    ExtensionConfig, ExtensionId, ExtensionRegistryBuilder, FileData, FileKind, FileMetadata,
    History, Item, ListOptions, Listing, ReadOptions, Registry, RemoteRunnerSession, Result,
    RunnerCapabilities, SessionId, SessionState, ThreadId, Tool, ToolCall, ToolContext,
    ToolRegistry, TurnId, WriteOptions, async_trait, raw_json,
};
use haft_plugin::{LoadOptions, load};
use rustix::time::{ClockId, clock_gettime};

const ROUNDS: usize = 7;
const MEBIBYTE: usize = 1024 * 1024;

fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or_default())
}

/// The median of several rounds, in microseconds an operation.
struct Figure {
    cpu: f64,
    wall: f64,
}

async fn measure(operations: u32, mut run: impl AsyncFnMut(u32) -> Result<()>) -> Result<Figure> {
    let (mut cpus, mut walls) = (Vec::new(), Vec::new());
    run(operations / 10 + 1).await?;
    for _ in 0..ROUNDS {
        let (cpu_before, wall_before) = (cpu(), Instant::now());
        run(operations).await?;
        let per = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(operations);
        cpus.push(per(cpu() - cpu_before));
        walls.push(per(wall_before.elapsed()));
    }
    let median = |mut all: Vec<f64>| {
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    Ok(Figure {
        cpu: median(cpus),
        wall: median(walls),
    })
}

/// One side of the comparison.
struct Side {
    registry: Registry,
    tools: ToolRegistry,
}

impl Side {
    fn new(extensions: &[&dyn Extension]) -> Result<Self> {
        let mut builder = ExtensionRegistryBuilder::new();
        for extension in extensions {
            builder.extension(*extension, &ExtensionConfig::empty())?;
        }
        let registry = builder.build()?;
        let mut tools = ToolRegistry::new();
        for contributor in registry.tools() {
            contributor.part.contribute(&mut tools)?;
        }
        Ok(Self { registry, tools })
    }

    fn tool(&self, name: &str) -> Result<&Arc<dyn Tool>> {
        let found = self.tools.get(name);
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, name))
    }

    async fn call(&self, operations: u32) -> Result<()> {
        let tool = self.tool("echo")?;
        let call = tool_call("echo", r#"{"text":"hello"}"#)?;
        let context = context()?;
        for _ in 0..operations {
            tool.execute(call.clone(), context.clone()).await?;
        }
        Ok(())
    }

    async fn deltas(&self, operations: u32) -> Result<()> {
        let script = format!(r#"{{"deltas":{operations},"text":"a few words"}}"#);
        let history = History::new(1, vec![Arc::new(Item::user(script))]);
        let request = EngineRequest::new(ThreadId::new("t")?, TurnId::new("u")?, history);
        let engine = self.registry.engine("chatter");
        let engine = engine.ok_or_else(|| Error::new(ErrorKind::NotFound, "chatter"))?;
        let mut stream = engine.stream_turn(request).await?;
        loop {
            let next = std::future::poll_fn(|cx| stream.as_mut().poll_next(cx)).await;
            match next {
                Some(event) => drop(event?),
                None => return Ok(()),
            }
        }
    }

    async fn read(&self, operations: u32) -> Result<()> {
        let tool = self.tool("read")?;
        let call = tool_call("read", r#"{"path":"a"}"#)?;
        let bytes = vec![7; MEBIBYTE];
        let context = context()?.with_workspace(Arc::new(OneFile(bytes)));
        for _ in 0..operations {
            tool.execute(call.clone(), context.clone()).await?;
        }
        Ok(())
    }

    fn events(&self, operations: u32) -> Result<()> {
        let body = EventBody::MessageDelta {
            text: "a few words".to_owned(),
        };
        let event = Event::new(1, ThreadId::new("t")?, None, 0, body);
        for sink in self.registry.event_sinks() {
            for _ in 0..operations {
                sink.part.publish(&event);
            }
        }
        Ok(())
    }
}

fn tool_call(name: &str, arguments: &str) -> Result<ToolCall> {
    Ok(ToolCall {
        id: CallId::new("c1")?,
        name: name.to_owned(),
        arguments: raw_json(arguments)?,
        state: None,
    })
}

fn context() -> Result<ToolContext> {
    Ok(ToolContext::new(ThreadId::new("t")?, TurnId::new("u")?))
}

struct OneFile(Vec<u8>);

#[async_trait]
impl RemoteRunnerSession for OneFile {
    fn state(&self) -> SessionState {
        SessionState {
            provider_id: ExtensionId::new("one").expect("a valid id"),
            session_id: SessionId::new("file").expect("a valid id"),
            destination_id: DestinationId::new("here").expect("a valid id"),
            snapshot: None,
            metadata: None,
        }
    }
    fn capabilities(&self) -> RunnerCapabilities {
        RunnerCapabilities::default()
    }
    fn workspace(&self) -> &str {
        "/"
    }
    async fn read_file(&self, _: &str, _: ReadOptions) -> Result<FileData> {
        Ok(FileData {
            bytes: self.0.clone(),
            metadata: FileMetadata::new(FileKind::File, self.0.len() as u64, "1"),
        })
    }
    async fn write_file(&self, _: &str, _: Vec<u8>, _: WriteOptions) -> Result<FileMetadata> {
        Err(Error::new(ErrorKind::Denied, "read-only"))
    }
    async fn metadata(&self, path: &str) -> Result<FileMetadata> {
        Ok(self.read_file(path, ReadOptions::default()).await?.metadata)
    }
    async fn list(&self, _: &str, _: ListOptions) -> Result<Listing> {
        Ok(Listing::default())
    }
    async fn remove(&self, _: &str) -> Result<()> {
        Ok(())
    }
    async fn make_dir(&self, _: &str) -> Result<()> {
        Ok(())
    }
    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// Loads copies of the file, so that the system's loader does its work each time.
fn measure_load(path: &Path) -> Result<Figure> {
    let io = |e| Error::io(e, "a copy can't be made");
    let folder = std::env::temp_dir().join(format!("haft-figures-{}", std::process::id()));
    std::fs::create_dir(&folder).map_err(io)?;
    let copies: Vec<PathBuf> = (0..20)
        .map(|index| folder.join(format!("{index}.so")))
        .collect();
    for copy in &copies {
        std::fs::copy(path, copy).map_err(io)?;
    }
    let (cpu_before, wall_before) = (cpu(), Instant::now());
    let loaded: Vec<_> = copies
        .iter()
        .map(|copy| load(copy, &LoadOptions::default()))
        .collect::<std::result::Result<_, _>>()?;
    let per = |time: Duration| time.as_secs_f64() * 1e6 / copies.len() as f64;
    let figure = Figure {
        cpu: per(cpu() - cpu_before),
        wall: per(wall_before.elapsed()),
    };
    drop(loaded);
    std::fs::remove_dir_all(&folder).map_err(io)?;
    Ok(figure)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let Some(path) = std::env::args_os().nth(1).map(PathBuf::from) else {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            "give the path of the fixture's shared object",
        ));
    };
    let plugin = load(&path, &LoadOptions::default())?;
    let extensions: Vec<_> = plugin.extensions().map(|e| e as &dyn Extension).collect();
    let plugged = Side::new(&extensions)?;
    let linked = Side::new(&[&haft_plugin_fixture::Fixture])?;

    println!("{} ({})", path.display(), plugin.info().build_info);
    println!(
        "{:24} {:>12} {:>12} {:>12}",
        "µs an operation", "linked CPU", "plug-in CPU", "plug-in wall"
    );
    let show = |name: &str, linked: &Figure, plugged: &Figure| {
        println!(
            "{name:24} {:12.3} {:12.3} {:12.3}",
            linked.cpu, plugged.cpu, plugged.wall
        );
    };
    macro_rules! both {
        ($name:literal, $operations:literal, $run:ident) => {
            show(
                $name,
                &measure($operations, async |n| linked.$run(n).await).await?,
                &measure($operations, async |n| plugged.$run(n).await).await?,
            );
        };
    }
    both!("tool call", 100_000, call);
    both!("text delta", 300_000, deltas);
    both!("1 MiB of a file", 1_000, read);
    show(
        "event",
        &measure(300_000, async |n| linked.events(n)).await?,
        &measure(300_000, async |n| plugged.events(n)).await?,
    );
    let load = measure_load(&path)?;
    println!(
        "{:24} {:>12} {:12.3} {:12.3}",
        "load", "", load.cpu, load.wall
    );
    Ok(())
}
