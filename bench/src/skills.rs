//! Skills in JavaScript, beside the bare engine they run on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::memory::Held;
use haft_api::{
    BatchCall, BatchOutcomes, CallId, ThreadId, ToolCall, ToolContext, ToolOutput, ToolSource,
    TurnId, raw_json,
};
use haft_bench::{Pair, Result, Sample};
use haft_ext_quickjs::{QuickJsHost, Settings};
use rquickjs::{Context, Function, Object, Persistent, Runtime};

const SOURCE: &str = r#"
const tools = [
  { name: "sync", execute: (args) => args.n },
  { name: "wait", async execute(args) { await null; return args.n; } },
  { name: "nap", execute: () => new Promise((done) => setTimeout(done, 50)) },
  { name: "take", execute: (args) => args.items.length },
  { name: "give", execute: () => ITEMS },
];
const ITEMS = [];
for (let i = 0; i < 13000; i++) ITEMS.push({ id: i, name: "item number " + i, tags: ["a", "b"], on: true });
"#;
const BATCH: usize = 64;

/// A skill that runs, and a runtime to call it from.
struct World {
    tokio: tokio::runtime::Runtime,
    host: QuickJsHost,
    _folder: tempfile::TempDir,
}

impl World {
    fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let skill = folder.path().join("bench");
        std::fs::create_dir(&skill)?;
        let manifest = r#"{"id":"bench","name":"Bench","runtime":"quickjs"}"#;
        std::fs::write(skill.join("manifest.json"), manifest)?;
        std::fs::write(skill.join("index.js"), SOURCE)?;
        let settings = format!(r#"{{"paths":[{skill:?}],"reload":false}}"#);
        let settings: Settings = serde_json::from_str(&settings)?;
        let tokio = crate::agent::one_thread()?;
        let host = QuickJsHost::new(settings)?;
        let tools = tokio.block_on(host.tools())?;
        if tools.len() != 5 {
            return Err("the skill didn't start".into());
        }
        Ok(Self {
            tokio,
            host,
            _folder: folder,
        })
    }

    /// Calls a tool so many times in one batch.
    fn batch(&self, tool: &str, arguments: &str, count: usize) -> Result<()> {
        let calls = (0..count)
            .map(|number| {
                let context = ToolContext::new(ThreadId::new("bench")?, TurnId::new("bench")?);
                let call = ToolCall {
                    id: CallId::new(format!("c{number}"))?,
                    name: tool.to_owned(),
                    arguments: raw_json(arguments)?,
                    state: None,
                };
                Ok(BatchCall { call, context })
            })
            .collect::<Result<Vec<_>>>()?;
        let outcomes = Arc::new(Fine);
        Ok(self.tokio.block_on(self.host.call_batch(calls, outcomes))?)
    }
}

/// Takes successes.
struct Fine;

impl BatchOutcomes for Fine {
    fn complete(&self, call: &CallId, outcome: haft_api::Result<ToolOutput>) -> bool {
        let fine = outcome.is_ok_and(|output| !output.is_error);
        assert!(fine, "the call {call} failed");
        true
    }
}

/// The bare engine with the same script.
struct Bare {
    tool: Persistent<Function<'static>>,
    context: Context,
    runtime: Runtime,
}

impl Bare {
    fn new(tool: usize) -> Result<Self> {
        let runtime = Runtime::new()?;
        let context = Context::full(&runtime)?;
        let tool = context.with(|ctx| -> rquickjs::Result<_> {
            let _: rquickjs::Value<'_> = ctx.eval(SOURCE)?;
            let found: Object<'_> = ctx.eval(format!("tools[{tool}]"))?;
            let function: Function<'_> = found.get("execute")?;
            Ok(Persistent::save(&ctx, function))
        })?;
        Ok(Self {
            tool,
            context,
            runtime,
        })
    }

