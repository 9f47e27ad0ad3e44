//! Lua extensions as an author and a user have them: files, and the real
//! binary.

use std::path::PathBuf;
use std::time::Duration;

use haft_tests::{Finished, Running, World, call, marked_processes, outcome, text};
use serde_json::{Value, json};

const COUNTER: &str = r#"
local n = 0
haft.register_tool { name = "count", description = "Counts.", effects = "pure",
  handler = function() n = n + 1 return n end }
haft.register_tool { name = "sum", description = "Adds.", effects = "pure",
  schema = { type = "object", required = { "a", "b" },
    properties = { a = { type = "number" }, b = { type = "number" } } },
  handler = function(args) return args.a + args.b end }
haft.register_tool { name = "nap", description = "Sleeps.", effects = "pure",
  handler = function(args) haft.sleep(args.ms) return "rested " .. args.ms end }
haft.register_tool { name = "fail", description = "Fails.", effects = "pure",
  handler = function(args, ctx)
    error("no luck")
  end }
haft.register_tool { name = "spin", description = "Never ends.", effects = "pure",
  handler = function() while true do pcall(function() while true do end end) end end }
haft.register_tool { name = "stray", description = "Yields.", effects = "pure",
  handler = function() coroutine.yield() end }
haft.register_tool { name = "shapes", description = "Returns parts.", effects = "pure",
  handler = function() return { haft.text("words"), haft.json_part({ empty = haft.json.array() }),
    haft.image { media_type = "image/png", bytes = "abc" } } end }
"#;

struct Author(World);

impl Author {
    fn new() -> Self {
        Self(World::new())
    }

    /// Writes an extension's file in the workspace, and gives its path.
    fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.0.workspace().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Runs calls in one round; prints one result a line.
    fn batch(&self, ext: &str, calls: &[(&str, Value)], more: &[&str]) -> Finished {
        let lines: String = calls
            .iter()
            .map(|(name, arguments)| format!("{}\n", json!({"name": name, "arguments": arguments})))
            .collect();
        let batch = self.write("batch.jsonl", &lines);
        let mut args = vec!["tools", "call", "--batch", batch.to_str().unwrap()];
        args.extend(["--ext", ext]);
        args.extend(more);
        self.0.run(args)
    }
}

fn outcomes(run: &Finished) -> Vec<String> {
    run.json_lines().iter().map(outcome).collect()
}

#[test]
fn a_batch_shares_its_state_and_keeps_failures_apart() {
    let author = Author::new();
    author.write("counter.lua", COUNTER);
    let run = author
        .batch(
            "counter.lua",
            &[
                ("count", json!({})),
                ("nap", json!({"ms": 40})),
                ("count", json!({})),
                ("fail", json!({})),
                ("nope", json!({})),
                ("sum", json!({"a": 1})),
                ("sum", json!("{\"a\":")),
                ("stray", json!({})),
                ("sum", json!({"a": 1, "b": 2.5})),
                ("nap", json!({"ms": 1})),
                ("count", json!({})),
            ],
            &[],
        )
        .expect(1);
    let outcomes = outcomes(&run);
    for (at, expected) in [
        (0, "count: 1"),
        (1, "nap: rested 40"),
        (2, "count: 2"),
        (8, "sum: 3.5"),
        (9, "nap: rested 1"),
        (10, "count: 3"),
    ] {
        assert_eq!(outcomes[at], expected);
    }
    for (at, words) in [
        (
            3,
            &["fail: !", "counter.lua:13: no luck", "stack traceback"][..],
        ),
        (4, &["nope: !"]),
        (5, &["sum: !", "b"]),
        (6, &["sum: !"]),
        (7, &["stray: !", "nothing is left"]),
    ] {
        for word in words {
            assert!(outcomes[at].contains(word), "{word}: {}", outcomes[at]);
        }
    }
}

