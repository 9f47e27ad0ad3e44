//! Calls: values, identities, deadlines.

mod support;

use std::time::{Duration, Instant};

use support::{World, batch, body, call, call_within, calls, run, sync_tools, tools, until};

#[tokio::test]
async fn what_a_tool_returns_is_what_is_read() {
    for (value, expected) in [
        ("undefined", ""),
        ("null", "null"),
        ("'__PROMISE__'", "__PROMISE__"),
        ("'null'", "null"),
        ("0", "0"),
        ("false", "false"),
        ("''", ""),
        ("'😀'", "😀"),
        ("'a\\ud800b'", "a\u{fffd}b"),
        ("({ k: '\\udc00' })", "{\"k\":\"\u{fffd}\"}"),
        ("NaN", "null"),
        ("10n", "\"10\""),
        ("9007199254740993n", "\"9007199254740993\""),
        ("({ b: 1, a: [] , 2: 0 })", r#"{"2":0,"b":1,"a":[]}"#),
        ("new Map([['a', 1]])", r#"{"a":1}"#),
        ("new Map([[1, 2]])", "[[1,2]]"),
        ("new Set([1, 2])", "[1,2]"),
        (
            "[{ type: 'text', text: 'x' }, { type: 'json', value: 1 }]",
            "x\n1",
        ),
        ("({ content: [{ type: 'text', text: 'y' }] })", "y"),
        ("({ content: 'plain' })", r#"{"content":"plain"}"#),
        ("({ type: 'text' })", r#"{"type":"text"}"#),
    ] {
        let source = format!(
            "const tools = [
               {{ name: 'sync', execute() {{ return {value}; }} }},
               {{ name: 'async', async execute() {{ return {value}; }} }},
               {{ name: 'later', async execute() {{ await null; return {value}; }} }},
               {{ name: 'thenable', execute() {{ return {{ then(done) {{ done({value}); }} }}; }} }},
             ];"
        );
        let world = World::new().skill("t", &source);
        let host = world.start();
        for name in ["t__sync", "t__async", "t__later", "t__thenable"] {
            let outcome = call(&host, name, "{}").await;
            assert!(!outcome.is_error, "{value}: {outcome:?}");
            assert_eq!(outcome.text, expected, "{name}: {value}");
        }
    }
}

#[tokio::test]
async fn what_a_tool_throws_is_an_error_that_says_where() {
    for (thrown, expected) in [
        ("new Error('broken')", "broken"),
        ("new TypeError('odd')", "TypeError: odd"),
        ("new Error('a', { cause: new Error('b') })", "a: b"),
        ("'a text'", "a text"),
        ("null", "threw `null`"),
        ("undefined", "threw undefined"),
        ("7", "threw 7"),
        ("({ code: 7 })", r#"{"code":7}"#),
        ("({ message: 'told' })", "told"),
        ("new DOMException('gone', 'AbortError')", "AbortError: gone"),
        ("Symbol('s')", "threw Symbol(s)"),
    ] {
        let source = format!(
            "const tools = [
               {{ name: 'sync', execute() {{ throw {thrown}; }} }},
               {{ name: 'later', async execute() {{ await null; throw {thrown}; }} }},
             ];"
        );
        let world = World::new().skill("t", &source);
        let host = world.start();
        for name in ["t__sync", "t__later"] {
            let outcome = call(&host, name, "{}").await;
            assert!(outcome.is_error, "{thrown}: {outcome:?}");
            assert!(
                outcome.text.contains(expected),
                "{thrown}: {}",
                outcome.text
            );
            if thrown.starts_with("new Error") {
                assert!(outcome.text.contains("t/index.js:"), "{}", outcome.text);
            }
        }
    }
}

#[tokio::test]
async fn what_json_cant_say_is_an_error() {
    for (value, words) in [
        (
            "(() => { const a = []; a.push(a); return a; })()",
            "circular",
        ),
        ("(() => 1)", "function"),
        ("({ toJSON() { throw new Error('refused'); } })", "refused"),
        (
            "[{ type: 'image', data: '!!', mimeType: 'image/png' }]",
            "base64",
        ),
    ] {
        let outcome = body(&format!("return {value};")).await;
        assert!(
            outcome.is_error && outcome.text.contains(words),
            "{outcome:?}"
        );
    }
}

#[tokio::test]
async fn names_and_arguments_are_values_never_source() {
    let evil = r#"x"); globalThis.pwned = 1; /* ` ${globalThis.pwned=1} "#;
    let source = format!(
        "globalThis.__skill = {{ tools: [
           {{ name: {}, execute: () => 'ran' }},
           {{ name: 'look', execute(args) {{
               return [globalThis.pwned ?? 'clean', args.polluted ?? 'clean',
                 Object.keys(args), ({{}}).polluted ?? 'clean'];
           }} }},
         ] }};",
        serde_json::Value::from(evil)
    );
    let world = World::new().skill("t", &source);
    let host = world.start();
    host.skills().await;
    let arguments = haft_api::raw_json("{}").unwrap();
    let output = host.call_tool("t", evil, arguments, None).await.unwrap();
    assert_eq!(support::shown(&output.parts), "ran");
    for name in [
        "look'); globalThis.pwned = 1; ('",
        "__proto__",
        "constructor",
        "toString",
    ] {
        let arguments = haft_api::raw_json("{}").unwrap();
        let output = host.call_tool("t", name, arguments, None).await.unwrap();
        assert!(output.is_error, "{name}");
    }
    let outcome = call(
        &host,
        "t__look",
        r#"{"__proto__":{"polluted":1},"a":"'\"`${"}"#,
    )
    .await;
    assert_eq!(
        outcome.text,
        r#"["clean","clean",["__proto__","a"],"clean"]"#
    );
}

