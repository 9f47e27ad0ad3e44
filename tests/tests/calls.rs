//! What models ask for and what they get, through the real binary and the real
//! tools.

use std::time::Duration;

use haft_tests::{World, call, calls, outcome, text};
use serde_json::{Value, json};

#[test]
fn a_turn_reads_writes_and_answers() {
    let world = World::new();
    world.file("notes.txt", "milk\neggs\n");
    let rounds = [
        vec![call("a", "read_file", json!({"path": "notes.txt"}))],
        vec![call(
            "b",
            "write_file",
            json!({"path": "out.txt", "content": "done\n"}),
        )],
        text("Milk and eggs."),
    ];
    let run = world.play(&rounds).expect(0);
    assert_eq!(run.stdout, "Milk and eggs.\n");
    let written = std::fs::read_to_string(world.workspace().join("out.txt")).unwrap();
    assert_eq!(written, "done\n");
    assert!(world.outcomes()[0].contains("milk"));
    let types: Vec<_> = world
        .printed("last")
        .iter()
        .map(|item| item["type"].clone())
        .collect();
    assert_eq!(
        types,
        [
            "user_message",
            "tool_call",
            "tool_result",
            "tool_call",
            "tool_result",
            "assistant_message"
        ]
    );
}

#[test]
fn one_of_three_calls_fails_and_the_others_do_not_notice() {
    let world = World::new();
    world.file("a.txt", "A");
    world.file("c.txt", "C");
    let paths = ["a.txt", "missing.txt", "c.txt"].map(|path| json!({"path": path}));
    world
        .play(&[calls("read_file", paths), text("ok")])
        .expect(0);
    let outcomes = world.outcomes();
    assert!(
        outcomes[0].contains('A') && outcomes[2].contains('C'),
        "{outcomes:?}"
    );
    assert!(outcomes[1].starts_with("read_file: !") && outcomes[1].contains("missing.txt"));
}

#[test]
fn missing_and_duplicate_ids_are_repaired() {
    let world = World::new();
    for name in ["1", "2", "3", "4"] {
        world.file(name, format!("file {name}"));
    }
    let read = |id: Value, path: &str| {
        let mut call = call("", "read_file", json!({"path": path}));
        call["id"] = id;
        call
    };
    let mut absent = read(Value::Null, "2");
    absent.as_object_mut().unwrap().remove("id");
    let round = vec![
        read(json!(""), "1"),
        absent,
        read(json!("x"), "3"),
        read(json!("x"), "4"),
    ];
    world.play(&[round, text("ok")]).expect(0);
    let outcomes = world.outcomes();
    for (outcome, name) in outcomes.iter().zip(1..) {
        assert!(outcome.contains(&format!("file {name}")), "{outcomes:?}");
    }
    let printed = world.printed("last");
    let ids: std::collections::BTreeSet<_> = printed
        .iter()
        .filter_map(|item| item["id"].as_str())
        .collect();
    assert_eq!(ids.len(), 4);
}

#[test]
fn what_stands_for_no_arguments_works_as_none() {
    let world = World::new();
    world.file("here.txt", "");
    let mut absent = call("e", "list_files", json!({}));
    absent.as_object_mut().unwrap().remove("arguments");
    let round = vec![
        call("a", "list_files", json!("")),
        call("b", "list_files", json!("null")),
        call("c", "list_files", json!(" ")),
        call("d", "list_files", json!({})),
        absent,
    ];
    world.play(&[round, text("ok")]).expect(0);
    for outcome in world.outcomes() {
        assert!(
            outcome.contains("here.txt") && !outcome.contains('!'),
            "{outcome}"
        );
    }
}

#[test]
fn a_call_that_cannot_run_says_why() {
    let world = World::new();
    let check = |name: &str, arguments: Value, words: &[&str]| {
        world
            .play(&[vec![call("a", name, arguments)], text("ok")])
            .expect(0);
        let outcome = world.outcomes().remove(0);
        assert!(outcome.contains('!'), "{outcome}");
        words
            .iter()
            .for_each(|word| assert!(outcome.contains(word), "{word} in {outcome}"));
    };
    check(
        "readfile",
        json!({"path": "x"}),
        &["`readfile`", "Did you mean `read_file`?", "shell"],
    );
    check(
        "read_file",
        json!("{\"path\":"),
        &["not valid JSON", "column 8", "{\"path\":"],
    );
    check("read_file", json!({}), &["path"]);
    check("read_file", json!({"path": 5}), &["/path"]);
}