#[test]
fn a_program_that_never_ends_ends_at_the_deadline_and_harms_nobody() {
    let author = Author::new();
    author.write("counter.lua", COUNTER);
    let run = author
        .batch(
            "counter.lua",
            &[
                ("spin", json!({})),
                ("nap", json!({"ms": 20})),
                ("count", json!({})),
            ],
            &["--deadline", "1"],
        )
        .expect(1);
    let outcomes = outcomes(&run);
    assert!(outcomes[0].starts_with("spin: !"), "{outcomes:?}");
    assert_eq!(outcomes[1..], ["nap: rested 20", "count: 1"]);
    assert!(run.took < Duration::from_secs(30), "{:?}", run.took);
}

#[test]
fn many_calls_wait_at_once() {
    let author = Author::new();
    author.write("counter.lua", COUNTER);
    let calls: Vec<_> = (0..64).map(|_| ("nap", json!({"ms": 500}))).collect();
    let run = author.batch("counter.lua", &calls, &[]).expect(0);
    assert!(outcomes(&run).iter().all(|o| o == "nap: rested 500"));
    // One after another they would take 32 s.
    assert!(run.took < Duration::from_secs(16), "{:?}", run.took);
}

#[test]
fn results_have_parts() {
    let author = Author::new();
    author.write("counter.lua", COUNTER);
    let run = author
        .batch("counter.lua", &[("shapes", json!({}))], &[])
        .expect(0);
    let parts = &run.json_lines()[0]["parts"];
    assert_eq!(parts[0], json!({"type": "text", "text": "words"}));
    assert_eq!(parts[1]["value"], json!({"empty": []}));
    assert_eq!(parts[2]["media_type"], "image/png");
    assert_eq!(parts[2]["data"], "YWJj");
}

#[test]
fn what_does_not_load_is_told_with_file_and_line_and_costs_only_itself() {
    let author = Author::new();
    let broken = "haft.register_tool { name = 'half', description = 'x', handler = print }\nerror('at load')\n";
    author.write("broken.lua", broken);
    author.write("counter.lua", COUNTER);
    let listed = author
        .0
        .run([
            "tools",
            "list",
            "--ext",
            "broken.lua",
            "--ext",
            "counter.lua",
        ])
        .expect(0);
    assert!(listed.stdout.contains("count ") && !listed.stdout.contains("half"));
    assert!(
        listed.stderr.contains("broken.lua:2: at load"),
        "{}",
        listed.stderr
    );
    let checked = author.0.run(["ext", "check", "broken.lua"]).expect(1);
    assert!(
        checked.stdout.contains("broken.lua:2: at load"),
        "{}",
        checked.stdout
    );
    let missing = author.0.run(["tools", "list", "--ext", "none.lua"]);
    missing.expect_error(2, &["none.lua"]);
}

#[test]
fn what_is_not_granted_is_denied_by_name() {
    let author = Author::new();
    let tool = |body: &str| {
        format!(
            "haft.register_tool {{ name = 'reach', description = 'Reaches.', effects = 'pure',\n\
             handler = function() {body} end }}\n"
        )
    };
    for (body, grant) in [
        ("return os.getenv('HOME')", "env"),
        ("return assert(io.open('/etc/passwd')):read('a')", "read"),
        ("return haft.process.output('true').code", "process"),
        (
            "return haft.http.get('http://127.0.0.1:1/').status",
            "network",
        ),
    ] {
        author.write("reach.lua", &tool(body));
        let run = author
            .batch("reach.lua", &[("reach", json!({}))], &[])
            .expect(1);
        let told = &outcomes(&run)[0];
        assert!(
            told.contains(&format!("lacks the grant `{grant}`")),
            "{told}"
        );
    }
    author.write(
        "reach.lua",
        &("--@grants env=HOME\n".to_owned() + &tool("return os.getenv('HOME') ~= nil")),
    );
    let run = author
        .batch("reach.lua", &[("reach", json!({}))], &[])
        .expect(0);
    assert_eq!(outcomes(&run), ["reach: true"]);
    // The user's own word is above the script's.
    author.write(
        "../config/haft/config.toml",
        "[ext.lua.grants.reach]\nenv = false\n",
    );
    let run = author
        .batch("reach.lua", &[("reach", json!({}))], &[])
        .expect(1);
    assert!(outcomes(&run)[0].contains("lacks the grant `env`"));
}

