//! Limits: no script hangs or ends the host, or keeps its siblings waiting.

mod support;

use std::time::{Duration, Instant};

use haft_api::ToolSource as _;
use support::{World, body, call, calls, run, script, tool};

const LIMIT: Duration = Duration::from_millis(150);
/// Generous: the machine may be busy.
const PROMPTLY: Duration = Duration::from_millis(1500);
/// For work that ends by itself.
const PLENTY: Duration = Duration::from_secs(60);

/// A hostile body beside a sibling that sleeps 5 ms; then the host still works.
async fn hostile(body: &str, words: &str) {
    hostile_within(LIMIT, body, words).await;
}

async fn hostile_within(limit: Duration, body: &str, words: &str) {
    let text = tool("hostile", body) + &tool("nap", "haft.sleep(5) return 'fine'");
    let (_world, host) = script(&text);
    let mut batch = calls(&[("hostile", "{}"), ("nap", "{}")], Some(limit));
    batch[1].context.deadline = Some(haft_api::Deadline::after(limit + 4 * PROMPTLY));
    let outcomes = run(&host, batch).await;
    let outcome = &outcomes[0];
    assert!(outcome.is_error, "{body}: {outcome:?}");
    assert!(outcome.text.contains(words), "{body}: {}", outcome.text);
    assert!(
        outcome.after < limit + PROMPTLY,
        "{body}: {:?}",
        outcome.after
    );
    assert_eq!(outcomes[1].text, "fine", "{body}: {outcomes:?}");
    let again = run(&host, calls(&[("nap", "{}")], Some(PROMPTLY))).await;
    assert_eq!(again[0].text, "fine", "{body}: {again:?}");
}

#[tokio::test]
async fn loops_end_at_the_deadline() {
    let over = "its time was over";
    hostile("while true do end", over).await;
    hostile(
        "while true do pcall(function() while true do end end) end",
        over,
    )
    .await;
    hostile("while true do pcall(error, 'x') end", over).await;
    hostile("while true do pcall(string.rep, 'x', -1) end", over).await;
    hostile(
        "xpcall(function() while true do end end, function() while true do end end)",
        over,
    )
    .await;
    hostile(
        "string.gsub('x', '.', function() while true do end end)",
        over,
    )
    .await;
    hostile("string.gsub('x', '.', function() while true do pcall(function() while true do end end) end end)", over).await;
    hostile(
        "table.sort({ 3, 2, 1 }, function() while true do end end)",
        over,
    )
    .await;
    hostile("coroutine.wrap(function() while true do end end)()", over).await;
    hostile(
        "while true do coroutine.wrap(function() while true do end end)() end",
        over,
    )
    .await;
    hostile(
        "while true do pcall(coroutine.wrap(function() while true do end end)) end",
        over,
    )
    .await;
    hostile(
        "setmetatable({}, { __index = function() while true do end end }).x()",
        over,
    )
    .await;
    hostile(
        "tostring(setmetatable({}, { __tostring = function() while true do end end }))",
        over,
    )
    .await;
    hostile(
        "local x <close> = setmetatable({}, { __close = function() while true do end end })",
        over,
    )
    .await;
    hostile("local x <close> = setmetatable({}, { __close = function() while true do pcall(function() while true do end end) end end }) haft.sleep(1e6)", over).await;
    hostile("haft.sleep(1e6)", over).await;
    hostile("load('while true do end')()", over).await;
    hostile("for _ in function() while true do end end do end", over).await;
    hostile("local function f() return f() end f()", over).await;
    hostile("while true do haft.json.decode('[1]') end", over).await;
}

#[tokio::test]
async fn coroutines_made_while_loading_are_under_the_limits() {
    let text =
        "local forever = function() while true do pcall(function() while true do end end) end end\n\
        local made, wrapped = coroutine.create(forever), coroutine.wrap(forever)\n"
            .to_owned()
            + &tool("made", "coroutine.resume(made)")
            + &tool("wrapped", "wrapped()") + &tool("nap", "haft.sleep(5) return 'fine'");
    let (_world, host) = script(&text);
    for name in ["made", "wrapped"] {
        let mut batch = calls(&[(name, "{}"), ("nap", "{}")], Some(LIMIT));
        batch[1].context.deadline = Some(haft_api::Deadline::after(LIMIT + 4 * PROMPTLY));
        let outcomes = run(&host, batch).await;
        assert!(
            outcomes[0].is_error && outcomes[0].text.contains("its time was over"),
            "{name}: {outcomes:?}"
        );
        assert_eq!(outcomes[1].text, "fine", "{name}: {outcomes:?}");
    }
}

