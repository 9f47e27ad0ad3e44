//! Programs that mean harm: they end, they say why, and nobody else notices.

mod support;

use std::time::{Duration, Instant};

use haft_ext_quickjs::{QuickJsHost, SkillStatus};
use support::{World, batch, call, call_within, calls, run, tools, until};

const LIMIT: Duration = Duration::from_millis(200);

/// A neighbour that beats, and answers.
const NEIGHBOUR: &str = "let beats = 0;
    const tools = [{ name: 'beats', execute: () => beats }];
    function start() { setInterval(() => beats++, 10); }";

/// A skill `bad` with a tool `t` of this body, and its neighbour `good`.
fn world(body: &str) -> World {
    let source = tools(&[
        ("t", body),
        ("ping", "return 'pong';"),
        (
            "sleep",
            "await new Promise((done) => setTimeout(done, 900)); return 'slept';",
        ),
    ]);
    World::new()
        .skill("good", NEIGHBOUR)
        .skill("bad", &source)
        .limits(|limits| limits.wedge_ms = 300)
}

async fn beats(host: &QuickJsHost) -> u64 {
    call(host, "good__beats", "{}").await.text.parse().unwrap()
}

/// The skill takes calls again, by itself or in a fresh runtime.
async fn comes_back(host: &QuickJsHost) {
    let began = Instant::now();
    loop {
        let outcome = call_within(host, "bad__ping", Duration::from_secs(10)).await;
        if outcome.text == "pong" {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{outcome:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_code_is_stopped_at_its_deadline_and_nobody_else_notices() {
    for body in [
        "while (true) {}",
        "for (;;) { try { while (true) {} } catch {} }",
        "try { while (true) {} } finally { while (true) {} }",
        "await null; while (true) {}",
        "await new Promise((done) => setTimeout(done, 5)); while (true) {}",
        "await new Promise((out) => { (async () => { while (1) {} out('ok'); })(); });",
        "return { toJSON() { while (true) {} } };",
        "return { then() { while (true) {} } };",
        "return { get type() { while (true) {} } };",
        "/(a+)+$/.test('a'.repeat(40) + 'b');",
        "[3, 1, 2].sort(() => { while (true) {} });",
        "new Proxy({}, { get() { while (true) {} } }).x;",
        "function* f() { while (true) yield 1; } for (const x of f()) {}",
        "'x'.replace(/x/, () => { while (true) {} });",
        "eval('while (true) {}');",
        "const f = () => { try { f(); } finally { f(); } }; f();",
        "async function f() { while (true) await null; } await f();",
        "const f = () => Promise.resolve().then(f); await f();",
        "const f = () => queueMicrotask(f); f(); await new Promise((done) => setTimeout(done, 1000));",
        "const f = () => { queueMicrotask(f); queueMicrotask(f); }; f(); await new Promise(() => {});",
        "Promise.prototype.then = function () { while (true) {} }; return Promise.resolve(1);",
        "const a = []; while (true) { try { a.push(new Array(1000)); } catch {} }",
    ] {
        let world = world(body);
        let host = world.start();
        host.skills().await;
        let before = beats(&host).await;
        let sibling = tokio::spawn({
            let host = host.clone();
            async move { run(&host, calls(&[("bad__sleep", "{}")], None)).await }
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        let outcome = call_within(&host, "bad__t", LIMIT).await;
        assert!(outcome.is_error, "{body}: {outcome:?}");
        assert!(
            outcome.after < Duration::from_secs(20),
            "{body}: {outcome:?}"
        );
        comes_back(&host).await;
        // It either slept on, or was told that its runtime was given up.
        let told = sibling.await.unwrap().remove(0).text;
        assert!(
            told == "slept" || told.contains("given up"),
            "{body}: {told}"
        );
        let after = beats(&host).await;
        assert!(after > before + 3, "{body}: the neighbour stood still");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_that_cant_be_interrupted_costs_its_runtime_alone() {
    // One call of a native function that takes very long.
    let body = "const big = 3n ** 2000000n; for (;;) big * big * big * big % (big - 7n);";
    let world = world(body);
    let host = world.start();
    host.skills().await;
    let before = beats(&host).await;
    let outcome = call_within(&host, "bad__t", LIMIT).await;
    assert!(outcome.is_error, "{outcome:?}");
    comes_back(&host).await;
    assert!(beats(&host).await > before);
}

#[tokio::test]
async fn endless_code_at_load_in_hooks_and_in_callbacks_is_stopped() {
    let world = World::new()
        .skill("good", NEIGHBOUR)
        .skill("load", "while (true) {}")
        .skill("module", "export default { tools: [] }; await new Promise(() => {});")
        .skill("init", "const tools = []; function init() { while (true) {} }")
        .skill("start", "const tools = []; async function start() { for (;;) await null; }")
        .skill("timer", "const tools = [{ name: 'ping', execute: () => 'pong' }]; setTimeout(() => { while (true) {} }, 1);")
        .limits(|limits| {
            limits.load_ms = 200;
            limits.hook_ms = 200;
            limits.callback_ms = 200;
        });
    let host = world.start();
    host.skills().await;
    for (id, words) in [
        ("load", "time was over"),
        ("module", "nothing can settle"),
        ("init", "`init` was stopped"),
        ("start", "given up"),
    ] {
        let snapshot = host.snapshot(id).unwrap();
        assert_eq!(snapshot.status, SkillStatus::Error, "{id}: {snapshot:?}");
        let why = snapshot.error.unwrap();
        assert!(
            why.contains(words) || why.contains("time was over"),
            "{id}: {why}"
        );
    }
    until("the timer is stopped", || {
        world.log.text().contains("a callback was stopped")
    })
    .await;
    assert_eq!(call(&host, "timer__ping", "{}").await.text, "pong");
    assert_eq!(host.snapshot("good").unwrap().status, SkillStatus::Running);
}

#[tokio::test]
async fn memory_and_stack_over_the_limit_are_errors_the_skill_survives() {
    for (body, words) in [
        (
            "const a = []; while (true) a.push(new Array(1000).fill(0));",
            "memory",
        ),
        ("let s = 'x'; while (true) s += s;", ""),
        ("new Uint8Array(1 << 30);", ""),
        ("function f() { f(); } f();", "stack"),
        (
            "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; return a;",
            "",
        ),
        ("JSON.parse('['.repeat(1e6));", ""),
        (
            "await null; const a = []; while (true) a.push({ a: [1, 2, 3] });",
            "",
        ),
    ] {
        let world = world(body);
        let host = world.start();
        host.skills().await;
        for _ in 0..3 {
            let outcome = call_within(&host, "bad__t", Duration::from_secs(20)).await;
            assert!(
                outcome.is_error && outcome.text.contains(words),
                "{body}: {outcome:?}"
            );
            comes_back(&host).await;
        }
        assert_eq!(host.snapshot("good").unwrap().status, SkillStatus::Running);
    }
}

#[tokio::test]
async fn a_skill_that_keeps_all_its_memory_is_started_anew() {
    let world = world("globalThis.kept = []; while (true) kept.push(new Array(1000).fill(0));");
    let host = world.start();
    host.skills().await;
    let outcome = call_within(&host, "bad__t", Duration::from_secs(20)).await;
    assert!(
        outcome.is_error && outcome.text.contains("memory"),
        "{outcome:?}"
    );
    comes_back(&host).await;
    until("it is told", || {
        world.log.text().contains("memory is used up")
    })
    .await;
}

#[tokio::test]
async fn bombs_of_timers_rejections_and_promises_are_bounded() {
    for body in [
        "for (;;) setTimeout(() => {}, 1e6);",
        "for (let i = 0; i < 20000; i++) Promise.reject(new Error('no ' + i)); return 1;",
        "const all = []; for (let i = 0; i < 10000; i++) all.push(new Promise((done) => setTimeout(done, 5))); await Promise.all(all); return 1;",
        "setInterval(() => {}, 0); setInterval(() => {}, 0); return 1;",
        "for (let i = 0; i < 1000; i++) setTimeout(() => { throw new Error('late ' + i); }, 1); return 1;",
        "for (let i = 0; i < 100; i++) { try { skills.callTool('good', 'beats'); } catch {} } return 1;",
    ] {
        let world = world(body).limits(|limits| limits.pending = 20_000);
        let host = world.start();
        host.skills().await;
        let outcome = call_within(&host, "bad__t", Duration::from_secs(20)).await;
        assert!(
            outcome.text == "1" || outcome.text.contains("QuotaExceededError"),
            "{body}: {outcome:?}"
        );
        comes_back(&host).await;
        let lines = world.log.0.lock().unwrap().len();
        assert!(lines < 5_000, "{body}: {lines} lines");
        assert!(!call(&host, "good__beats", "{}").await.is_error);
    }
}

#[tokio::test]
async fn a_skill_that_breaks_again_and_again_is_left_alone() {
    let world = World::new()
        .skill(
            "bad",
            "const tools = []; function onPing() { const f = () => Promise.resolve().then(f); f(); }",
        )
        .limits(|limits| limits.hook_ms = 100);
    let host = world.start();
    host.skills().await;
    until("it is left alone", || {
        world.log.text().contains("left alone")
    })
    .await;
    assert_eq!(host.snapshot("bad").unwrap().status, SkillStatus::Error);
    // By hand it starts again.
    assert_eq!(
        host.start("bad").await.unwrap().status,
        SkillStatus::Running
    );
}

#[tokio::test]
async fn nothing_of_the_system_can_be_reached() {
    let outcome = call(
        &world(
            "return ['require', 'process', 'Deno', 'std', 'os', 'scriptArgs', 'print', '__loadScript']
               .filter((name) => typeof globalThis[name] !== 'undefined');",
        )
        .start(),
        "bad__t",
        "{}",
    )
    .await;
    assert_eq!(outcome.text, "[]");
    for name in [
        "std",
        "os",
        "fs",
        "node:fs",
        "../good/index.js",
        "/etc/passwd",
        "./../../x.js",
    ] {
        let body = format!("return await import({name:?});");
        let outcome = call(&world(&body).start(), "bad__t", "{}").await;
        assert!(
            outcome.is_error && outcome.text.contains("can't import"),
            "{outcome:?}"
        );
    }
    let outcomes = batch(
        &world("new WebSocket('ws://localhost:1');").start(),
        &[("bad__t", "{}")],
    )
    .await;
    let denied = outcomes[0].text.contains("lacks the grant `network`");
    assert!(outcomes[0].is_error && denied, "{outcomes:?}");
}