#[test]
fn a_new_extension_works_is_tested_and_has_types() {
    let author = Author::new();
    let made = author.0.run(["ext", "new", "--lua", "greet"]).expect(0);
    for file in ["init.lua", "tests.jsonl", ".luarc.json", ".types/haft.lua"] {
        assert!(
            made.stdout.contains(&format!("greet/{file}")),
            "{}",
            made.stdout
        );
        assert!(author.0.workspace().join("greet").join(file).is_file());
    }
    let checked = author.0.run(["ext", "check", "greet"]).expect(0);
    assert!(
        checked.stdout.contains("tool     greet"),
        "{}",
        checked.stdout
    );
    assert!(checked.stdout.contains("passed   tests.jsonl:1 greet"));
    let arguments = r#"{"who":"world"}"#;
    let called = author
        .0
        .run(["tools", "call", "greet", arguments, "--ext", "greet"])
        .expect(0);
    assert_eq!(called.stdout, "Hello, world!\n");
    author
        .0
        .run(["ext", "new", "--lua", "greet"])
        .expect_error(2, &["greet"]);

    author.write(
        "greet/tests.jsonl",
        "{\"name\":\"greet\",\"arguments\":{\"who\":\"x\"},\"expect\":\"Bye\"}\n",
    );
    let checked = author.0.run(["ext", "check", "greet"]).expect(1);
    assert!(checked.stdout.contains("FAILED") && checked.stdout.contains("Hello, x!"));

    // In the user's own folder it needs no flag.
    let folder = author.0.dir().join("config/haft/extensions");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::rename(author.0.workspace().join("greet"), folder.join("greet")).unwrap();
    let called = author
        .0
        .run(["tools", "call", "greet", arguments])
        .expect(0);
    assert_eq!(called.stdout, "Hello, world!\n");
}

