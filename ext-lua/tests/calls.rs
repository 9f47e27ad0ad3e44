//! Calls: batches, state, errors, arguments and results.

mod support;

use std::time::Duration;

use haft_api::ToolSource as _;
use support::{batch, body, call, calls, run, script, tool};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn state_lives_across_calls_and_batches() {
    let text = format!(
        "local n = 0\n{}",
        tool("count", "n = n + 1 return tostring(n)")
    );
    let (_world, host) = script(&text);
    let outcomes = batch(&host, &[("count", "{}"), ("count", "{}"), ("count", "{}")]).await;
    let texts: Vec<_> = outcomes.iter().map(|o| o.text.as_str()).collect();
    assert_eq!(texts, ["1", "2", "3"]);
    assert_eq!(call(&host, "count", "{}").await.text, "4");
}

#[tokio::test]
async fn results_belong_to_their_calls_whatever_order_they_come_in() {
    let (_world, host) = script(&tool("nap", "haft.sleep(args.ms) return args.id"));
    let of = [
        ("nap", r#"{"ms":60,"id":"a"}"#),
        ("nap", r#"{"ms":1,"id":"b"}"#),
        ("nap", r#"{"ms":30,"id":"c"}"#),
    ];
    let outcomes = batch(&host, &of).await;
    let texts: Vec<_> = outcomes.iter().map(|o| o.text.as_str()).collect();
    assert_eq!(texts, ["a", "b", "c"]);
    assert!(outcomes[1].after < outcomes[2].after && outcomes[2].after < outcomes[0].after);
}

#[tokio::test]
async fn one_that_raises_leaves_its_siblings_alone() {
    let text = tool("good", "haft.sleep(5) return 'fine'")
        + &tool("bad", "local t = nil\nreturn t.x")
        + &tool("thrown", "error({ code = 7, message = 'no luck' })");
    let (_world, host) = script(&text);
    let outcomes = batch(
        &host,
        &[
            ("good", "{}"),
            ("bad", "{}"),
            ("thrown", "{}"),
            ("good", "{}"),
        ],
    )
    .await;
    assert_eq!(
        (outcomes[0].text.as_str(), outcomes[0].is_error),
        ("fine", false)
    );
    assert_eq!(
        (outcomes[3].text.as_str(), outcomes[3].is_error),
        ("fine", false)
    );
    let bad = &outcomes[1];
    assert!(bad.is_error);
    for words in [
        "`bad`",
        "t.lua:",
        "attempt to index a nil value",
        "stack traceback",
    ] {
        assert!(bad.text.contains(words), "{words}: {}", bad.text);
    }
    let thrown = &outcomes[2];
    assert!(
        thrown.is_error && thrown.text.contains("no luck"),
        "{}",
        thrown.text
    );
    assert!(
        thrown.text.contains(r#"{"code":7,"message":"no luck"}"#),
        "{}",
        thrown.text
    );
}

#[tokio::test]
async fn errors_that_are_tables_keep_their_fields() {
    let check = async |text: &str, expected: &str| {
        let outcome = body(text, SECOND).await;
        assert_eq!(
            (outcome.text.as_str(), outcome.is_error),
            (expected, false),
            "{text}"
        );
    };
    let raise = "error({ code = 7, at = { 1, 2 } })";
    let shown = "return { e.code, e.at, getmetatable(e) == nil }";
    for caught in [
        format!("local _, e = pcall(function() {raise} end)"),
        format!("local _, e = pcall(function() haft.sleep(1) {raise} end)"),
        format!("local _, e = xpcall(function() {raise} end, function(e) return e end)"),
        format!(
            "local _, e = coroutine.resume(coroutine.create(function() haft.sleep(1) {raise} end))"
        ),
        format!("local _, e = pcall(coroutine.wrap(function() haft.sleep(1) {raise} end))"),
    ] {
        check(&format!("{caught} {shown}"), "[7,[1,2],true]").await;
    }
    let outcome = body(raise, SECOND).await;
    assert!(
        outcome.is_error && outcome.text.contains(r#"{"at":[1,2],"code":7}"#),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn unknown_tools_and_bad_arguments_cost_their_own_call() {
    let (_world, host) = script(&tool("good", "return 'fine'"));
    let outcomes = batch(
        &host,
        &[
            ("none", "{}"),
            ("good", r#""{\"x\":""#),
            ("good", r#"{"n":18446744073709551615}"#),
            ("good", "{}"),
        ],
    )
    .await;
    let check = |at: usize, words: &str| {
        assert!(
            outcomes[at].is_error && outcomes[at].text.contains(words),
            "{:?}",
            outcomes[at]
        );
    };
    check(0, "no Lua extension has this tool");
    check(1, "no JSON object");
    check(2, "doesn't fit in 64 bits");
    assert_eq!(outcomes[3].text, "fine");
}

#[tokio::test]
async fn results_take_every_shape() {
    let check = async |text: &str, expected: &str, is_error: bool| {
        let outcome = body(text, SECOND).await;
        assert_eq!(
            (outcome.text.as_str(), outcome.is_error),
            (expected, is_error),
            "{text}"
        );
    };
    check("return 'text'", "text", false).await;
    check("return", "", false).await;
    check("return ''", "", false).await;
    check("return 7", "7", false).await;
    check("return 7.0", "7.0", false).await;
    check("return false", "false", false).await;
    check("return { a = { 1, 2 } }", r#"{"a":[1,2]}"#, false).await;
    check("return {}", "{}", false).await;
    check("return haft.json.array()", "[]", false).await;
    check(
        "return { haft.text('a'), haft.json_part({ b = 1 }) }",
        "a\n{\"b\":1}",
        false,
    )
    .await;
    check(
        "return haft.image { media_type = 'image/png', bytes = 'abc' }",
        "image/png:YWJj",
        false,
    )
    .await;
    check(
        "return { content = { haft.text('no') }, is_error = true }",
        "no",
        true,
    )
    .await;
    check("return nil, 'it went wrong'", "it went wrong", true).await;
    check(
        "return haft.json.decode('{\"a\":[],\"b\":{},\"c\":null}')",
        r#"{"a":[],"b":{},"c":null}"#,
        false,
    )
    .await;
    check("return 9007199254740993", "9007199254740993", false).await;
    check(
        "return haft.json.object({ [9007199254740993] = 1 })",
        r#"{"9007199254740993":1}"#,
        false,
    )
    .await;
    check(
        "return haft.json.array({ 1, nil, 3 }, 4)",
        "[1,null,3,null]",
        false,
    )
    .await;
}

#[tokio::test]
async fn results_that_would_lose_something_are_errors() {
    let check = async |text: &str, words: &str| {
        let outcome = body(text, SECOND).await;
        assert!(
            outcome.is_error && outcome.text.contains(words),
            "{text}: {outcome:?}"
        );
    };
    check("return 0/0", "NaN").await;
    check("return { a = math.huge }", "`a` is inf").await;
    check("return '\\xff'", "isn't UTF-8").await;
    check("local t = {} t.t = t return t", "cycle").await;
    check("return { 1, nil, 3 }", "holes").await;
    check("return { 1, x = 2 }", "numbers and strings as keys").await;
    check("return print", "function").await;
    check(
        "local t = {} for _ = 1, 10000 do t = { t } end return t",
        "deeper than 128",
    )
    .await;
    check(
        "return haft.json.decode(('['):rep(10000))",
        "deeper than 128",
    )
    .await;
    check(
        "return { { type = 'image', media_type = 'image/png', data = '!' } }",
        "base64",
    )
    .await;
}

#[tokio::test]
async fn a_mebibyte_comes_back_whole() {
    let outcome = body("return ('x'):rep(1024 * 1024)", SECOND * 5).await;
    assert_eq!(outcome.text.len(), 1024 * 1024);
    assert!(!outcome.is_error);
    let list = "local t = {} for i = 1, 40000 do t[i] = { id = i, name = 'n' .. i } end return t";
    let outcome = body(list, SECOND * 30).await;
    assert!(!outcome.is_error, "{outcome:?}");
    let value: serde_json::Value = serde_json::from_str(&outcome.text).unwrap();
    let items = value.as_array().unwrap();
    assert!(outcome.text.len() > 1024 * 1024 && items.len() == 40_000);
    assert_eq!(
        items[39_999],
        serde_json::json!({ "id": 40_000, "name": "n40000" })
    );
}

#[tokio::test]
async fn a_call_knows_its_context() {
    let text = tool(
        "who",
        "ctx.progress('half ') ctx:progress('way')\n\
         return { ctx.thread, ctx.turn, ctx.call_id, ctx.tool, ctx.cancelled, ctx.deadline > 1e12 }",
    );
    let (_world, host) = script(&text);
    let outcomes = run(&host, calls(&[("who", "{}")], Some(SECOND))).await;
    assert_eq!(
        outcomes[0].text,
        r#"["thread","turn","c00000","who",false,true]"#
    );
}

#[tokio::test]
async fn commands_take_the_rest_of_the_line() {
    let text = "local said = {}\n\
        haft.register_command { name = 'say', description = 'Says.', handler = function(text)\n\
        haft.sleep(5) said[#said + 1] = text return 'said ' .. #said end }\n\
        haft.register_command { name = 'where', description = 'Says where.', handler = function(_, ctx) return ctx.tool .. ' in ' .. ctx.thread end }\n\
        haft.register_command { name = 'no', description = 'Refuses.', handler = function() return nil, 'not today' end }\n\
        haft.register_command { name = 'list', description = 'Returns a table.', handler = function() return {} end }\n\
        haft.register_command { name = 'oops', description = 'Fails.', handler = function() error('no') end }\n";
    let (_world, host) =
        script(&(text.to_owned() + &tool("said", "return table.concat(said, '|')")));
    assert_eq!(host.commands().await.unwrap().len(), 5);
    assert_eq!(haft_api::ToolSource::tools(&host).await.unwrap().len(), 1);
    let run = async |name: &str, text: &str| {
        let call = haft_api::SlashCommandCall::new(name, text)
            .thread(haft_api::ThreadId::new("t7").unwrap());
        let ran = host.run_command(call).await;
        ran.map(|output| output.text).map_err(|e| e.to_string())
    };
    let shown = run("say", "a b  c").await.unwrap();
    assert_eq!(shown.as_deref(), Some("said 1"));
    assert_eq!(
        run("where", "").await.unwrap().as_deref(),
        Some("where in t7")
    );
    let error = run("no", "").await.unwrap_err();
    assert!(error.contains("not today"), "{error}");
    let error = run("list", "").await.unwrap_err();
    assert!(error.contains("got table"), "{error}");
    let error = run("oops", "").await.unwrap_err();
    assert!(
        error.contains("no") && error.contains("stack traceback"),
        "{error}"
    );
    assert_eq!(call(&host, "said", "{}").await.text, "a b  c");
    let error = run("none", "").await.unwrap_err();
    assert!(error.contains("`none`"), "{error}");
}
