//! The module `luv`: scripts written for it run unchanged.

mod support;

use std::time::Duration;

use haft_ext_lua::Grants;
use support::{World, call, calls, run, tool};

const SECOND: Duration = Duration::from_secs(1);

async fn check(body: &str, expected: &str) {
    let text = "local uv = require('luv')\n".to_owned() + &tool("t", body);
    let world = World::new().file("t.lua", &text).grant("t", Grants::all());
    let host = world.start();
    let outcome = run(&host, calls(&[("t", "{}")], Some(SECOND * 10)))
        .await
        .remove(0);
    assert_eq!(
        (outcome.text.as_str(), outcome.is_error),
        (expected, false),
        "{body}\n{}",
        world.log.text()
    );
}

#[tokio::test]
async fn a_coroutine_is_resumed_from_a_callback() {
    check(
        "local co = coroutine.running()\nlocal timer = uv.new_timer()\n\
         timer:start(10, 0, function() timer:close() coroutine.resume(co, 'woken') end)\n\
         return coroutine.yield()",
        "woken",
    )
    .await;
    check(
        "local co = coroutine.running()\nlocal timer, n = uv.new_timer(), 0\n\
         uv.timer_start(timer, 1, 1, function() n = n + 1 if n == 3 then uv.timer_stop(timer) uv.close(timer) assert(coroutine.resume(co, n)) end end)\n\
         return coroutine.yield()",
        "3",
    ).await;
}

#[tokio::test]
async fn programs_run_and_their_output_comes_in_pieces() {
    check(
        "local co = coroutine.running()\nlocal stdout = uv.new_pipe(false)\nlocal out, code = {}, nil\n\
         local function done() if code and out.ended then coroutine.resume(co) end end\n\
         local handle, pid = uv.spawn('sh', { args = { '-c', 'echo one; echo two; exit 3' }, stdio = { nil, stdout, nil } }, function(c) code = c done() end)\n\
         assert(handle, pid)\n\
         stdout:read_start(function(err, data) assert(not err, err) if data then out[#out + 1] = data else out.ended = true done() end end)\n\
         coroutine.yield()\nreturn table.concat(out) .. code",
        "one\ntwo\n3",
    ).await;
    check(
        "local co = coroutine.running()\nlocal stdin, stdout = uv.new_pipe(), uv.new_pipe()\n\
         uv.spawn('cat', { stdio = { stdin, stdout } }, function() end)\n\
         local got = ''\nstdout:read_start(function(_, data) if data then got = got .. data else coroutine.resume(co) end end)\n\
         stdin:write('through', function() stdin:shutdown() end)\ncoroutine.yield()\nreturn got",
        "through",
    ).await;
    check(
        "local h, why, code = uv.spawn('/no/such/program', {}) return tostring(h) .. code",
        "nilENOENT",
    )
    .await;
}

#[tokio::test]
async fn files_work_at_once_and_with_callbacks() {
    check(
        "local name = os.getenv('TMPDIR') or '/tmp'\nlocal path = name .. '/haft-luv-' .. uv.getpid() .. '-' .. uv.hrtime()\n\
         local fd = assert(uv.fs_open(path, 'w', 420)) assert(uv.fs_write(fd, 'hello', -1)) assert(uv.fs_close(fd))\n\
         local co = coroutine.running() local text\n\
         uv.fs_open(path, 'r', 420, function(err, fd) assert(not err, err)\n\
           uv.fs_fstat(fd, function(err, stat) assert(not err, err)\n\
             uv.fs_read(fd, stat.size, 0, function(err, data) text = data uv.fs_close(fd) coroutine.resume(co) end) end) end)\n\
         coroutine.yield() assert(uv.fs_unlink(path))\n\
         local stat, why, code = uv.fs_stat(path)\nreturn text .. tostring(stat) .. code",
        "hellonilENOENT",
    ).await;
}

#[tokio::test]
async fn connections_are_made() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut word = [0; 4];
        stream.read_exact(&mut word).await.unwrap();
        stream.write_all(b"pong").await.unwrap();
    });
    check(
        &format!(
            "local co = coroutine.running() local tcp = uv.new_tcp() local got = ''\n\
             tcp:connect('127.0.0.1', {port}, function(err) assert(not err, err)\n\
               tcp:read_start(function(err, data) if data then got = got .. data else tcp:close() coroutine.resume(co) end end)\n\
               tcp:write('ping') end)\n\
             coroutine.yield() return got"
        ),
        "pong",
    ).await;
}

