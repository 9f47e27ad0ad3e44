//! Many calls at once, ended anywhere, leave nothing behind.

use std::sync::Arc;
use std::time::Duration;

use haft_api::{EngineRequest, History, Item, ThreadId, TurnId};
use haft_plugin::ServerStats;

mod support;

use support::session::MemorySession;
use support::{Kept, Loaded, context, tool_call, within};

/// How many calls are under way at the same time. Fewer under a tool that slows
/// everything down, as `HAFT_STRESS_CALLS` says.
fn calls() -> usize {
    let set = std::env::var("HAFT_STRESS_CALLS");
    set.ok().and_then(|n| n.parse().ok()).unwrap_or(4_000)
}

/// A cheap sequence of numbers, the same at every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

#[tokio::test]
async fn a_thousand_calls_leave_no_object() {
    let loaded = Loaded::fixture();
    let before = loaded.plugin.stats();
    let (output, session) = (Arc::new(Kept::default()), MemorySession::with("a", "abc"));
    let session = Arc::new(session);
    for _ in 0..1_000 {
        let context = context()
            .with_output(Arc::clone(&output) as _)
            .with_workspace(Arc::clone(&session) as _);
        loaded.text_in(context, "copy", r#"{"path":"a"}"#).await;
    }
    assert_eq!(loaded.plugin.stats(), before);
    assert_eq!(before.host, ServerStats::default());
    assert_eq!(
        (Arc::strong_count(&output), Arc::strong_count(&session)),
        (1, 1)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_calls_at_once_with_random_drops_leave_nothing() {
    // Three plug-ins, of which two are of the same file.
    let fixtures = [
        Loaded::fixture(),
        Loaded::fixture(),
        Loaded::new(&support::Build::Allocator.path()),
    ];
    let registered = fixtures[0].plugin.stats().plugin.objects;
    let (output, session) = (Arc::new(Kept::default()), MemorySession::with("a", "abc"));
    let session = Arc::new(session);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let tools = [
        ("echo", r#"{"text":"x"}"#),
        ("sleep", r#"{"ms":20}"#),
        ("spawn", r#"{"ms":10}"#),
        ("timeout", r#"{"ms":15}"#),
        ("copy", r#"{"path":"a"}"#),
        ("copy_spawned", r#"{"path":"a"}"#),
        ("output", r#"{"text":"y","count":5}"#),
        ("panic_poll", r#"{"text":"stress"}"#),
        ("forever", "{}"),
    ];
    let mut running = Vec::new();
    for index in 0..calls() {
        let loaded = &fixtures[index % fixtures.len()];
        let limit = Duration::from_millis(random.below(60));
        if random.below(10) == 0 {
            let engine = Arc::clone(loaded.registry.engine("chatter").unwrap());
            let script = r#"{"deltas":40,"text":"z","ms":1}"#;
            let history = History::new(1, vec![Arc::new(Item::user(script))]);
            let thread = ThreadId::new(format!("t{index}")).unwrap();
            let request = EngineRequest::new(thread, TurnId::new("u").unwrap(), history);
            running.push(tokio::spawn(async move {
                let read = async {
                    let mut stream = engine.stream_turn(request).await.unwrap();
                    let mut count = 0;
                    while std::future::poll_fn(|cx| stream.as_mut().poll_next(cx))
                        .await
                        .is_some()
                    {
                        count += 1;
                    }
                    count == 41
                };
                tokio::time::timeout(limit, read).await.unwrap_or(true)
            }));
            continue;
        }
        let pick = usize::try_from(random.below(tools.len() as u64)).unwrap();
        let (name, arguments) = tools[pick];
        let tool = loaded.tool(name);
        let context = context()
            .with_output(Arc::clone(&output) as _)
            .with_workspace(Arc::clone(&session) as _);
        running.push(tokio::spawn(async move {
            let call = tool.execute(tool_call(name, arguments), context);
            match tokio::time::timeout(limit, call).await {
                Ok(result) => result.is_ok() != (name == "panic_poll"),
                Err(_) => true,
            }
        }));
    }
    for (index, call) in running.into_iter().enumerate() {
        assert!(within(call).await.unwrap(), "call {index}");
    }
    for loaded in &fixtures {
        loaded.at_rest().await;
        assert_eq!(loaded.plugin.stats().plugin.objects, registered);
    }
    assert_eq!(
        (Arc::strong_count(&output), Arc::strong_count(&session)),
        (1, 1)
    );
}

/// Plug-ins that come and go while they work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plug_ins_are_closed_at_any_moment() {
    let mut random = Random(7);
    for round in 0..20 {
        let loaded = Loaded::fixture();
        let session = Arc::new(MemorySession::with("a", "abc"));
        let mut running = Vec::new();
        for name in ["sleep", "copy", "copy_spawned", "forever", "spawn", "echo"].repeat(5) {
            let tool = loaded.tool(name);
            let context = context().with_workspace(Arc::clone(&session) as _);
            running.push(tokio::spawn(async move {
                let call = tool_call(name, r#"{"path":"a","ms":1}"#);
                drop(tool.execute(call, context).await);
            }));
        }
        tokio::time::sleep(Duration::from_micros(random.below(3_000))).await;
        if round % 2 == 0 {
            loaded.plugin.close();
        } else {
            for call in &running {
                call.abort();
            }
            drop(loaded);
        }
        for call in running {
            let ended = within(call).await;
            assert!(ended.is_ok() || ended.is_err_and(|e| e.is_cancelled()));
        }
        support::eventually("the session is let go of", || {
            Arc::strong_count(&session) == 1
        })
        .await;
    }
}