#[tokio::test]
async fn a_coroutine_whose_slice_is_over_is_not_seen_to_yield() {
    // Thousands of slices, so that those of whoever resumed it end meanwhile, too,
    // and in every place where they can.
    let spin = "local co = coroutine.create(function() while true do end end)\n\
                coroutine.resume(co) error('it yielded')";
    let nested = "local inner = coroutine.wrap(function() while true do end end)\n\
                  local outer = coroutine.wrap(function() inner() end)\n\
                  outer() error('it yielded')";
    let (_world, host) = script(&(tool("spin", spin) + &tool("nested", nested)));
    let batch = calls(
        &[("spin", "{}"), ("nested", "{}")],
        Some(Duration::from_secs(3)),
    );
    for outcome in run(&host, batch).await {
        assert!(outcome.text.contains("its time was over"), "{outcome:?}");
    }
}

#[tokio::test]
async fn a_stuck_script_leaves_its_callers_timers_alone() {
    let text = tool("stuck", "table.move({}, 1, 1 << 60, 2)") + &tool("spin", "while true do end");
    let (_world, host) = script(&text);
    host.tools().await.unwrap();
    // The test's own runtime has one thread, the caller's.
    let (ticks, mut ticking) = (
        std::cell::Cell::new(0),
        tokio::time::interval(Duration::from_millis(5)),
    );
    let tick = async {
        loop {
            ticking.tick().await;
            ticks.set(ticks.get() + 1);
        }
    };
    let batch = run(
        &host,
        calls(&[("spin", "{}"), ("stuck", "{}")], Some(LIMIT)),
    );
    let outcomes = tokio::select! {
        outcomes = batch => outcomes,
        () = tick => unreachable!("it ticks for ever"),
    };
    assert!(outcomes.iter().all(|o| o.is_error), "{outcomes:?}");
    // The state is given up half a second after the deadline.
    assert!(ticks.get() > 10, "{}", ticks.get());
}

#[tokio::test]
async fn memory_and_recursion_are_errors_of_their_call() {
    hostile_within(
        PLENTY,
        "local t = {} while true do t[#t + 1] = ('x'):rep(1000000) .. #t end",
        "memory",
    )
    .await;
    hostile_within(PLENTY, "return ('x'):rep(1e9)", "memory").await;
    hostile_within(
        PLENTY,
        "local function f() return 1 + f() end return f()",
        "stack overflow",
    )
    .await;
    hostile_within(
        PLENTY,
        "local function f() return (string.gsub('x', '.', f)) end return f()",
        "stack overflow",
    )
    .await;
}

#[tokio::test]
async fn what_cannot_be_stopped_is_refused_or_given_up() {
    hostile(
        "setmetatable({}, { __gc = function() while true do end end })",
        "__gc",
    )
    .await;
    hostile("os.exit(1)", "can't end the host").await;
    hostile("os.execute('true')", "use haft.process").await;
    hostile("debug.sethook()", "hook").await;
    hostile(
        "load(string.rep('x', 3) .. string.char(27), 'c', 'b')()",
        "nil value",
    )
    .await;
    hostile("string.dump(print)", "nil value").await;
    hostile("return assert(load('\\27Lua'))", "binary").await;
    hostile("coroutine.close(coroutine.running())", "host's own").await;
}

#[tokio::test]
async fn code_that_cannot_be_interrupted_costs_the_state_and_not_the_host() {
    let text = "local n = 0\n".to_owned()
        + &tool("stuck", "table.move({}, 1, 1 << 60, 2)")
        + &tool("nap", "haft.sleep(2000) return 'late'")
        + &tool("count", "n = n + 1 return n");
    let (_world, host) = script(&text);
    assert_eq!(call(&host, "count", "{}").await.text, "1");
    let began = Instant::now();
    let outcomes = run(&host, calls(&[("nap", "{}"), ("stuck", "{}")], Some(LIMIT))).await;
    assert!(began.elapsed() < Duration::from_secs(5));
    for outcome in &outcomes {
        assert!(
            outcome.is_error && outcome.text.contains("given up"),
            "{outcome:?}"
        );
    }
    // A fresh state, loaded from the source.
    assert_eq!(call(&host, "count", "{}").await.text, "1");
}

#[tokio::test]
async fn a_spinner_delays_a_sleeper_by_milliseconds() {
    let text = tool("spin", "local n = 0 while true do n = n + 1 end")
        + &tool("nap", "haft.sleep(5) return 'fine'");
    let (_world, host) = script(&text);
    let batch = calls(
        &[("spin", "{}"), ("nap", "{}")],
        Some(Duration::from_millis(600)),
    );
    let outcomes = run(&host, batch).await;
    assert_eq!(outcomes[1].text, "fine");
    assert!(
        outcomes[1].after < Duration::from_millis(300),
        "{:?}",
        outcomes[1].after
    );
}

