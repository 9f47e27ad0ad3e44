//! What the boundary of shared objects costs, beside the same extension linked
//! in.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;

use haft_api::{
    CallId, EngineRequest, Extension, ExtensionConfig, ExtensionRegistryBuilder, History, Item,
    Registry, RemoteRunnerSession, ThreadId, Tool, ToolCall, ToolContext, ToolRegistry, TurnId,
    raw_json,
};
use haft_bench::{Pair, Result, Sample};
use haft_plugin::{LoadOptions, load};
use haft_plugin_fixture::Fixture;
use tokio::runtime::Runtime;

use crate::agent;
use crate::one_file::OneFile;

const CALLS: u32 = 5_000;
const DELTAS: u32 = 20_000;
const READS: u32 = 50;
const MEBIBYTE: usize = 1024 * 1024;
const LOADS: u32 = 10;

/// The fixture of the loader's tests, as a shared object that is built as it
/// would be shipped.
fn object() -> Result<PathBuf> {
    // <target>/release/haft-bench
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).ok_or("no target folder")?;
    let folder = target.join("bench");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build
        .args(["run", "--quiet", "--package", "xtask", "--", "dylib"])
        .args(["haft-plugin-fixture", "--out"])
        .arg(&folder)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("CARGO_TARGET_DIR", target);
    let output = build.output()?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("the plug-in can't be built: {why}").into());
    }
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    Ok(folder.join(format!("{prefix}haft_plugin_fixture{suffix}")))
}

/// The fixture, on one side of the comparison.
struct Side {
    registry: Registry,
    tools: ToolRegistry,
    tokio: Rc<Runtime>,
}

/// The fixture loaded, and linked in.
fn sides() -> Result<(Side, Side)> {
    let tokio = Rc::new(agent::one_thread()?);
    let plugin = load(&object()?, &LoadOptions::default())?;
    let loaded = plugin.into_extensions();
    let first = loaded.first().ok_or("a plug-in without extensions")?;
    Ok((
        Side::new(first, Rc::clone(&tokio))?,
        Side::new(&Fixture, tokio)?,
    ))
}

impl Side {
    fn new(extension: &dyn Extension, tokio: Rc<Runtime>) -> Result<Self> {
        let mut builder = ExtensionRegistryBuilder::new();
        builder.extension(extension, &ExtensionConfig::empty())?;
        let registry = builder.build()?;
        let mut tools = ToolRegistry::new();
        for contributor in registry.tools() {
            contributor.part.contribute(&mut tools)?;
        }
        Ok(Self {
            registry,
            tools,
            tokio,
        })
    }

    fn tool(&self, name: &str) -> Result<Arc<dyn Tool>> {
        let found = self.tools.get(name).ok_or("no such tool")?;
        Ok(Arc::clone(found))
    }

    fn calls(&self, times: u32, name: &str, arguments: &str, context: &ToolContext) -> Result<()> {
        let (tool, call) = (self.tool(name)?, tool_call(name, arguments)?);
        self.tokio.block_on(async {
            for _ in 0..times {
                tool.execute(call.clone(), context.clone()).await?;
            }
            Ok(())
        })
    }

    fn deltas(&self) -> Result<()> {
        let script = format!(r#"{{"deltas":{DELTAS},"text":"a few words"}}"#);
        let history = History::new(1, vec![Arc::new(Item::user(script))]);
        let request = EngineRequest::new(ThreadId::new("t")?, TurnId::new("u")?, history);
        let engine = self.registry.engine("chatter").ok_or("no such engine")?;
        self.tokio.block_on(async {
            let mut stream = engine.stream_turn(request).await?;
            while let Some(event) = std::future::poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
                event?;
            }
            Ok(())
        })
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

/// Takes samples of the same work on both sides.
fn both(operations: u32, work: impl Fn(&Side) -> Result<()> + Copy + 'static) -> Result<Pair> {
    let (loaded, linked) = sides()?;
    Ok(Pair::of_samples(
        move || Sample::take(operations, || work(&loaded)),
        move || Sample::take(operations, || work(&linked)),
    ))
}

/// A call of a tool that says its argument back.
pub(crate) fn tool_call_pair() -> Result<Pair> {
    both(CALLS, |side| {
        side.calls(CALLS, "echo", r#"{"text":"hello"}"#, &context()?)
    })
}

/// A piece of an engine's text.
pub(crate) fn text_delta() -> Result<Pair> {
    both(DELTAS, Side::deltas)
}

/// A mebibyte of a file of the host's session, read by the plug-in.
pub(crate) fn file() -> Result<Pair> {
    both(READS, |side| {
        let session = Arc::new(OneFile::of(MEBIBYTE)) as Arc<dyn RemoteRunnerSession>;
        let context = context()?.with_workspace(session);
        side.calls(READS, "read", r#"{"path":"a"}"#, &context)
    })
}

/// Loading a file that the system has not loaded yet; the floor reads it.
pub(crate) fn loading() -> Result<Pair> {
    let object = object()?;
    let folder = tempfile::tempdir()?;
    let (mut copies, read) = (0, object.clone());
    let mut fresh = move |object: &Path| -> Result<PathBuf> {
        copies += 1;
        let copy = folder.path().join(format!("{copies}.so"));
        std::fs::copy(object, &copy)?;
        Ok(copy)
    };
    Ok(Pair::of_samples(
        move || {
            let copies: Vec<_> = (0..LOADS).map(|_| fresh(&object)).collect::<Result<_>>()?;
            Sample::take(LOADS, || {
                for copy in &copies {
                    load(copy, &LoadOptions::default())?;
                }
                Ok(())
            })
        },
        move || {
            Sample::take(LOADS, || {
                for _ in 0..LOADS {
                    std::hint::black_box(std::fs::read(&read)?);
                }
                Ok(())
            })
        },
    ))
}