const COMMANDS: &str = r#"
local said = {}
haft.register_command { name = "say", description = "Says it.",
  handler = function(text, ctx)
    haft.sleep(1)
    said[#said + 1] = text
    return "said " .. text .. (ctx.thread and " in a thread" or "")
  end }
haft.register_command { name = "oops", description = "Fails.",
  handler = function() error("went wrong") end }
haft.register_tool { name = "said", description = "What was said.", effects = "pure",
  handler = function() return table.concat(said, ",") end }
"#;

#[test]
fn a_chat_takes_slash_commands() {
    let author = Author::new();
    author.write("commands.lua", COMMANDS);
    let script = author
        .0
        .script(&[vec![call("a", "said", json!({}))], text("heard")]);
    let script = script.to_str().unwrap();
    let chat = [
        "chat",
        "--engine",
        "replay",
        "--model",
        script,
        "--ext",
        "commands.lua",
    ];
    let mut chat = Running::talk(author.0.haft(chat));
    for line in [
        "/help",
        "/say one  two",
        "/oops",
        "/sya",
        "what was said?",
        "/say more",
        " /say to the model",
    ] {
        chat.say(line);
    }
    let done = chat.finish().expect(0);
    let lines: Vec<_> = done.stdout.lines().collect();
    assert_eq!(
        lines[..5],
        [
            "/oops     Fails.",
            "/say      Says it.",
            "/compact  Summarises the conversation so far.",
            "/help     Lists the commands.",
            "said one  two"
        ]
    );
    assert!(lines.contains(&"said more in a thread"), "{lines:?}");
    assert!(
        done.stderr.contains("commands.lua:10: went wrong"),
        "{}",
        done.stderr
    );
    assert!(
        done.stderr
            .contains("there is no command `/sya`; did you mean `/say`?"),
        "{}",
        done.stderr
    );
    assert_eq!(author.0.outcomes(), ["said: one  two"]);
    let asked = author.0.printed("last");
    let asked: Vec<_> = asked
        .iter()
        .filter(|i| i["type"] == "user_message")
        .collect();
    assert_eq!(asked[1]["parts"][0]["text"], " /say to the model");
}

#[test]
fn a_changed_script_is_used_without_a_restart() {
    let author = Author::new();
    let version = |words: &str| {
        format!(
            "haft.register_command {{ name = 'v', description = 'x', handler = function() return '{words}' end }}\n"
        )
    };
    author.write("v.lua", &version("first"));
    let script = author.0.script(&[text("ok")]);
    let script = script.to_str().unwrap();
    let chat = [
        "chat", "--engine", "replay", "--model", script, "--ext", "v.lua",
    ];
    let mut chat = Running::talk(author.0.haft(chat));
    chat.say("/v");
    chat.wait_for("first");
    author.write("v.lua", &version("second"));
    for _ in 0..600 {
        chat.say("/v");
        if chat.wait_for("") == "second\n" {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    author.write("v.lua", "this is not Lua");
    std::thread::sleep(Duration::from_millis(500));
    chat.say("/v");
    chat.wait_for("second");
    chat.finish().expect(0);
}

#[test]
fn listeners_hear_of_turns_and_their_state_outlives_the_process() {
    let author = Author::new();
    let script = r#"
local function note(e)
  local seen = haft.state.get("seen") or {}
  seen[e.type] = (seen[e.type] or 0) + 1
  haft.state.set("seen", haft.json.object(seen))
end
for _, event in ipairs { "turn.started", "tool.started", "tool.completed", "item.appended" } do haft.on(event, note) end
haft.register_tool { name = "seen", description = "What was seen.", effects = "pure",
  handler = function() haft.sleep(100) return haft.state.get("seen") end }
"#;
    author.write("seen.lua", script);
    let rounds = [
        vec![call("a", "seen", json!({}))],
        vec![call("b", "seen", json!({}))],
        text("ok"),
    ];
    author
        .0
        .run(author.0.turn(&rounds, &["--ext", "seen.lua"]))
        .expect(0);
    let last = author.0.printed("last");
    let results: Vec<_> = last.iter().filter(|i| i["type"] == "tool_result").collect();
    let seen = &results[1]["parts"][0]["value"];
    assert_eq!(seen["turn.started"], 1, "{results:?}");
    assert!(seen["tool.completed"].as_u64() >= Some(1), "{results:?}");
    let run = author
        .batch("seen.lua", &[("seen", json!({}))], &[])
        .expect(0);
    assert_eq!(run.json_lines()[0]["parts"][0]["value"]["turn.started"], 1);
}

#[test]
fn an_interrupt_reaches_the_script_and_its_programs() {
    let author = Author::new();
    let marker = "98761.5";
    let script = format!(
        "--@grants process write\n\
         haft.register_tool {{ name = 'hold', description = 'Holds.', effects = 'pure', handler = function()\n\
           local done <close> = setmetatable({{}}, {{ __close = function() haft.log('closed in time') end }})\n\
           haft.log('holding')\n\
           haft.process.output {{ argv = {{ 'sleep', '{marker}' }} }}\n\
         end }}\n"
    );
    author.write("hold.lua", &script);
    let rounds = [vec![call("a", "hold", json!({}))], text("ok")];
    let mut args = author.0.turn(&rounds, &["--ext", "hold.lua"]);
    args.insert(1, "--json".to_owned());
    let mut run = Running::start(author.0.haft(&args));
    run.wait_for("tool.started");
    while marked_processes(marker).is_empty() {
        std::thread::sleep(Duration::from_millis(20));
    }
    run.signal("INT");
    let done = run.finish().expect(130);
    assert!(done.stderr.contains("closed in time"), "{}", done.stderr);
    // It was killed before the command ended; the kernel may still be at it.
    let gone = (0..250).find_map(|_| {
        std::thread::sleep(Duration::from_millis(20));
        marked_processes(marker).is_empty().then_some(())
    });
    assert!(gone.is_some(), "left: {:?}", marked_processes(marker));
}