#[tokio::test]
async fn many_sleep_at_once() {
    let (_world, host) = script(&tool("nap", "haft.sleep(50) return 'fine'"));
    host.tools().await.unwrap();
    let of: Vec<_> = (0..64).map(|_| ("nap", "{}")).collect();
    let began = Instant::now();
    let outcomes = run(&host, calls(&of, None)).await;
    assert!(outcomes.iter().all(|o| o.text == "fine"));
    assert!(
        began.elapsed() < Duration::from_millis(1000),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn a_call_that_nothing_can_resume_fails_promptly() {
    let text = tool("stranded", "coroutine.yield()") + &tool("nap", "haft.sleep(5) return 'fine'");
    let (_world, host) = script(&text);
    let batch = calls(
        &[("stranded", "{}"), ("nap", "{}")],
        Some(Duration::from_secs(60)),
    );
    let outcomes = run(&host, batch).await;
    assert!(
        outcomes[0].is_error && outcomes[0].text.contains("nothing is left"),
        "{outcomes:?}"
    );
    assert!(outcomes[0].after < Duration::from_secs(5));
    assert_eq!(outcomes[1].text, "fine");
}

#[tokio::test]
async fn waiting_works_in_the_authors_own_coroutines() {
    let check = async |text: &str, expected: &str| {
        let outcome = body(text, Duration::from_secs(5)).await;
        assert_eq!(
            (outcome.text.as_str(), outcome.is_error),
            (expected, false),
            "{text}"
        );
    };
    check(
        "return coroutine.wrap(function() haft.sleep(2) return 'in' end)()",
        "in",
    )
    .await;
    check(
        "local co = coroutine.create(function(a) haft.sleep(2) local b = coroutine.yield(a + 1) haft.sleep(2) return b end)\n\
         local _, one = coroutine.resume(co, 1) local _, two = coroutine.resume(co, 'b')\n\
         return one .. two .. coroutine.status(co)",
        "2bdead",
    ).await;
    check(
        "local function items() return coroutine.wrap(function() for i = 1, 3 do haft.sleep(1) coroutine.yield(i) end end) end\n\
         local sum = 0 for i in items() do sum = sum + i end return sum",
        "6",
    ).await;
    check(
        "return select(2, pcall(function() haft.sleep(1) return 'safe' end))",
        "safe",
    )
    .await;
    check(
        "local t = setmetatable({}, { __index = function() haft.sleep(1) return 'meta' end }) return t.x",
        "meta",
    ).await;
    // An inner coroutine whose slice is over goes on where it was.
    check(
        "local co = coroutine.wrap(function() local n = 0 for i = 1, 3000000 do n = n + 1 end return n end) return co()",
        "3000000",
    ).await;
}

#[tokio::test]
async fn waiting_where_nothing_can_be_suspended_is_a_clear_error() {
    let check = async |text: &str, words: &str| {
        let outcome = body(text, Duration::from_secs(5)).await;
        assert!(
            outcome.is_error && outcome.text.contains(words),
            "{text}: {outcome:?}"
        );
        assert!(outcome.text.contains("t.lua:"), "{outcome:?}");
    };
    check(
        "string.gsub('x', '.', function() haft.sleep(1) end)",
        "`gsub`",
    )
    .await;
    check(
        "table.sort({ 2, 1 }, function() haft.sleep(1) end)",
        "`sort`",
    )
    .await;
    check("return tostring(setmetatable({}, { __tostring = function() haft.sleep(1) return '' end }))", "`tostring`").await;
}

#[tokio::test]
async fn an_interrupt_closes_the_coroutine_and_kills_its_processes() {
    let text = tool(
        "hold",
        "local mark <close> = setmetatable({}, { __close = function() haft.log('closed') end })\n\
         haft.process.output { argv = { 'sleep', '1234.5' } }",
    );
    let world = World::new().file("t.lua", &("--@grants process\n".to_owned() + &text));
    let host = world.start();
    host.tools().await.unwrap();
    let batch = run(&host, calls(&[("hold", "{}")], None));
    let dropped = tokio::time::timeout(Duration::from_millis(500), batch).await;
    assert!(dropped.is_err());
    let began = Instant::now();
    while !world.log.text().contains("closed") || sleeping("1234.5") {
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "{}",
            world.log.text()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Whether a process with this argument is there.
fn sleeping(argument: &str) -> bool {
    std::fs::read_dir("/proc").is_ok_and(|entries| {
        entries.filter_map(Result::ok).any(|entry| {
            std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| {
                line.split(|b| *b == 0)
                    .any(|word| word == argument.as_bytes())
            })
        })
    })
}
