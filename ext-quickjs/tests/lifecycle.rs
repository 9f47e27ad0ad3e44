//! The life of a skill: loading, hooks, methods, statuses.

mod support;

use std::time::{Duration, Instant};

use haft_api::{ErrorKind, ToolSource as _, raw_json};
use haft_ext_quickjs::{QuickJsHost, RpcAnswer, SkillStatus};
use serde_json::json;
use support::{World, call, calls, run, shown, tools, until};

async fn value(host: &QuickJsHost, method: &str, params: serde_json::Value) -> String {
    match host.rpc("t", method, &params).await.unwrap() {
        RpcAnswer::Missing => "missing".to_owned(),
        RpcAnswer::Value(None) => "undefined".to_owned(),
        RpcAnswer::Value(Some(json)) => json.get().to_owned(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_skill_is_exposed_in_any_of_the_usual_ways() {
    let tool = "{ name: 'who', execute() { return this.who ?? 'bare'; } }";
    for (source, expected) in [
        (
            format!("globalThis.__skill = {{ default: {{ who: 'default', tools: [{tool}] }} }};"),
            "default",
        ),
        (
            format!("globalThis.__skill = {{ who: 'skill', tools: [{tool}] }};"),
            "skill",
        ),
        (
            format!("var __skill = {{ who: 'var', tools: [{tool}] }};"),
            "var",
        ),
        (
            format!("export default {{ who: 'export', tools: [{tool}] }};"),
            "export",
        ),
        (
            format!("const who = 1; export const tools = [{tool}];"),
            "bare",
        ),
        (format!("const tools = [{tool}];"), "bare"),
        (
            format!("let tools; function init() {{ tools = [{tool}]; }}"),
            "bare",
        ),
        (format!("globalThis.tools = [{tool}];"), "bare"),
        (
            format!("const text = 'import export await'; var tools = [{tool}];"),
            "bare",
        ),
        (
            format!(
                "import {{ who }} from './lib/who.js'; export default {{ who, tools: [{tool}] }};"
            ),
            "library",
        ),
        (
            format!(
                "import said from './said.json' with {{ type: 'json' }}; export default {{ who: said.who, tools: [{tool}] }};"
            ),
            "json",
        ),
        (
            format!(
                "const {{ who }} = await import('./lib/who.js'); export default {{ who, tools: [{tool}] }};"
            ),
            "library",
        ),
    ] {
        let world = World::new()
            .skill("t", &source)
            .file("t/lib/who.js", "export const who = 'library';")
            .file("t/said.json", r#"{"who":"json"}"#);
        let outcome = call(&world.start(), "t__who", "{}").await;
        assert_eq!(outcome.text, expected, "{source}\n{}", world.log.text());
    }
}

#[tokio::test]
async fn what_keeps_a_skill_from_loading_is_said_with_its_place() {
    for (source, words) in [
        ("const a = ;", "t/index.js:1"),
        ("\n\nthrow new Error('broken');", "t/index.js:3"),
        ("const a = 1;", "neither tools nor hooks"),
        ("globalThis.__skill = 5;", "must be an object"),
        (
            "import x from 'package'; export default {};",
            "only files of the skill",
        ),
        (
            "import x from './missing.js'; export default {};",
            "no such file",
        ),
        (
            "import x from '../other/index.js'; export default {};",
            "leads out",
        ),
        (
            "export default { tools: [] }; throw new TypeError('late');",
            "TypeError: late",
        ),
        (
            "const tools = []; function init() { throw new Error('no init'); }",
            "no init",
        ),
        (
            "const tools = []; async function start() { await null; throw new Error('no start'); }",
            "no start",
        ),
        ("const tools = []; const init = 5;", "`init` is no function"),
        ("const tools = 5;", "`tools` must be an array"),
    ] {
        let world = World::new()
            .skill("other", "const tools = [];")
            .skill("t", source);
        let host = world.start();
        host.skills().await;
        let snapshot = host.snapshot("t").unwrap();
        assert_eq!(snapshot.status, SkillStatus::Error, "{source}");
        let why = snapshot.error.unwrap();
        assert!(why.contains(words), "{source}: {why}");
        let problems = host.problems().await;
        assert!(
            problems.iter().any(|p| p.to_string().contains(words)),
            "{problems:?}"
        );
        assert_eq!(host.snapshot("other").unwrap().status, SkillStatus::Running);
    }
}

#[tokio::test]
async fn init_and_start_may_wait_and_tools_may_come_late() {
    let world = World::new().skill(
        "t",
        "const order = [];
         const tools = [{ name: 'order', execute: () => order }];
         async function init() {
           await new Promise((done) => setTimeout(done, 30)); order.push('init');
           tools.push({ name: 'late', execute: () => 'late' });
         }
         async function start() { await new Promise((done) => setTimeout(done, 5)); order.push('start'); }
         function onPing() { order.push('ping'); }
         function onTick() { tools.push({ name: 'later', execute: () => 'later' }); }",
    );
    let host = world.start();
    let names = |tools: Vec<haft_api::ToolSpec>| -> Vec<String> {
        tools.iter().map(|tool| tool.name.to_string()).collect()
    };
    assert_eq!(names(host.tools().await.unwrap()), ["t__late", "t__order"]);
    let began = Instant::now();
    while call(&host, "t__order", "{}").await.text != r#"["init","start","ping"]"# {
        assert!(began.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(value(&host, "tick", json!(null)).await, "undefined");
    assert_eq!(
        names(host.tools().await.unwrap()),
        ["t__late", "t__later", "t__order"]
    );
    assert_eq!(call(&host, "t__later", "{}").await.text, "later");
}

#[tokio::test]
async fn a_bad_tool_costs_itself_alone() {
    let world = World::new().skill(
        "t",
        "const tools = [
           { name: 'good', execute: () => 'good' },
           { name: '', execute: () => 1 },
           { name: 'good', execute: () => 'second' },
           { name: 'schema', inputSchema: 5, execute: () => 1 },
           { name: 'bare' },
           null,
           { get name() { throw new Error('a trap'); }, execute() {} },
           { name: 'with blanks', execute() {} },
           { name: 'empty', inputSchema: {}, execute: () => 'empty' },
         ];
         const commands = [{ name: 'hello', description: 'Greets', execute: (text) => 'Hello, ' + text }];",
    );
    let host = world.start();
    let tools = host.tools().await.unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["t__empty", "t__good"]);
    assert_eq!(call(&host, "t__good", "{}").await.text, "good");
    assert_eq!(
        host.problems().await.len(),
        7,
        "{:?}",
        host.problems().await
    );
    assert_eq!(host.commands().await[0].name, "hello");
    let said = host.run_command("hello", "you").await.unwrap();
    assert_eq!(said.as_deref(), Some("Hello, you"));
    let error = host.run_command("nothing", "").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn methods_go_to_their_hooks() {
    let world = World::new().skill(
        "t",
        "const hooks = ['onLoad', 'onPing', 'onSync', 'onTick', 'onServerEvent', 'onSetupStart',
           'onSetupSubmit', 'onSetupCancel', 'onListOptions', 'onSetOption', 'onSessionStart',
           'onSessionEnd', 'onOAuthComplete', 'onOAuthRevoked', 'onRpc'];
         const skill = { me: 'me' };
         for (const hook of hooks) skill[hook] = function (...args) { return hook === 'onPing' ? null : [hook, this.me, ...args]; };
         globalThis.__skill = skill;",
    );
    let host = world.start();
    host.skills().await;
    for (method, params, expected) in [
        ("load", json!({"a": 1}), r#"["onLoad","me",{"a":1}]"#),
        ("ping", json!(null), "null"),
        ("sync", json!(null), r#"["onSync","me"]"#),
        ("tick", json!(null), r#"["onTick","me"]"#),
        (
            "event",
            json!({"event": "e", "data": [1]}),
            r#"["onServerEvent","me","e",[1]]"#,
        ),
        ("setup/start", json!(null), r#"["onSetupStart","me"]"#),
        (
            "setup/submit",
            json!({"stepId": "s", "values": {}}),
            r#"["onSetupSubmit","me",{"stepId":"s","values":{}}]"#,
        ),
        ("setup/cancel", json!(null), r#"["onSetupCancel","me"]"#),
        ("options/list", json!(null), r#"["onListOptions","me"]"#),
        (
            "options/set",
            json!({"name": "n", "value": 1}),
            r#"["onSetOption","me",{"name":"n","value":1}]"#,
        ),
        (
            "session/start",
            json!({"sessionId": "x"}),
            r#"["onSessionStart","me",{"sessionId":"x"}]"#,
        ),
        (
            "session/end",
            json!({"sessionId": "x"}),
            r#"["onSessionEnd","me",{"sessionId":"x"}]"#,
        ),
        (
            "oauth/complete",
            json!({"token": 1}),
            r#"["onOAuthComplete","me",{"token":1}]"#,
        ),
        ("oauth/revoked", json!({}), r#"["onOAuthRevoked","me",{}]"#),
        (
            "my/method",
            json!([1]),
            r#"["onRpc","me",{"method":"my/method","params":[1]}]"#,
        ),
    ] {
        assert_eq!(value(&host, method, params).await, expected, "{method}");
    }
    let world = World::new().skill(
        "t",
        "globalThis.__skill = { onSync: () => null, onTick() {} };",
    );
    let host = world.start();
    host.skills().await;
    for (method, expected) in [
        ("sync", "null"),
        ("tick", "undefined"),
        ("load", "missing"),
        ("x", "missing"),
    ] {
        assert_eq!(
            value(&host, method, json!(null)).await,
            expected,
            "{method}"
        );
    }
}

#[tokio::test]
async fn statuses_follow_the_skills_life() {
    let world = World::new().skill(
        "t",
        "const tools = [{ name: 'hang', async execute() { await new Promise((done) => setTimeout(done, 60000)); } }];
         function start() { console.log('started'); }
         async function stop() { await new Promise((done) => setTimeout(done, 5)); console.log('stopped'); }",
    );
    let host = world.start();
    host.discover();
    assert_eq!(host.snapshot("t").unwrap().status, SkillStatus::Pending);
    let outcome = run(
        &host,
        calls(&[("t__hang", "{}")], Some(Duration::from_millis(50))),
    )
    .await;
    assert!(outcome[0].is_error);
    assert_eq!(host.start("t").await.unwrap().status, SkillStatus::Running);
    assert_eq!(world.log.text().matches("started").count(), 1);
    let waiting = tokio::spawn({
        let host = host.clone();
        async move {
            run(&host, calls(&[("t__hang", "{}")], None))
                .await
                .remove(0)
        }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(host.stop("t").await.unwrap().status, SkillStatus::Stopped);
    let told = waiting.await.unwrap();
    assert!(
        told.is_error && told.text.contains("was stopped"),
        "{told:?}"
    );
    assert!(world.log.text().contains("info stopped"));
    assert!(host.tools().await.unwrap().is_empty());
    let refused = run(&host, calls(&[("t__hang", "{}")], None))
        .await
        .remove(0);
    assert!(
        refused.text.contains("its status is `stopped`"),
        "{refused:?}"
    );
    let error = host.rpc("t", "sync", &json!(null)).await.unwrap_err();
    assert!(error.to_string().contains("`stopped`"), "{error}");
    host.broadcast("nobody", &json!(1)).await;
    assert_eq!(host.start("t").await.unwrap().status, SkillStatus::Running);
    assert_eq!(
        host.start("missing").await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[tokio::test]
async fn stop_ends_in_a_bounded_time_and_so_does_the_hosts_end() {
    for stop in [
        "while (true) {}",
        "return new Promise((done) => setTimeout(done, 1e6));",
        "throw new Error('no');",
    ] {
        let source = format!("const tools = []; function stop() {{ {stop} }}");
        let world = World::new()
            .skill("t", &source)
            .limits(|limits| limits.stop_ms = 100);
        let host = world.start();
        host.skills().await;
        let began = Instant::now();
        assert_eq!(
            host.stop("t").await.unwrap().status,
            SkillStatus::Stopped,
            "{stop}"
        );
        assert!(began.elapsed() < Duration::from_secs(5), "{stop}");
        assert_eq!(host.start("t").await.unwrap().status, SkillStatus::Running);
    }
    let world = World::new().skill(
        "t",
        "const tools = []; function stop() { console.log('ended'); }",
    );
    let host = world.start();
    host.skills().await;
    drop(host);
    until("the hook runs", || world.log.text().contains("ended")).await;
}

#[tokio::test]
async fn a_ping_says_how_the_skill_is() {
    let world = World::new().skill(
        "t",
        "let answer = null; const tools = [{ name: 'set', execute(args) { answer = args; } }];
         function onPing() { return answer; }",
    );
    let host = world.start();
    host.skills().await;
    for (answer, status, error) in [
        (r#"{"ok":true}"#, SkillStatus::Running, None),
        (
            r#"{"ok":false,"errorType":"network","errorMessage":"no route"}"#,
            SkillStatus::Running,
            Some("no route"),
        ),
        (r#"{"ok":true}"#, SkillStatus::Running, None),
        (
            r#"{"ok":false,"errorType":"auth","errorMessage":"expired"}"#,
            SkillStatus::Error,
            Some("authentication failed: expired"),
        ),
    ] {
        call(&host, "t__set", answer).await;
        host.rpc("t", "ping", &json!(null)).await.unwrap();
        let snapshot = host.snapshot("t").unwrap();
        assert_eq!(
            (snapshot.status, snapshot.error.as_deref()),
            (status, error),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn errors_that_nobody_caught_reach_the_log_and_on_error() {
    let world = World::new().skill(
        "t",
        "const told = [];
         const tools = [
           { name: 'reject', execute() { Promise.reject(new Error('lost one')); return 'fine'; } },
           { name: 'timer', execute() { setTimeout(() => { throw new Error('late one'); }, 1); return 'fine'; } },
           { name: 'handled', execute() { const p = Promise.reject(1); p.catch(() => {}); return 'fine'; } },
           { name: 'told', execute: () => told },
         ];
         function onError(error) { told.push([error.type, error.message, error.recoverable]); Promise.reject(new Error('in onError')); }",
    );
    let host = world.start();
    for name in ["t__reject", "t__timer", "t__handled"] {
        assert_eq!(call(&host, name, "{}").await.text, "fine");
    }
    until("both are logged", || {
        let text = world.log.text();
        text.contains("an unhandled rejection: lost one") && text.contains("late one")
    })
    .await;
    let expected = r#"[["unhandledrejection","lost one",true],["error","late one",true]]"#;
    let began = Instant::now();
    while call(&host, "t__told", "{}").await.text != expected {
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "{}",
            world.log.text()
        );
    }
    assert!(
        world.log.text().matches("in onError").count() == 2,
        "{}",
        world.log.text()
    );
}

#[tokio::test]
async fn folders_hold_skills_that_start_when_they_say_so_or_the_user_does() {
    let mut world = World::new();
    for (id, more) in [
        ("auto", r#","auto_start":true"#),
        ("manual", ""),
        ("chosen", ""),
        ("unwanted", r#","auto_start":true"#),
        ("elsewhere", r#","auto_start":true,"platforms":["plan9"]"#),
    ] {
        let manifest = format!(r#"{{"id":"{id}","name":"{id}","runtime":"javascript"{more}}}"#);
        world.write(&format!("all/{id}/manifest.json"), &manifest);
        world.write(
            &format!("all/{id}/index.js"),
            "const tools = [{ name: 't', execute: () => 1 }];",
        );
    }
    world.write("all/broken/manifest.json", "{");
    world.write("all/nothing/readme", "");
    world.settings.folders.push(world.path().join("all"));
    let host = world.start();
    host.choose("chosen", true).unwrap();
    host.choose("unwanted", false).unwrap();
    let statuses: Vec<_> = host
        .skills()
        .await
        .into_iter()
        .map(|skill| format!("{} {}", skill.id, skill.status))
        .collect();
    assert_eq!(
        statuses,
        [
            "auto running",
            "chosen running",
            "elsewhere pending",
            "manual pending",
            "unwanted pending"
        ]
    );
    assert!(
        world.log.text().contains("all/broken/manifest.json"),
        "{}",
        world.log.text()
    );
    let error = host.start("elsewhere").await.unwrap_err();
    assert!(error.to_string().contains("plan9"), "{error}");
    let tools = host.tools().await.unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["auto__t", "chosen__t"]);
}

#[tokio::test]
async fn a_skill_calls_its_own_tools_and_others_by_grant() {
    let caller = tools(&[
        (
            "t",
            "try { return await skills.callTool(args.skill, args.tool, { x: 2 }); } catch (error) { return error.name + ': ' + error.message; }",
        ),
        ("own", "return [args.x, skills.list().length];"),
    ]);
    let world = World::new()
        .skill_of("granted", r#""grants":{"skills":["other"]}"#, &caller)
        .skill("plain", &caller)
        .skill(
            "other",
            &tools(&[
                ("double", "return args.x * 2;"),
                ("fail", "throw new Error('no luck');"),
            ]),
        );
    let host = world.start();
    host.skills().await;
    for (skill, arguments, expected) in [
        ("plain", r#"{"skill":"plain","tool":"own"}"#, "[2,3]"),
        ("granted", r#"{"skill":"other","tool":"double"}"#, "4"),
        ("granted", r#"{"skill":"other","tool":"fail"}"#, "no luck"),
        (
            "granted",
            r#"{"skill":"other","tool":"none"}"#,
            "no tool `none`",
        ),
        (
            "plain",
            r#"{"skill":"other","tool":"double"}"#,
            "NotAllowedError: denied",
        ),
    ] {
        let output = host
            .call_tool(skill, "t", raw_json(arguments).unwrap(), None)
            .await
            .unwrap();
        let text = shown(&output.parts);
        assert!(text.contains(expected), "{skill} {arguments}: {text}");
    }
}

#[cfg(feature = "reload")]
#[tokio::test]
async fn a_changed_skill_is_loaded_again() {
    let mut world = World::new().skill("t", &tools(&[("v", "return 1;")]));
    world.settings.reload = Some(true);
    let host = world.start();
    assert_eq!(call(&host, "t__v", "{}").await.text, "1");
    world.write(
        "t/index.js",
        &tools(&[("v", "return 2;"), ("w", "return 3;")]),
    );
    let began = Instant::now();
    while call(&host, "t__v", "{}").await.text != "2" {
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "{}",
            world.log.text()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(host.tools().await.unwrap().len(), 2);
    world.write("t/index.js", "syntax error");
    until("the error is told", || {
        world.log.text().contains("expecting")
    })
    .await;
}