#[tokio::test]
async fn many_calls_at_once_each_get_their_own_answer() {
    let world = World::new().skill(
        "t",
        &tools(&[(
            "wait",
            "await new Promise((done) => setTimeout(done, args.ms)); return args.id;",
        )]),
    );
    let host = world.start();
    let arguments: Vec<String> = (0..1000)
        .map(|id| format!(r#"{{"id":{id},"ms":{}}}"#, (id * 7) % 50))
        .collect();
    let all: Vec<_> = arguments.iter().map(|a| ("t__wait", a.as_str())).collect();
    for (id, outcome) in batch(&host, &all).await.iter().enumerate() {
        assert_eq!(outcome.text, id.to_string());
    }
    // Batches of several turns at once, too.
    let several = (0..20).map(|_| batch(&host, &all[..50]));
    for outcomes in futures::future::join_all(several).await {
        for (id, outcome) in outcomes.iter().enumerate() {
            assert_eq!(outcome.text, id.to_string());
        }
    }
}

#[tokio::test]
async fn a_rejection_that_answers_a_call_is_told_to_its_caller_alone() {
    for (body, unhandled) in [
        ("throw new Error('mine');", 0),
        ("await null; throw new Error('mine');", 0),
        (
            "await new Promise((done) => setTimeout(done, 5)); throw new Error('mine');",
            0,
        ),
        (
            "Promise.reject(new Error('other')); throw new Error('mine');",
            1,
        ),
        (
            "for (let i = 0; i < 100; i++) Promise.reject(new Error('other')); await null; throw new Error('mine');",
            9,
        ),
    ] {
        let world = World::new().skill("t", &tools(&[("t", body), ("next", "")]));
        let host = world.start();
        let outcome = call(&host, "t__t", "{}").await;
        assert!(outcome.is_error && outcome.text.contains("mine"), "{body}");
        // What is told of a call is told before the next one.
        call(&host, "t__next", "{}").await;
        let log = world.log.text();
        assert_eq!(log.matches("unhandled").count(), unhandled, "{body}: {log}");
        assert!(!log.contains("mine"), "{body}: {log}");
        if unhandled > 1 {
            assert!(log.contains("92 more unhandled rejections"), "{log}");
        }
    }
}

#[tokio::test]
async fn a_stack_has_the_scripts_own_lines_alone() {
    for body in [
        "throw new Error('here');",
        "return new Promise((_, fail) => [1].forEach(() => fail(new Error('here'))));",
        "return new WebSocket('ws://elsewhere.test');",
        "return new Promise((_, fail) => { const s = AbortSignal.abort(); try { s.throwIfAborted(); } catch (e) { fail(new Error('here')); } });",
    ] {
        let world = World::new().skill("t", &tools(&[("t", body)]));
        let text = call(&world.start(), "t__t", "{}").await.text;
        assert!(text.contains("t/index.js:"), "{body}: {text}");
        let foreign = text.contains("(haft:") || text.contains("(native)");
        assert!(!foreign, "{body}: {text}");
    }
}

#[tokio::test]
async fn two_drivers_at_once_lose_no_wake_up() {
    let world = World::new().skill(
        "t",
        &tools(&[(
            "wait",
            "for (let i = 0; i < 3; i++) await new Promise((done) => setTimeout(done, 1)); return 'done';",
        )]),
    );
    let host = world.start();
    host.skills().await;
    let mut running = Vec::new();
    for _ in 0..256 {
        let host = host.clone();
        running.push(tokio::spawn(async move {
            run(
                &host,
                calls(&[("t__wait", "{}")], Some(Duration::from_secs(20))),
            )
            .await
        }));
    }
    for one in running {
        assert_eq!(one.await.unwrap()[0].text, "done");
    }
}

#[tokio::test]
async fn each_call_has_its_own_deadline_and_a_late_result_answers_nobody() {
    let world = World::new().skill(
        "t",
        "let seen = [];
         const tools = [
           { name: 'late', async execute() {
               await new Promise((done) => setTimeout(done, 150)); seen.push('late'); return 'LATE'; } },
           { name: 'soon', async execute() {
               await new Promise((done) => setTimeout(done, 300)); return 'soon'; } },
         ];",
    );
    let host = world.start();
    host.skills().await;
    let mut both = calls(&[("t__late", "{}"), ("t__soon", "{}")], None);
    both[0].context.deadline = Some(haft_api::Deadline::after(Duration::from_millis(50)));
    let outcomes = run(&host, both).await;
    assert!(
        outcomes[0].is_error && outcomes[0].text.contains("time was over"),
        "{outcomes:?}"
    );
    assert_eq!(outcomes[1].text, "soon");
    // What the ended call waited for was dropped with it.
    let outcome = call(&host, "t__soon", "{}").await;
    assert_eq!(outcome.text, "soon");
}

#[tokio::test]
async fn limits_come_from_the_tool_the_manifest_and_the_settings() {
    let hang = "await new Promise((done) => setTimeout(done, 20000));";
    let own = tools(&[("t", hang)]).replace("description", "timeout_ms: 60, description");
    let cases = [
        ("", own.as_str()),
        (r#""timeout_ms":60"#, &tools(&[("t", hang)])),
    ];
    for (manifest, source) in cases {
        let world = World::new().skill_of("t", manifest, source);
        let outcome = call(&world.start(), "t__t", "{}").await;
        assert!(
            outcome.is_error && outcome.text.contains("time was over"),
            "{outcome:?}"
        );
    }
    let world = World::new()
        .skill("t", &tools(&[("t", hang)]))
        .limits(|limits| limits.call_ms = 60);
    let outcome = call(&world.start(), "t__t", "{}").await;
    assert!(
        outcome.is_error && outcome.text.contains("time was over"),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn a_cancelled_call_is_told_by_its_signal_and_cleans_up() {
    let world = World::new().skill(
        "t",
        &tools(&[
            (
                "wait",
                "call.signal.addEventListener('abort', () => console.log('aborted ' + call.signal.reason.name));
                 try { await new Promise((done) => setTimeout(done, 20000)); } finally { console.log('never'); }",
            ),
            (
                "fetching",
                "try { await skills.callTool('t', 'wait'); } catch (error) { console.log('inner ' + error.name); }",
            ),
            ("ping", "return 'pong';"),
        ]),
    );
    let host = world.start();
    host.skills().await;
    for (name, words) in [
        ("t__wait", "aborted AbortError"),
        ("t__fetching", "inner AbortError"),
    ] {
        let batch = calls(&[(name, "{}")], None);
        tokio::time::timeout(Duration::from_millis(200), run(&host, batch))
            .await
            .unwrap_err();
        until(words, || world.log.text().contains(words)).await;
    }
    assert!(!world.log.text().contains("never"));
    assert_eq!(call(&host, "t__ping", "{}").await.text, "pong");
}

#[tokio::test]
async fn a_promise_that_nothing_can_settle_is_an_error_at_once() {
    for (text, words) in [
        ("await new Promise(() => {});", "nothing can settle"),
        (
            "await new Promise(async (done) => { undefinedVariable(3); done(true); });",
            "undefinedVariable",
        ),
    ] {
        let began = Instant::now();
        let outcome = body(text).await;
        assert!(
            outcome.is_error && outcome.text.contains(words),
            "{outcome:?}"
        );
        assert!(began.elapsed() < Duration::from_secs(60));
    }
    // A sibling that still works may settle it.
    let world = World::new().skill(
        "t",
        &tools(&[
            ("wait", "return await new Promise((done) => { globalThis.settle = done; });"),
            (
                "settle",
                "await new Promise((done) => setTimeout(done, 100)); settle('settled'); return 'ok';",
            ),
        ]),
    );
    let outcomes = batch(&world.start(), &[("t__wait", "{}"), ("t__settle", "{}")]).await;
    assert_eq!(outcomes[0].text, "settled");
    assert_eq!(outcomes[1].text, "ok");
}

#[tokio::test]
async fn a_call_knows_who_makes_it_and_shows_progress() {
    let world = World::new().skill(
        "t",
        &sync_tools(&[(
            "t",
            "call.progress('half'); return [call.callId, call.tool, call.thread, call.turn, typeof call.deadline, this.tools.length];",
        )]),
    );
    let host = world.start();
    host.skills().await;
    let outcome = call_within(&host, "t__t", Duration::from_secs(20)).await;
    assert_eq!(outcome.text, r#"["c00000","t","thread","turn","number",1]"#);
}

#[tokio::test]
async fn timers_fire_once_each_and_in_order() {
    let outcome = body(
        "const seen = [];
         await new Promise((done) => {
           for (let i = 0; i < 500; i++) setTimeout(() => seen.push(i), 5 + (i % 3));
           const cleared = setTimeout(() => seen.push('cleared'), 5);
           setTimeout(() => clearTimeout(cleared), 2);
           let beats = 0;
           const beat = setInterval(() => { if (++beats === 3) clearInterval(beat); }, 2);
           setTimeout(() => { seen.push('beats ' + beats); done(); }, 200);
           setTimeout('not code', 1) === 0;
         }).catch((error) => seen.push(error.name));
         return seen.length;",
    )
    .await;
    // `setTimeout` of a text throws within the executor: the promise is
    // rejected, and nothing of it is run.
    assert_eq!(outcome.text, "1", "{outcome:?}");
    let outcome = body(
        "const seen = [];
         await new Promise((done) => {
           for (let i = 0; i < 500; i++) setTimeout(() => seen.push(i), 20);
           const cleared = setTimeout(() => seen.push('cleared'), 20);
           setTimeout(() => clearTimeout(cleared), 2);
           let beats = 0;
           const beat = setInterval(() => { if (++beats === 3) clearInterval(beat); }, 2);
           setTimeout(() => { seen.push('beats ' + beats); done(); }, 400);
         });
         return [seen.length, seen.slice(0, 500).every((value, at) => value === at), seen[500]];",
    )
    .await;
    assert_eq!(outcome.text, r#"[501,true,"beats 3"]"#, "{outcome:?}");
}

#[tokio::test]
async fn parallel_synchronous_calls_are_all_answered_and_each_right() {
    let world = World::new().skill("t", &sync_tools(&[("double", "return args.n * 2;")]));
    let arguments: Vec<String> = (0..20).map(|n| format!(r#"{{"n":{n}}}"#)).collect();
    let calls: Vec<_> = arguments
        .iter()
        .map(|a| ("t__double", a.as_str()))
        .collect();
    let outcomes = batch(&world.start(), &calls).await;
    for (n, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome.text, (n * 2).to_string());
        // Twenty of them took two seconds where each waited for a poll.
        assert!(outcome.after < Duration::from_secs(30));
    }
}