    /// A call: JSON in, JSON out.
    fn call(&self, arguments: &str) -> Result<String> {
        let value = self.context.with(|ctx| -> rquickjs::Result<_> {
            let tool = self.tool.clone().restore(&ctx)?;
            let value: rquickjs::Value<'_> = tool.call((ctx.json_parse(arguments)?,))?;
            Ok(Persistent::save(&ctx, value))
        })?;
        while self
            .runtime
            .execute_pending_job()
            .map_err(|_| "a job failed")?
        {}
        self.context.with(|ctx| {
            let mut value = value.restore(&ctx)?;
            if let Some(promise) = value.as_promise() {
                value = promise.result().ok_or("it isn't settled")??;
            }
            let json = ctx.json_stringify(value)?.ok_or("no JSON")?;
            Ok(json.to_string()?)
        })
    }
}

fn calls(tool: &'static str, at: usize) -> Result<Pair> {
    let (world, bare) = (World::new()?, Bare::new(at)?);
    let batches = 16;
    let operations = u32::try_from(BATCH * batches)?;
    Ok(Pair::of_samples(
        move || {
            Sample::take(operations, || {
                (0..batches).try_for_each(|_| world.batch(tool, r#"{"n":1}"#, BATCH))
            })
        },
        move || {
            Sample::take(operations, || {
                (0..operations).try_for_each(|_| bare.call(r#"{"n":1}"#).map(drop))
            })
        },
    ))
}

/// A tool that returns at once, in batches.
pub(crate) fn sync() -> Result<Pair> {
    calls("bench__sync", 0)
}

/// A tool that awaits once, in batches.
pub(crate) fn awaiting() -> Result<Pair> {
    calls("bench__wait", 1)
}

/// A tool that returns at once, one call at a time.
pub(crate) fn single() -> Result<Pair> {
    let (world, bare) = (World::new()?, Bare::new(0)?);
    Pair::of_operations(
        move || world.batch("bench__sync", r#"{"n":1}"#, 1),
        move || bare.call(r#"{"n":1}"#),
    )
}

fn naps(count: usize) -> Result<Pair> {
    let world = World::new()?;
    Ok(Pair::of_samples(
        move || Sample::take(1, || world.batch("bench__nap", "{}", count)),
        || {
            Sample::take(1, || {
                std::thread::sleep(Duration::from_millis(50));
                Ok(())
            })
        },
    ))
}

/// 64 calls that sleep for 50 ms.
pub(crate) fn some_naps() -> Result<Pair> {
    naps(64)
}

/// 10,000 calls that sleep for 50 ms.
pub(crate) fn many_naps() -> Result<Pair> {
    naps(10_000)
}

fn large() -> Result<String> {
    let items: Vec<_> = (0..13_000)
        .map(|id| {
            let name = format!("item number {id}");
            serde_json::json!({ "id": id, "name": name, "tags": ["a", "b"], "on": true })
        })
        .collect();
    Ok(serde_json::json!({ "items": items }).to_string())
}

/// About a megabyte of arguments.
pub(crate) fn json_in() -> Result<Pair> {
    let (world, bare, text) = (World::new()?, Bare::new(3)?, large()?);
    let same = text.clone();
    Ok(Pair::of_samples(
        move || {
            Sample::take(4, || {
                (0..4).try_for_each(|_| world.batch("bench__take", &text, 1))
            })
        },
        move || Sample::take(4, || (0..4).try_for_each(|_| bare.call(&same).map(drop))),
    ))
}

/// About a megabyte of a result; the floor writes the same with serde_json.
pub(crate) fn json_out() -> Result<Pair> {
    let (world, text) = (World::new()?, large()?);
    let value: serde_json::Value = serde_json::from_str(&text)?;
    Ok(Pair::of_samples(
        move || {
            Sample::take(4, || {
                (0..4).try_for_each(|_| world.batch("bench__give", "{}", 1))
            })
        },
        move || {
            Sample::take(4, || {
                for _ in 0..4 {
                    std::hint::black_box(serde_json::to_string(&value["items"])?);
                }
                Ok(())
            })
        },
    ))
}

/// A skill's start and stop; the floor makes and drops the bare engine.
pub(crate) fn start() -> Result<Pair> {
    let folder = tempfile::tempdir()?;
    let skill = folder.path().join("small");
    std::fs::create_dir(&skill)?;
    let manifest = r#"{"id":"small","name":"Small","runtime":"quickjs"}"#;
    std::fs::write(skill.join("manifest.json"), manifest)?;
    std::fs::write(skill.join("index.js"), "const tools = [];")?;
    let settings = format!(r#"{{"paths":[{skill:?}],"reload":false}}"#);
    let host = QuickJsHost::new(serde_json::from_str(&settings)?)?;
    let tokio = crate::agent::one_thread()?;
    tokio.block_on(host.skills());
    Ok(Pair::of_samples(
        move || {
            let _kept = &folder;
            Sample::take(20, || {
                for _ in 0..20 {
                    tokio.block_on(host.stop("small"))?;
                    tokio.block_on(host.start("small"))?;
                }
                Ok(())
            })
        },
        || {
            Sample::take(20, || {
                for _ in 0..20 {
                    drop(Context::full(&Runtime::new()?)?);
                }
                Ok(())
            })
        },
    ))
}

const DEADLINE: Duration = Duration::from_millis(100);

/// Programs that don't end by themselves. A flood of microtasks isn't among them:
/// it costs its runtime, and a skill may lose only so many in a minute.
const HOSTILE: &[&str] = &[
    "while (true) {}",
    "for (;;) { try { while (true) {} } catch {} }",
    "return new Promise((done) => { (async () => { while (true) {} })(); });",
    "return [1, 2].sort(() => { while (true) {} });",
    "return 'x'.replace(/x/, () => { while (true) {} });",
    "return new Promise(() => setInterval(() => {}, 1));",
    "const f = () => { f(); f(); }; try { f(); } catch {} while (true) {}",
];

/// Each of them in a skill of its own, beside a neighbour; the sample is the one
/// that ended last after its deadline, from its start. The floor is the deadline.
pub(crate) fn hostile() -> Result<Pair> {
    let tools = HOSTILE.iter().enumerate().map(|(number, body)| {
        format!("{{ name: 'h{number}', effects: 'pure', timeout_ms: 100, execute() {{ {body} }} }}")
    });
    let tools: Vec<_> = tools.collect();
    let hostile = format!("const tools = [{}];", tools.join(","));
    let neighbour = "const tools = [{ name: 'fine', effects: 'pure', execute: () => 1 }];";
    let world = Skills::new(&[("hostile", &hostile), ("neighbour", neighbour)])?;
    Ok(Pair::of_samples(
        move || {
            let mut worst = Sample::take(1, || Ok(()))?;
            for (number, body) in HOSTILE.iter().enumerate() {
                let tool = format!("hostile__h{number}");
                let sample = Sample::take(1, || {
                    let ended = world.call(&tool, DEADLINE)?;
                    let fine = world.call("neighbour__fine", DEADLINE)?;
                    match ended.is_error && !fine.is_error {
                        true => Ok(()),
                        false => Err(format!("`{body}` or its neighbour ended wrongly").into()),
                    }
                })?;
                if sample.wall > worst.wall {
                    worst = sample;
                }
            }
            Ok(worst)
        },
        || {
            Sample::take(1, || {
                std::thread::sleep(DEADLINE);
                Ok(())
            })
        },
    ))
}

/// Skills of the benchmark's own that run.
struct Skills {
    tokio: tokio::runtime::Runtime,
    host: QuickJsHost,
    _folder: tempfile::TempDir,
}

impl Skills {
    /// Skills of these ids and scripts.
    fn new(skills: &[(&str, &str)]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut paths = Vec::new();
        for (id, script) in skills {
            let place = folder.path().join(id);
            std::fs::create_dir(&place)?;
            let manifest = format!(r#"{{"id":"{id}","name":"{id}","runtime":"quickjs"}}"#);
            std::fs::write(place.join("manifest.json"), manifest)?;
            std::fs::write(place.join("index.js"), script)?;
            paths.push(place);
        }
        let settings = serde_json::json!({ "paths": paths, "reload": false });
        let host = QuickJsHost::new(serde_json::from_value(settings)?)?;
        let tokio = crate::agent::one_thread()?;
        let running = tokio.block_on(host.tools())?.len();
        if running < skills.len() {
            return Err(format!("{running} tools of {} skills", skills.len()).into());
        }
        Ok(Self {
            tokio,
            host,
            _folder: folder,
        })
    }

    fn call(&self, tool: &str, limit: Duration) -> Result<ToolOutput> {
        let (skill, tool) = tool.split_once("__").ok_or("no tool of a skill")?;
        let arguments = raw_json("{}")?;
        let called = self.host.call_tool(skill, tool, arguments, Some(limit));
        Ok(self.tokio.block_on(called)?)
    }
}

/// How many skills there are that nobody calls.
pub(crate) const RESIDENT: u32 = 1_000;
const QUIET: &str = "const tools = [{ name: 't', execute: () => 1 }];";

/// Holds that many skills, of which the first was there before.
pub(crate) fn resident() -> Result<Held> {
    let folder = tempfile::tempdir()?;
    for number in 0..=RESIDENT {
        let place = folder.path().join(format!("s{number}"));
        std::fs::create_dir(&place)?;
        let manifest = format!(r#"{{"id":"s{number}","name":"s","runtime":"quickjs"}}"#);
        std::fs::write(place.join("manifest.json"), manifest)?;
        std::fs::write(place.join("index.js"), QUIET)?;
    }
    let settings = serde_json::json!({ "folders": [folder.path()], "reload": false });
    let host = QuickJsHost::new(serde_json::from_value(settings)?)?;
    let tokio = crate::agent::one_thread()?;
    host.discover();
    tokio.block_on(host.start("s0"))?;
    let mut took = Duration::ZERO;
    let bytes = crate::memory::growth(vec![()], |_| {
        let began = Instant::now();
        for number in 1..=RESIDENT {
            tokio.block_on(host.start(&format!("s{number}")))?;
        }
        took = began.elapsed();
        Ok(())
    })?;
    let took = Some(took);
    Ok(Held { bytes, took })
}

/// Holds as many bare engines with that script.
pub(crate) fn engines() -> Result<Held> {
    let make = || -> Result<(Runtime, Context)> {
        let runtime = Runtime::new()?;
        let context = Context::full(&runtime)?;
        context.with(|ctx| ctx.eval::<(), _>(QUIET))?;
        Ok((runtime, context))
    };
    let began = Instant::now();
    let bytes = crate::memory::growth(vec![make()?], |all| {
        for _ in 0..RESIDENT {
            all.push(make()?);
        }
        Ok(())
    })?;
    let took = Some(began.elapsed());
    Ok(Held { bytes, took })
}

/// Half a second of fifty skills that nobody calls; the floor is a process
/// without them.
pub(crate) fn idle() -> Result<Pair> {
    const TIME: Duration = Duration::from_millis(500);
    let ids: Vec<String> = (0..50).map(|number| format!("s{number}")).collect();
    let script = "const tools = [{ name: 't', execute: () => 1 }]; setInterval(() => {}, 3600000);";
    let skills: Vec<_> = ids.iter().map(|id| (id.as_str(), script)).collect();
    let world = Skills::new(&skills)?;
    // Whoever watches running code falls asleep a second after the last of it.
    std::thread::sleep(Duration::from_millis(1500));
    let wait = || {
        Sample::take(1, || {
            std::thread::sleep(TIME);
            Ok(())
        })
    };
    Ok(Pair::of_samples(
        move || {
            let _keep = &world;
            wait()
        },
        wait,
    ))
}