#[tokio::test]
async fn an_error_in_a_raw_callback_is_logged_and_the_host_lives() {
    let text = "local uv = require('uv')\n".to_owned()
        + &tool(
            "arm",
            "uv.new_timer():start(1, 0, function() error('in a callback') end) return 'armed'",
        )
        + &tool("wait", "haft.sleep(50) return 'alive'");
    let world = World::new().file("t.lua", &text);
    let host = world.start();
    assert_eq!(call(&host, "arm", "{}").await.text, "armed");
    assert_eq!(call(&host, "wait", "{}").await.text, "alive");
    let log = world.log.text();
    assert!(
        log.contains("t error a timer's callback: t.lua:") && log.contains("in a callback"),
        "{log}"
    );
}

#[tokio::test]
async fn an_abandoned_coroutine_cannot_answer_for_another() {
    let text = "local kept\n".to_owned()
        + &tool(
            "leave",
            "kept = coroutine.running() local t = require('luv').new_timer() t:start(60000, 0, function() end) coroutine.yield() return 'forged'",
        )
        + &tool(
            "forge",
            "local ok, why = coroutine.resume(kept, 'x') haft.sleep(5) return tostring(ok) .. why",
        );
    let world = World::new().file("t.lua", &text);
    let host = world.start();
    let left = run(
        &host,
        calls(&[("leave", "{}")], Some(Duration::from_millis(50))),
    )
    .await;
    assert!(
        left[0].is_error && left[0].text.contains("its time was over"),
        "{left:?}"
    );
    let outcome = call(&host, "forge", "{}").await;
    assert_eq!(outcome.text, "falsecannot resume dead coroutine");
}

#[tokio::test]
async fn a_coroutine_that_a_script_kept_is_not_another_calls() {
    let text = "local uv, kept = require('luv'), {}\n".to_owned()
        + &tool(
            "keep",
            "kept[#kept + 1] = coroutine.running() return 'kept'",
        )
        + &tool(
            "wait",
            "local co = coroutine.running() local t = uv.new_timer()\n\
             t:start(60, 0, function() t:close() coroutine.resume(co, 'by its own') end)\n\
             return coroutine.yield()",
        )
        + &tool(
            "forge",
            "haft.sleep(10) local n = 0 for _, co in ipairs(kept) do if coroutine.resume(co, 'forged') then n = n + 1 end end return n",
        );
    let world = World::new().file("t.lua", &text);
    let host = world.start();
    for _ in 0..5 {
        assert_eq!(call(&host, "keep", "{}").await.text, "kept");
    }
    let of = [("wait", "{}"), ("forge", "{}"), ("wait", "{}")];
    let outcomes = run(&host, calls(&of, Some(SECOND * 10))).await;
    let texts: Vec<_> = outcomes.iter().map(|o| o.text.as_str()).collect();
    assert_eq!(texts, ["by its own", "0", "by its own"]);
}

#[tokio::test]
async fn a_script_of_promises_and_callbacks_runs_unchanged() {
    check(
        "-- The pattern of scripts written for the event loop: a function takes a\n\
         -- callback, and `await` waits for it in a coroutine.\n\
         local function await(start, ...)\n\
           local co, done, results = coroutine.running(), false, nil\n\
           local arguments = table.pack(...)\n\
           arguments[arguments.n + 1] = function(...)\n\
             results, done = table.pack(...), true\n\
             if coroutine.status(co) == 'suspended' then assert(coroutine.resume(co)) end\n\
           end\n\
           start(table.unpack(arguments, 1, arguments.n + 1))\n\
           if not done then coroutine.yield() end\n\
           return table.unpack(results, 1, results.n)\n\
         end\n\
         local function delay(ms, callback)\n\
           local timer = uv.new_timer()\n\
           uv.timer_start(timer, ms, 0, function() uv.close(timer) callback(ms) end)\n\
         end\n\
         local function at_once(x, callback) callback(x) end\n\
         local function all(list, callback)\n\
           local left, sum = #list, 0\n\
           for _, ms in ipairs(list) do delay(ms, function(n) left, sum = left - 1, sum + n if left == 0 then callback(sum) end end) end\n\
         end\n\
         local path = assert(uv.fs_mkdtemp and '/tmp' or uv.cwd())\n\
         local err, stat = await(uv.fs_stat, path)\n\
         assert(not err and stat.type == 'directory', err)\n\
         return await(delay, 5) + await(at_once, 1) + await(all, { 10, 3, 7 })",
        "26",
    )
    .await;
}

#[tokio::test]
async fn background_work_neither_holds_a_batch_nor_dies_with_it() {
    let text =
        "local n, t = 0, require('luv').new_timer()\nt:start(1, 5, function() n = n + 1 end)\n"
            .to_owned()
            + &tool("count", "return n");
    let world = World::new().file("t.lua", &text);
    let host = world.start();
    let first: i64 = call(&host, "count", "{}").await.text.parse().unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let second: i64 = call(&host, "count", "{}").await.text.parse().unwrap();
    assert!(second > first, "{first} {second}");
}
