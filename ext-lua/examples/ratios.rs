//! Measures the host against floors in the same process, interleaved: prints
//! medians of each and their ratio. `cargo run --release --example ratios`.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that prints measurements"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use haft_api::{
    BatchCall, BatchOutcomes, CallId, Result, ThreadId, ToolCall, ToolContext, ToolOutput,
    ToolSource as _, TurnId, raw_json,
};
use haft_ext_lua::{LuaHost, Settings};
use mlua::{Function, Lua};

const SCRIPT: &str = r#"
local function tool(name, handler)
  haft.register_tool { name = name, description = "x", effects = "pure", handler = handler }
end
tool("noop", function() end)
tool("yield", function() haft.sleep(0) end)
tool("nap", function() haft.sleep(50) end)
tool("take", function(args) end)
local big = haft.json.decode("[" .. ('{"id":12345,"name":"some name here","tags":["a","b"],"ok":true},'):rep(16000) .. "1]")
tool("give", function() return big end)
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
tool("fib", function() fib(25) end)
tool("loop", function() local s = 0 for i = 1, 3000000 do s = s + i % 7 end end)
"#;

struct Count(AtomicUsize);

impl BatchOutcomes for Count {
    fn complete(&self, _: &CallId, outcome: Result<ToolOutput>) -> bool {
        let fine = outcome.is_ok_and(|output| !output.is_error);
        self.0.fetch_add(usize::from(fine), Ordering::Relaxed);
        true
    }
}

async fn batch(host: &LuaHost, name: &str, arguments: &str, n: usize) -> Duration {
    let calls = (0..n)
        .map(|index| BatchCall {
            call: ToolCall {
                id: CallId::new(format!("c{index}")).unwrap(),
                name: name.to_owned(),
                arguments: raw_json(arguments).unwrap(),
                state: None,
            },
            context: ToolContext::new(ThreadId::new("t").unwrap(), TurnId::new("u").unwrap()),
        })
        .collect();
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let began = Instant::now();
    host.call_batch(calls, Arc::clone(&count) as Arc<_>)
        .await
        .unwrap();
    let took = began.elapsed();
    assert_eq!(count.0.load(Ordering::Relaxed), n);
    took
}

fn median(mut of: Vec<Duration>) -> Duration {
    of.sort();
    of[of.len() / 2]
}

fn row(what: &str, floor: Vec<Duration>, host: Vec<Duration>, per: u32) {
    let mut ratios: Vec<f64> = floor
        .iter()
        .zip(&host)
        .map(|(floor, host)| host.as_secs_f64() / floor.as_secs_f64())
        .collect();
    ratios.sort_by(f64::total_cmp);
    println!(
        "{what:34} floor {:>12?}  host {:>12?}  ratio {:.2}",
        median(floor) / per,
        median(host) / per,
        ratios[ratios.len() / 2]
    );
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bench.lua");
    std::fs::write(&path, SCRIPT).unwrap();
    let mut settings = Settings::default();
    settings.paths.push(path);
    settings.reload = Some(false);
    let host = LuaHost::new(settings).unwrap();
    host.tools().await.unwrap();

    let raw = Lua::new();
    let function = |text: &str| -> Function { raw.load(text).eval().unwrap() };
    let noop = function("function() end");
    let yields = function("function() coroutine.yield() end");
    let fib = function(
        "(function() local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end return function() fib(25) end end)()",
    );
    let spin = function("function() local s = 0 for i = 1, 3000000 do s = s + i % 7 end end");
    let coroutines = |f: &Function, n: usize, resumes: usize| {
        let began = Instant::now();
        for _ in 0..n {
            let thread = raw.create_thread(f.clone()).unwrap();
            for _ in 0..resumes {
                thread.resume::<()>(()).unwrap();
            }
        }
        began.elapsed()
    };

    let (mut a, mut b, mut c, mut d) = (vec![], vec![], vec![], vec![]);
    for _ in 0..41 {
        a.push(coroutines(&noop, 500, 1));
        b.push(batch(&host, "noop", "{}", 500).await);
        c.push(coroutines(&yields, 500, 2));
        d.push(batch(&host, "yield", "{}", 500).await);
    }
    row("no-op, a call of a batch of 500", a, b, 500);
    row("one wait, a call of a batch of 500", c, d, 500);

    let mut one = Vec::new();
    for _ in 0..400 {
        one.push(batch(&host, "noop", "{}", 1).await);
    }
    println!("a batch of one, wall: {:?}", median(one));
    for n in [64, 1000] {
        let mut naps = Vec::new();
        for _ in 0..5 {
            naps.push(batch(&host, "nap", "{}", n).await);
        }
        println!("{n} sleeps of 50 ms at once: {:?}", median(naps));
    }

    let item = r#"{"id":12345,"name":"some name here","tags":["a","b"],"ok":true}"#;
    let text = format!(r#"{{"list":[{}]}}"#, vec![item; 16000].join(","));
    let (mut parse, mut take, mut print, mut give) = (vec![], vec![], vec![], vec![]);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    for _ in 0..15 {
        let began = Instant::now();
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        parse.push(began.elapsed());
        drop(read);
        take.push(batch(&host, "take", &text, 1).await);
        let began = Instant::now();
        let written = serde_json::to_string(&value).unwrap();
        print.push(began.elapsed());
        drop(written);
        give.push(batch(&host, "give", "{}", 1).await);
    }
    row("1 MiB of JSON in", parse, take, 1);
    row("1 MiB of JSON out", print, give, 1);

    let (mut a, mut b, mut c, mut d) = (vec![], vec![], vec![], vec![]);
    for _ in 0..15 {
        a.push(coroutines(&fib, 1, 1));
        b.push(batch(&host, "fib", "{}", 1).await);
        c.push(coroutines(&spin, 1, 1));
        d.push(batch(&host, "loop", "{}", 1).await);
    }
    row("limits' tax, recursion", a, b, 1);
    row("limits' tax, a loop", c, d, 1);

    let mut states = Vec::new();
    for _ in 0..21 {
        let mut settings = Settings::default();
        settings.reload = Some(false);
        let fresh = LuaHost::new(settings).unwrap();
        let began = Instant::now();
        fresh.tools().await.unwrap();
        states.push(began.elapsed());
    }
    println!("a state, its thread included: {:?}", median(states));
}
