//! What a call costs, and how many wait at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use haft_api::{
    BatchCall, BatchOutcomes, EngineToolCall, ExtensionRegistryBuilder, PolicyMode, ToolContext,
    ToolOutput, ToolSource,
};
use haft_bench::{Mark, Pair, Result, Sample};
use haft_core::{Runtime, RuntimeOptions, ToolRun};
use haft_ext_store_jsonl::{JsonlConfig, JsonlStore};
use mlua::{Function, Lua, MultiValue};

use super::{Host, Successes, said, tool};

/// Calls of one batch.
const CALLS: u32 = 500;
const NAP: Duration = Duration::from_millis(50);

/// A tool that does nothing; the floor is such a call made by hand.
pub(crate) fn no_op() -> Result<Pair> {
    beside_coroutines("", "function(args, ctx) end", 1)
}

/// A tool that lets others run once; the floor yields once.
pub(crate) fn wait() -> Result<Pair> {
    beside_coroutines(
        "haft.sleep(0)",
        "function(args, ctx) coroutine.yield() end",
        2,
    )
}

/// What a handler would be told of its call.
struct Context {
    _call: ToolContext,
}

impl mlua::UserData for Context {}

fn beside_coroutines(body: &str, floor: &str, resumes: usize) -> Result<Pair> {
    let host = Host::new(&tool("call", body))?;
    let lua = Lua::new();
    let handler: Function = said(lua.load(format!("return {floor}")).eval())?;
    Ok(Pair::of_samples(
        move || {
            batches(|calls| {
                // What a runtime hands over isn't the host's.
                Sample::take(CALLS, || host.run(calls))
            })
        },
        move || {
            batches(|calls| {
                let outcomes: Arc<dyn BatchOutcomes> = Arc::new(Successes::default());
                Sample::take(CALLS, || {
                    calls
                        .into_iter()
                        .try_for_each(|call| by_hand(&lua, &handler, call, resumes, &*outcomes))
                })
            })
        },
    ))
}

/// Twenty batches.
fn batches(run: impl Fn(Vec<BatchCall>) -> Result<Sample>) -> Result<Sample> {
    let mut all = Sample::take(20 * CALLS, || Ok(()))?;
    for _ in 0..20 {
        let sample = run(Host::calls("call", "{}", CALLS as usize)?)?;
        all.cpu += sample.cpu;
        all.wall += sample.wall;
    }
    Ok(all)
}

/// A call in a bare state, on the spot: its arguments read, a context, a
/// coroutine, its result as an output. No limits, no other thread.
fn by_hand(
    lua: &Lua,
    handler: &Function,
    BatchCall { call, context }: BatchCall,
    resumes: usize,
    outcomes: &dyn BatchOutcomes,
) -> Result<()> {
    let arguments: BTreeMap<String, i64> = serde_json::from_str(call.arguments.get())?;
    let arguments = said(lua.create_table_from(arguments))?;
    let context = said(lua.create_userdata(Context { _call: context }))?;
    let thread = said(lua.create_thread(handler.clone()))?;
    let mut values: MultiValue = said(thread.resume((arguments, context)))?;
    for _ in 1..resumes {
        values = said(thread.resume(()))?;
    }
    let text = values.front().map(|value| value.to_string());
    let text = said(text.transpose())?.unwrap_or_default();
    outcomes.complete(&call.id, Ok(ToolOutput::text(text)));
    Ok(())
}

/// A call alone in its batch; the floor is a message to a thread and back.
pub(crate) fn batch_of_one() -> Result<Pair> {
    const TIMES: u32 = 1000;
    let host = Host::new(&tool("call", ""))?;
    let (ask, asked) = std::sync::mpsc::channel::<std::sync::mpsc::Sender<()>>();
    std::thread::spawn(move || asked.into_iter().try_for_each(|answer| answer.send(())));
    Ok(Pair::of_samples(
        move || {
            let mut batches = Vec::new();
            for _ in 0..TIMES {
                batches.push(Host::calls("call", "{}", 1)?);
            }
            Sample::take(TIMES, || host.run_all(batches))
        },
        move || {
            Sample::take(TIMES, || {
                for _ in 0..TIMES {
                    let (answer, answered) = std::sync::mpsc::channel();
                    ask.send(answer)?;
                    answered.recv()?;
                }
                Ok(())
            })
        },
    ))
}

/// The same tool through the runtime: schema, policy, bounds and all; the floor
/// is the host alone.
pub(crate) fn dispatched() -> Result<Pair> {
    let (host, alone) = (Host::new(&tool("call", ""))?, Host::new(&tool("call", ""))?);
    let folder = tempfile::tempdir()?;
    let store = JsonlStore::open(folder.path(), JsonlConfig::default())?;
    let mut registry = ExtensionRegistryBuilder::new();
    registry.tool_source(Arc::new(host.lua.clone()) as Arc<dyn ToolSource>);
    let mut options = RuntimeOptions::default();
    options.local_runner = None;
    let builder = Runtime::builder(registry.build()?).options(options);
    let runtime = builder.build(Arc::new(store))?;
    let call = EngineToolCall {
        id: None,
        name: "call".to_owned(),
        arguments: "{}".to_owned(),
        state: None,
    };
    Ok(Pair::of_samples(
        move || {
            let _keep = &folder;
            let calls = vec![call.clone(); CALLS as usize];
            Sample::take(CALLS, || {
                let run = ToolRun::default().mode(PolicyMode::Bypass);
                let results = host.tokio.block_on(runtime.run_tools(calls, run))?;
                match results.iter().find(|result| result.is_error) {
                    Some(failed) => Err(format!("a call failed: {failed:?}").into()),
                    None => Ok(()),
                }
            })
        },
        move || {
            let batch = Host::calls("call", "{}", CALLS as usize)?;
            Sample::take(CALLS, || alone.run(batch))
        },
    ))
}

/// 64 calls that sleep 50 ms; the floor sleeps once.
pub(crate) fn sleepers_64() -> Result<Pair> {
    sleepers(64)
}

/// 1,000 of them.
pub(crate) fn sleepers_1000() -> Result<Pair> {
    sleepers(1000)
}

fn sleepers(n: usize) -> Result<Pair> {
    let host = Host::new(&tool("nap", &format!("haft.sleep({})", NAP.as_millis())))?;
    Ok(Pair::of_samples(
        move || {
            let batch = Host::calls("nap", "{}", n)?;
            let start = Mark::now();
            host.run(batch)?;
            Ok(start.to(&Mark::now(), 1))
        },
        || {
            Sample::take(1, || {
                std::thread::sleep(NAP);
                Ok(())
            })
        },
    ))
}
