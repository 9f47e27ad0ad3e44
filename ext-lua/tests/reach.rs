//! What scripts reach: files, programs, the network, events, their state.

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_api::{
    EventSink, ExtensionConfig, ExtensionRegistryBuilder, RemoteRunnerProvider as _,
    ToolSource as _,
};
use haft_ext_lua::{Grants, LuaExtension};
use haft_testkit::MemoryRunner;
use support::{World, call, calls, run, tool};

#[tokio::test]
async fn files_and_programs_of_a_call_are_its_workspaces() {
    let runner = MemoryRunner::new()
        .file("notes.txt", "in the workspace")
        .program("greet", async |io| {
            io.print("hello ");
            io.print_error("aside");
            3
        });
    let session = runner.create(runner.binding("d")).await.unwrap();
    let text = tool(
        "files",
        "local text = haft.fs.read('notes.txt') haft.fs.write('new.txt', text:upper())\n\
            local names = {} for _, e in ipairs(haft.fs.list('.')) do names[#names + 1] = e.name end\n\
            return { haft.fs.read('new.txt'), names, haft.fs.stat('new.txt').size, haft.fs.stat('none') == nil }",
    ) + &tool("missing", "haft.fs.read('none')")
        + &tool(
            "program",
            "local out = haft.process.output { argv = { 'greet' } } return { out.stdout, out.stderr, out.code, out.ok }",
        )
        + &tool(
            "stream",
            "local p = haft.process.spawn { argv = { 'greet' } } local all = {}\n\
            while true do local text, channel = p:read() if not text then break end all[#all + 1] = channel .. ':' .. text end\n\
            return { table.concat(all, '|'), p:wait().code }",
        );
    let world = World::new().file("t.lua", &text);
    let host = world.start();
    let check = async |name: &str, expected: &str| {
        let mut batch = calls(&[(name, "{}")], Some(Duration::from_secs(10)));
        let context = batch[0].context.clone();
        batch[0].context = context.with_workspace(Arc::clone(&session));
        let outcome = run(&host, batch).await.remove(0);
        assert!(outcome.text.contains(expected), "{name}: {outcome:?}");
    };
    check(
        "files",
        r#"["IN THE WORKSPACE",["new.txt","notes.txt"],16,true]"#,
    )
    .await;
    check("missing", "t.lua:").await;
    check("program", r#"["hello ","aside",3,false]"#).await;
    check("stream", "stdout:hello ").await;
}

#[tokio::test]
async fn with_grants_a_script_reaches_this_machine() {
    let text = tool(
        "files",
        "local p = args.dir .. '/a.txt' haft.fs.write(p, 'x') local f = assert(io.open(p, 'a')) f:write('yz') f:close()\n\
            local lines = {} for line in io.lines(p) do lines[#lines + 1] = line end\n\
            assert(os.rename(p, p .. '2')) return { haft.fs.read(p .. '2'), lines, haft.fs.list(args.dir)[1].name }",
    ) + &tool(
        "program",
        "local out = haft.process.output { shell = 'cat; echo $WORD >&2; exit 4', stdin = 'in', env = { WORD = 'w' } }\n\
            return { out.stdout, out.stderr, out.code }",
    ) + &tool(
        "overdue",
        "return haft.process.output { argv = { 'sleep', '60' }, timeout_ms = 50 }",
    );
    let world = World::new().file("t.lua", &text).grant("t", Grants::all());
    let host = world.start();
    let folder = tempfile::tempdir().unwrap();
    let arguments = format!(r#"{{"dir":{:?}}}"#, folder.path());
    assert_eq!(
        call(&host, "files", &arguments).await.text,
        r#"["xyz",["xyz"],"a.txt2"]"#
    );
    assert_eq!(call(&host, "program", "{}").await.text, r#"["in","w\n",4]"#);
    let overdue = call(&host, "overdue", "{}").await.text;
    assert!(overdue.contains(r#""timed_out":true"#), "{overdue}");
}

#[tokio::test]
async fn two_programs_overlap_as_two_readers_do() {
    let text = tool("nap", "return haft.process.output('sleep 0.4').code")
        + &tool(
            "read",
            "local f = io.open(args.path) local text = f:read('a') f:close() return #text",
        );
    let world = World::new().file("t.lua", &text).grant("t", Grants::all());
    let host = world.start();
    let path = world.write("data", "12345");
    let arguments = format!(r#"{{"path":{path:?}}}"#);
    host.tools().await.unwrap();
    let began = Instant::now();
    let of = [
        ("nap", "{}"),
        ("nap", "{}"),
        ("nap", "{}"),
        ("nap", "{}"),
        ("read", &arguments),
        ("read", &arguments),
    ];
    let outcomes = support::batch(&host, &of).await;
    let texts: Vec<_> = outcomes.iter().map(|o| o.text.as_str()).collect();
    assert_eq!(texts, ["0", "0", "0", "0", "5", "5"]);
    assert!(
        began.elapsed() < Duration::from_millis(1500),
        "{:?}",
        began.elapsed()
    );
}

#[cfg(feature = "http")]
#[tokio::test]
async fn requests_are_made_and_redirects_keep_to_the_grant() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = vec![0; 4096];
                let read = stream.read(&mut head).await.unwrap();
                let head = String::from_utf8_lossy(&head[..read]).into_owned();
                let answer = match head.starts_with("GET /away") {
                    true => "HTTP/1.1 302 Found\r\nlocation: http://elsewhere.invalid/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned(),
                    false => {
                        let body = head.lines().next().unwrap().to_owned() + head.rsplit("\r\n\r\n").next().unwrap();
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        format!("HTTP/1.1 201 Created\r\nx-a: b\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
                    }
                };
                stream.write_all(answer.as_bytes()).await.unwrap();
            });
        }
    });
    let text = format!(
        "--@grants network=127.0.0.1\nlocal base = 'http://127.0.0.1:{port}'\n{}{}",
        tool(
            "post",
            "local r = haft.http.post(base .. '/x', { body = 'data' }) return { r.status, r.ok, r.headers['x-a'], r.body }"
        ),
        tool("away", "return haft.http.get(base .. '/away')"),
    );
    let world = World::new().file("t.lua", &text);
    let host = world.start();
    let expected = r#"[201,true,"b","POST /x HTTP/1.1data"]"#;
    let outcomes = support::batch(&host, &[("post", "{}"); 8]).await;
    assert!(outcomes.iter().all(|o| o.text == expected), "{outcomes:?}");
    let away = call(&host, "away", "{}").await;
    assert!(
        away.text.contains("`network` for elsewhere.invalid"),
        "{away:?}"
    );
}

#[tokio::test]
async fn state_outlives_the_host() {
    let text = tool(
        "count",
        "local n = (haft.state.get('n') or 0) + 1 haft.state.set('n', n) haft.state.set('gone', nil) return { n, haft.state.keys() }",
    );
    let mut world = World::new().file("t.lua", &text);
    world.settings.state_dir = Some(world.path().join("state"));
    assert_eq!(
        call(&world.start(), "count", "{}").await.text,
        r#"[1,["n"]]"#
    );
    assert_eq!(
        call(&world.start(), "count", "{}").await.text,
        r#"[2,["n"]]"#
    );
    world.write("state/t.json", "{ damaged");
    let outcome = call(&world.start(), "count", "{}").await;
    assert!(
        outcome.is_error && outcome.text.contains("damaged"),
        "{outcome:?}"
    );
    assert_eq!(
        std::fs::read_to_string(world.path().join("state/t.json")).unwrap(),
        "{ damaged"
    );
}

#[tokio::test]
async fn scripts_listen_to_events() {
    let text = "local seen = {}\nhaft.on('turn.completed', function(e) haft.sleep(1) seen[#seen + 1] = e.type .. e.thread end)\n\
        haft.on('turn.completed', function() error('a bad listener') end)\n".to_owned()
        + &tool("seen", "return seen");
    let world = World::new().file("t.lua", &text);
    let paths = serde_json::to_string(&world.settings.paths).unwrap();
    let config =
        ExtensionConfig::from_json(format!(r#"{{"paths":{paths},"reload":false}}"#)).unwrap();
    let mut builder = ExtensionRegistryBuilder::new();
    builder.extension(&LuaExtension, &config).unwrap();
    let registry = builder.build().unwrap();
    let source = &registry.tool_sources()[0].part;
    // Nobody has asked for tools yet: what happens before is heard all the same.
    let sink: &Arc<dyn EventSink> = &registry.event_sinks()[0].part;
    let thread = haft_api::ThreadId::new("t1").unwrap();
    let body = haft_api::EventBody::TurnCompleted {
        usage: haft_api::Usage::default(),
    };
    sink.publish(&haft_api::Event::new(1, thread, None, 0, body));
    let began = Instant::now();
    loop {
        let batch = calls(&[("seen", "{}")], None);
        let outcomes = haft_testkit::calls::run(&**source, batch).await;
        if outcomes[0].text.contains("turn.completedt1") {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{outcomes:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A process that ends right then lets nobody finish: what is dropped later is
/// dropped never.
#[tokio::test]
async fn a_call_that_is_ended_has_let_go_of_its_program_before_its_code_winds_up() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid").display().to_string();
    let body = format!(
        "local done <close> = setmetatable({{}}, {{ __close = function()\n\
           local number = io.open('{pid}'):read('n')\n\
           while true do\n\
             local stat = io.open('/proc/' .. number .. '/stat')\n\
             local state = stat and stat:read('a'):match('%) (%a)')\n\
             if stat then stat:close() end\n\
             if not state or state == 'Z' then break end\n\
           end\n\
           haft.log('it is gone')\n\
         end }})\n\
         haft.process.output {{ argv = {{ 'sh', '-c', 'echo $$ > {pid}; exec sleep 600' }} }}"
    );
    let grants = serde_json::from_str(r#"{"process":true,"read":true}"#).unwrap();
    let world = World::new()
        .file("t.lua", &tool("t", &body))
        .grant("t", grants);
    let host = world.start();
    let outcomes = run(&host, calls(&[("t", "{}")], Some(Duration::from_secs(1)))).await;
    assert!(outcomes[0].is_error, "{outcomes:?}");
    let began = Instant::now();
    while !world.log.text().contains("it is gone") {
        let log = world.log.text();
        assert!(began.elapsed() < Duration::from_secs(10), "{log}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