#[test]
fn commands_leave_no_process_behind() {
    // Each marker is in a command line of its own.
    let check = |command: &str, timeout: Option<u64>, words: &[&str]| {
        let world = World::new();
        let marker = format!(
            "86{}",
            std::process::id() % 1000 + 1000 * command.len() as u32
        );
        let command = command.replace("MARK", &marker);
        let mut arguments = json!({"command": command});
        if let Some(seconds) = timeout {
            arguments["timeout"] = json!(seconds);
        }
        let run = world
            .play(&[vec![call("a", "shell", arguments)], text("ok")])
            .expect(0);
        assert!(
            run.took < Duration::from_secs(20),
            "{command} took {:?}",
            run.took
        );
        let outcome = world.outcomes().remove(0);
        words
            .iter()
            .for_each(|word| assert!(outcome.contains(word), "{word} in {outcome}"));
        std::thread::sleep(Duration::from_secs(1));
        let left = haft_tests::marked_processes(&marker);
        assert!(left.is_empty(), "{command} left {left:?}");
    };
    check(
        "echo early; sh -c 'sleep MARK & sleep MARK; echo x'",
        Some(1),
        &["early", "!"],
    );
    check(
        "echo early; setsid sleep MARK & sleep MARK",
        Some(1),
        &["early", "!"],
    );
    check(
        "(trap '' TERM; echo early; sleep MARK; sleep MARK)",
        Some(1),
        &["early", "!"],
    );
    check("sleep MARK & echo hi", None, &["hi", "background process"]);
    check("setsid sleep MARK & echo hi", None, &["hi"]);
}

#[test]
fn a_pipe_held_open_holds_nobody_up() {
    let world = World::new();
    let command = json!({"name": "shell", "arguments": {"command": "sleep 30 & echo hi"}});
    std::fs::write(world.dir().join("batch"), command.to_string()).unwrap();
    let batch = world.dir().join("batch");
    let run = world
        .run([
            "tools",
            "call",
            "--batch",
            batch.to_str().unwrap(),
            "--json",
        ])
        .expect(0);
    assert!(run.took < Duration::from_secs(10), "{:?}", run.took);
    let outcome = outcome(&run.json_lines()[0]);
    assert!(
        outcome.contains("hi") && outcome.contains("background process"),
        "{outcome}"
    );
}

#[test]
fn long_and_odd_output_is_bounded_and_valid() {
    let world = World::new();
    let check = |command: &str, total: usize| {
        let round = vec![call("a", "shell", json!({"command": command}))];
        world.play(&[round, text("ok")]).expect(0);
        let outcome = world.outcomes().remove(0);
        assert!(outcome.len() < 40_000, "{} of {command}", outcome.len());
        assert!(
            outcome.contains(&format!("of {total} bytes shown")),
            "{command}"
        );
        let (_, path) = outcome
            .split_once("all of it is in ")
            .expect("a spill file");
        let (path, _) = path.split_once(']').expect("the path's end");
        assert_eq!(
            std::fs::metadata(path).unwrap().len(),
            total as u64,
            "every byte"
        );
    };
    check("yes 中 | head -n 40000 | tr -d '\\n'", 120_000);
    check("yes '🦀' | head -c 400000", 400_000);
    check("head -c 100000 /dev/urandom", 100_000);
}

#[test]
fn tools_run_without_a_model() {
    let world = World::new();
    world.file("a.txt", "content of a");
    let one = world
        .run(["tools", "call", "read_file", r#"{"path":"a.txt"}"#])
        .expect(0);
    assert!(one.stdout.contains("content of a"));
    let failed = world
        .run(["tools", "call", "read_file", r#"{"path":"b.txt"}"#])
        .expect(1);
    assert!(
        failed.stdout.contains("b.txt"),
        "the result is the output: {}",
        failed.stderr
    );
    let batch = world.dir().join("batch");
    let lines = [
        json!({"name": "read_file", "arguments": {"path": "a.txt"}}),
        json!({"name": "nonsense", "arguments": {}}),
        json!({"name": "read_file", "arguments": {"path": "a.txt"}}),
    ];
    std::fs::write(&batch, lines.map(|line| format!("{line}\n")).concat()).unwrap();
    let run = world.run([
        "tools",
        "call",
        "--batch",
        batch.to_str().unwrap(),
        "--json",
    ]);
    let errors: Vec<_> = run
        .json_lines()
        .iter()
        .map(|r| r["is_error"] == true)
        .collect();
    assert_eq!(errors, [false, true, false]);
    let listed = world
        .run(["tools", "list", "--json"])
        .expect(0)
        .json_lines();
    let names: Vec<_> = listed
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    for name in [
        "edit",
        "glob",
        "grep",
        "list_files",
        "read_file",
        "shell",
        "write_file",
    ] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
}

#[test]
fn approval_follows_what_tools_declare() {
    let world = World::new();
    world.file("a.txt", "content of a");
    let script = world.script(&[
        vec![
            call("a", "read_file", json!({"path": "a.txt"})),
            call("b", "shell", json!({"command": "touch ran"})),
            call("c", "write_file", json!({"path": "wrote", "content": "x"})),
        ],
        text("ok"),
    ]);
    let script = script.to_str().unwrap();
    let check = |mode: &str, ran: bool, wrote: bool| {
        for name in ["ran", "wrote"] {
            std::fs::remove_file(world.workspace().join(name)).ok();
        }
        let args = [
            "run",
            "--engine",
            "replay",
            "--model",
            script,
            "--approve",
            mode,
            "go",
        ];
        world.run(args).expect(0);
        assert!(
            world.outcomes()[0].contains("content of a"),
            "reading is free"
        );
        assert_eq!(world.workspace().join("ran").exists(), ran, "{mode}");
        assert_eq!(world.workspace().join("wrote").exists(), wrote, "{mode}");
    };
    check("ask", false, false);
    check("edits", false, true);
    check("plan", false, false);
    check("all", true, true);
}
