//! Loading: registration, isolation, all or nothing, reload.

mod support;

use std::time::{Duration, Instant};

use haft_api::ToolSource as _;
use support::{World, call, tool};

async fn names(host: &haft_ext_lua::LuaHost) -> Vec<String> {
    let tools = host.tools().await.unwrap();
    tools
        .iter()
        .map(|tool| tool.name.as_str().to_owned())
        .collect()
}

async fn problems(host: &haft_ext_lua::LuaHost) -> String {
    let problems = host.problems().await.unwrap();
    problems
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

#[tokio::test]
async fn tools_appear_with_name_description_schema_and_effects() {
    let world = World::new().file(
        "t.lua",
        "haft.register_tool { name = 'add', description = 'Adds.', effects = { network = true },\n\
         timeout_ms = 500, schema = { type = 'object', required = { 'a' }, properties = {} },\n\
         handler = function() end }\n\
         panto.register_tool { name = 'old', description = 'Of old.', handler = function() end }\n\
         panto.register_command { name = 'c', description = 'A command.', handler = function() end }",
    );
    let host = world.start();
    let tools = host.tools().await.unwrap();
    assert_eq!(names(&host).await, ["add", "old"]);
    assert_eq!(tools[0].description, "Adds.");
    assert_eq!(
        tools[0].input_schema.get(),
        r#"{"properties":{},"required":["a"],"type":"object"}"#
    );
    assert!(tools[0].effects.network && !tools[0].effects.runs_commands);
    assert_eq!(tools[0].timeout_ms, Some(500));
    assert_eq!(host.commands().await.unwrap()[0].name, "c");
    assert_eq!(problems(&host).await, "");
}

#[tokio::test]
async fn a_returned_table_stands_in_place_of_a_call() {
    let entry = |name: &str| {
        format!(
            "{{ name = '{name}', description = 'x', handler = function() return '{name}' end }}"
        )
    };
    let world = World::new()
        .file("a.lua", &format!("return {}", entry("one")))
        .file(
            "b.lua",
            &format!("return {{ {}, {} }}", entry("two"), entry("three")),
        )
        .file(
            "c.lua",
            &format!(
                "return {{ tools = {{ {} }}, commands = {{ {} }} }}",
                entry("four"),
                entry("five")
            ),
        )
        .file("d.lua", &format!("return haft.tool {}", entry("six")));
    let host = world.start();
    assert_eq!(names(&host).await, ["four", "one", "six", "three", "two"]);
    assert_eq!(host.commands().await.unwrap().len(), 1);
    assert_eq!(call(&host, "two", "{}").await.text, "two");
}

#[tokio::test]
async fn what_is_wrong_is_named_and_registers_nothing() {
    let check = async |text: &str, words: &[&str]| {
        let good = "haft.register_tool { name = 'early', description = 'x', handler = print }\n";
        let world = World::new()
            .file("bad.lua", &format!("{good}{text}"))
            .file("good.lua", &tool("fine", "return 'fine'"))
            .limits(|limits| limits.load_ms = 200);
        let host = world.start();
        assert_eq!(names(&host).await, ["fine"], "{text}");
        let said = problems(&host).await;
        for word in [&["bad"], words].concat() {
            assert!(said.contains(word), "{text}: {word}: {said}");
        }
        assert_eq!(call(&host, "fine", "{}").await.text, "fine");
    };
    check(
        "haft.register_tool { description = 'x', handler = print }",
        &["bad.lua:2", "`name` is missing"],
    )
    .await;
    check(
        "haft.register_tool { name = 7, description = 'x', handler = print }",
        &["`name` must be a string, got integer"],
    )
    .await;
    check(
        "haft.register_tool { name = 'a b', description = 'x', handler = print }",
        &["`name`"],
    )
    .await;
    check(
        "haft.register_tool { name = 'a', handler = print }",
        &["`a`", "`description` is missing"],
    )
    .await;
    check(
        "haft.register_tool { name = 'a', description = 'x' }",
        &["`handler` is missing"],
    )
    .await;
    check(
        "haft.register_tool { name = 'a', description = 'x', handler = 'y' }",
        &["`handler` must be a function"],
    )
    .await;
    check(
        "haft.register_tool { name = 'a', description = 'x', schema = 3, handler = print }",
        &["`schema` must be"],
    )
    .await;
    check(
        "haft.register_tool { name = 'a', description = 'x', schema = { 1 }, handler = print }",
        &["`schema`"],
    )
    .await;
    check(
        "haft.register_tool { name = 'a', description = 'x', effects = 'evil', handler = print }",
        &["`evil`"],
    )
    .await;
    check("haft.register_tool 'x'", &["bad.lua:2"]).await;
    check(
        "haft.register_tool { name = 'early', description = 'x', handler = print }",
        &["a second tool `early`"],
    )
    .await;
    check(
        "haft.register_command { name = 'x y', description = 'x', handler = print }",
        &["no command's name"],
    )
    .await;
    check("haft.on('nothing', print)", &["no event `nothing`"]).await;
    check("return 7", &["bad.lua", "returns a integer"]).await;
    check(
        "return { name = 'x' }",
        &["bad.lua", "`description` is missing"],
    )
    .await;
    check("error('at load')", &["bad.lua:2: at load", "traceback"]).await;
    check("error({ code = 1 })", &[r#"{"code":1}"#]).await;
    check("while true do end", &["its time was over"]).await;
    check("coroutine.yield()", &["nothing is left"]).await;
    check("local x = = 1", &["bad.lua:2", "unexpected symbol"]).await;
    check(
        "require 'nowhere'",
        &["module 'nowhere' not found", "no file"],
    )
    .await;
}

#[tokio::test]
async fn top_level_code_runs_once() {
    let world = World::new().file(
        "t.lua",
        &("haft.log('at the top')\n".to_owned() + &tool("t", "return 'called'")),
    );
    let host = world.start();
    for _ in 0..3 {
        assert_eq!(names(&host).await, ["t"]);
        assert_eq!(host.commands().await.unwrap().len(), 0);
        assert_eq!(call(&host, "t", "{}").await.text, "called");
    }
    let log = world.log.text();
    assert_eq!(log.matches("at the top").count(), 1, "{log}");
}

#[tokio::test]
async fn names_are_one_of_a_kind_across_extensions() {
    let world = World::new()
        .file("a.lua", &tool("same", "return 'a'"))
        .file(
            "b.lua",
            &(tool("other", "return 'b'") + &tool("same", "return 'b'")),
        );
    let host = world.start();
    assert_eq!(names(&host).await, ["same"]);
    let said = problems(&host).await;
    assert!(said.contains("`a` has a tool `same` already"), "{said}");
    let command = |text: &str| {
        format!(
            "haft.register_command {{ name = 'same', description = 'x', handler = function() return '{text}' end }}\n"
        )
    };
    let world = World::new()
        .file("a.lua", &command("a"))
        .file("b.lua", &command("b"))
        .file(
            "c.lua",
            &(command("c").replace("same", "own") + &command("c").replace("same", "own")),
        );
    let commands = world.start();
    assert_eq!(commands.commands().await.unwrap().len(), 1);
    let said = problems(&commands).await;
    for words in ["`a` has a command `same` already", "a second command `own`"] {
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(call(&host, "same", "{}").await.text, "a");
}

#[tokio::test]
async fn extensions_share_nothing() {
    let main = |name: &str| {
        format!(
            "shared = (shared or '') .. '{name}'\nlocal util = require 'util'\n{}",
            tool(
                name,
                "string.extra = 1 return { util.name, shared, ('').extra == nil, ('x'):upper(), getmetatable('') }"
            )
        )
    };
    let world = World::new()
        .file(
            "one/init.lua",
            &(main("one") + "string.upper = nil\nstring.lower = error\n"),
        )
        .write_also("one/util.lua", "return require 'inner.deep'")
        .write_also("one/inner/deep.lua", "return { name = 'of one' }")
        .file("two/init.lua", &main("two"))
        .write_also("two/util.lua", "return { name = 'of two' }");
    let host = world.start();
    assert_eq!(
        names(&host).await,
        ["one", "two"],
        "{}",
        problems(&host).await
    );
    assert_eq!(
        call(&host, "one", "{}").await.text,
        r#"["of one","one",true,"X",false]"#
    );
    assert_eq!(
        call(&host, "two", "{}").await.text,
        r#"["of two","two",true,"X",false]"#
    );
}

#[tokio::test]
async fn tools_can_be_left_out_and_it_is_said() {
    let mut world = World::new().file(
        "t.lua",
        &(tool("keep", "return 1") + &tool("drop", "return 1")),
    );
    world.settings.deny_tools.push("drop".to_owned());
    let host = world.start();
    assert_eq!(names(&host).await, ["keep"]);
    assert!(problems(&host).await.contains("drop"));
    assert!(call(&host, "drop", "{}").await.is_error);
}

#[tokio::test]
async fn a_change_is_loaded_and_a_failed_one_keeps_the_old() {
    let mut world = World::new().file("t.lua", &tool("v", "return 'one'"));
    world.settings.reload = Some(true);
    let host = world.start();
    assert_eq!(call(&host, "v", "{}").await.text, "one");
    let until = async |text: &str| {
        let began = Instant::now();
        while call(&host, "v", "{}").await.text != text {
            assert!(
                began.elapsed() < Duration::from_secs(10),
                "{}",
                world.log.text()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    world.write("t.lua", &tool("v", "return 'two'"));
    until("two").await;
    world.write("t.lua", "this is not Lua");
    let began = Instant::now();
    while !world.log.text().contains("not loaded") {
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "{}",
            world.log.text()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(call(&host, "v", "{}").await.text, "two");
    assert!(problems(&host).await.contains("t.lua"));
    world.write("t.lua", &tool("v", "return 'three'"));
    until("three").await;
    assert_eq!(problems(&host).await, "");
}

#[tokio::test]
async fn one_that_hangs_the_state_while_it_loads_is_left_out() {
    let world = World::new()
        .file("a.lua", "table.move({}, 1, 1 << 60, 2)")
        .file("b.lua", &tool("fine", "return 'fine'"))
        .limits(|limits| {
            limits.load_ms = 100;
            limits.wedge_ms = 100;
        });
    let host = world.start();
    assert_eq!(names(&host).await, ["fine"]);
    assert!(problems(&host).await.contains("hung while it was loading"));
}

#[tokio::test]
async fn grants_are_named_when_they_are_missing() {
    let check = async |text: &str, grant: &str| {
        let outcome = support::body(text, Duration::from_secs(5)).await;
        assert!(outcome.is_error, "{text}: {outcome:?}");
        assert!(
            outcome.text.contains(&format!("lacks the grant `{grant}`")),
            "{text}: {outcome:?}"
        );
    };
    check("haft.fs.read('/etc/hostname')", "read").await;
    check("haft.fs.write('/tmp/x', '')", "write").await;
    check("assert(io.open('/etc/hostname'))", "read").await;
    check("assert(os.remove('/tmp/none'))", "write").await;
    check("haft.process.output 'true'", "process").await;
    check("os.getenv('HOME')", "env").await;
    check("haft.http.get('http://localhost:1/')", "network").await;
    check("assert(require('luv').fs_stat('/etc'))", "read").await;
    check("assert(require('luv').spawn('true', {}))", "process").await;
}

#[tokio::test]
async fn the_annotations_say_what_there_is() {
    let list = "local names = {}\n\
        for name, value in pairs(haft) do\n\
          if type(value) == 'function' then names[#names + 1] = name end\n\
          if type(value) == 'table' then for inner, f in pairs(value) do\n\
            if type(f) == 'function' then names[#names + 1] = name .. '.' .. inner end end end\n\
        end table.sort(names) return names";
    let outcome = support::body(list, Duration::from_secs(5)).await;
    let live: Vec<String> = serde_json::from_str(&outcome.text).unwrap();
    let text = haft_ext_lua::annotations();
    let mut declared: Vec<_> = text
        .lines()
        .filter_map(|line| {
            Some(
                line.strip_prefix("function haft.")?
                    .split_once('(')?
                    .0
                    .to_owned(),
            )
        })
        .collect();
    declared.sort();
    assert_eq!(declared, live);
}

#[tokio::test]
async fn a_scaffold_works_and_passes_its_own_test() {
    let folder = tempfile::tempdir().unwrap();
    haft_ext_lua::scaffold(folder.path(), "greet").unwrap();
    let report = haft_ext_lua::check(&folder.path().join("greet"))
        .await
        .unwrap();
    assert!(report.is_fine(), "{report:?}");
    assert_eq!((report.tools.len(), report.tests.len()), (1, 1));
    // Its main file stands for it.
    let of_main = haft_ext_lua::check(&folder.path().join("greet/init.lua"))
        .await
        .unwrap();
    assert_eq!((of_main.tools.len(), of_main.tests.len()), (1, 1));
    assert!(haft_ext_lua::scaffold(folder.path(), "greet").is_err());
    std::fs::write(
        folder.path().join("greet/greeting.lua"),
        "return { to = function() return 'Bye' end }",
    )
    .unwrap();
    let report = haft_ext_lua::check(&folder.path().join("greet"))
        .await
        .unwrap();
    assert!(
        report.tests[0]
            .failure
            .as_deref()
            .unwrap()
            .contains("got: Bye")
    );
}
