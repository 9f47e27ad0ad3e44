//! The command, end to end, with the engine `replay`.
#![cfg(all(
    unix,
    feature = "cli",
    feature = "engine-replay",
    feature = "runner-local",
    feature = "store-jsonl",
    feature = "tools-coding"
))]

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A home, a workspace, and scripts.
struct World {
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("w")).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A script; each round is its events.
    fn script(&self, rounds: &[Value]) -> String {
        let lines: Vec<_> = rounds
            .iter()
            .map(|events| json!({ "events": events }).to_string())
            .collect();
        self.write("script.jsonl", &lines.join("\n"))
            .to_str()
            .unwrap()
            .to_owned()
    }

    fn haft(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
        command
            .args(args)
            .current_dir(self.path("w"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HAFT_HOME", self.path("home"))
            .env("XDG_CONFIG_HOME", self.path("config"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, args: &[&str]) -> Done {
        Done::of(self.haft(args).output().unwrap())
    }

    /// One turn that plays these rounds.
    fn turn(&self, rounds: &[Value], args: &[&str]) -> Done {
        self.run(&self.turn_args(&self.script(rounds), args))
    }

    fn turn_args<'a>(&self, script: &'a str, args: &[&'a str]) -> Vec<&'a str> {
        let mut all = vec!["run", "--engine", "replay", "--model", script];
        all.extend(args);
        if !args.contains(&"hi there") {
            all.push("hi there");
        }
        all
    }

    fn items(&self) -> Vec<Value> {
        self.run(&["threads", "show", "last", "--json"])
            .status(0)
            .lines()
    }
}

struct Done {
    status: Option<i32>,
    out: String,
    err: String,
}

impl Done {
    fn of(output: Output) -> Self {
        Self {
            status: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    #[track_caller]
    fn status(self, expected: i32) -> Self {
        assert_eq!(
            self.status,
            Some(expected),
            "out: {}\nerr: {}",
            self.out,
            self.err
        );
        self
    }

    fn lines(&self) -> Vec<Value> {
        self.out
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn call(name: &str, arguments: Value) -> Value {
    json!({ "type": "call", "name": name, "arguments": arguments })
}

fn types(lines: &[Value]) -> Vec<&str> {
    lines
        .iter()
        .map(|line| line["type"].as_str().unwrap())
        .collect()
}

fn interrupt(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
}

/// Waits for the end of a process; kills it if that never comes.
fn end_of(mut child: Child) -> Done {
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("it doesn't end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Done::of(child.wait_with_output().unwrap())
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_answer_is_on_standard_output_and_everything_else_beside_it() {
    let world = World::new();
    world.write("w/notes.txt", "milk\n");
    let rounds = [
        json!([
            text("Let me look."),
            call("read_file", json!({"path": "notes.txt"}))
        ]),
        json!([text("It says "), text("milk."), {"type": "usage", "input": 1200, "output": 3}]),
    ];
    let done = world.turn(&rounds, &[]).status(0);
    assert_eq!(done.out, "Let me look.\nIt says milk.\n");
    assert!(done.err.contains("• read_file notes.txt\n"), "{}", done.err);
    assert!(
        done.err.contains("1,200 tokens in, 3 out\n"),
        "{}",
        done.err
    );
    assert!(
        !done.err.contains('\u{1b}'),
        "no colour without a terminal: {}",
        done.err
    );
    let result = &world.items()[3];
    assert!(result["parts"].to_string().contains("milk"), "{result}");
}

#[test]
fn json_is_one_event_a_line_with_one_end() {
    let world = World::new();
    let done = world.turn(&[json!([text("ok")])], &["--json"]).status(0);
    let events = done.lines();
    assert_eq!(
        types(&events),
        [
            "thread.created",
            "turn.started",
            "item.appended",
            "message.delta",
            "item.appended",
            "turn.completed"
        ]
    );
    assert_eq!(done.err, "");

    let error = json!([{"type": "error", "kind": "denied", "message": "no key"}]);
    let failed = world
        .turn(&[error], &["--json", "--thread", "last"])
        .status(1);
    assert_eq!(types(&failed.lines()).last(), Some(&"turn.failed"));
    assert!(
        failed.err.starts_with("error: ") && failed.err.contains("no key"),
        "{}",
        failed.err
    );
}

#[test]
fn a_thread_is_continued_where_it_began() {
    let world = World::new();
    world.turn(&[json!([text("one")])], &[]).status(0);
    world
        .turn(&[json!([text("two")])], &["--thread", "last"])
        .status(0);
    let items = world.items();
    assert_eq!(
        types(&items),
        [
            "user_message",
            "assistant_message",
            "user_message",
            "assistant_message"
        ]
    );
    let elsewhere = world.path("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let elsewhere = elsewhere.to_str().unwrap();
    let args = ["--thread", "last", "--workspace", elsewhere];
    let refused = world.turn(&[json!([text("three")])], &args).status(2);
    assert!(refused.err.contains("elsewhere"), "{}", refused.err);
    assert_eq!(world.items().len(), 4);

    // From another folder it still works in its own.
    world.write("w/notes.txt", "milk");
    let script = world.script(&[json!([call("read_file", json!({"path": "notes.txt"}))])]);
    let args = world.turn_args(&script, &["--thread", "last"]);
    let output = world.haft(&args).current_dir(elsewhere).output().unwrap();
    Done::of(output).status(0);
    let result = &world.items()[6];
    assert_eq!(
        (result["type"].as_str(), &result["is_error"]),
        (Some("tool_result"), &json!(false))
    );
}

#[test]
fn ctrl_c_ends_the_turn_and_leaves_a_valid_thread() {
    let world = World::new();
    let script = world.script(&[json!([text("half"), {"type": "stall"}])]);
    let mut child = world.haft(&world.turn_args(&script, &[])).spawn().unwrap();
    let mut half = [0; 4];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut half)
        .unwrap();
    interrupt(&child);
    let done = end_of(child).status(130);
    assert!(done.err.contains("interrupted"), "{}", done.err);
    assert_eq!(world.items()[1]["text"], "half");
    world.run(&["threads", "check", "last"]).status(0);
    world
        .turn(&[json!([text("on")])], &["--thread", "last"])
        .status(0);
}

#[test]
fn a_reader_that_does_not_read_stalls_neither_the_turn_nor_the_second_ctrl_c() {
    let world = World::new();
    let piece = "0123456789abcdef".repeat(64);
    let events: Vec<_> = (0..1_000).map(|_| text(&piece)).collect();
    let script = world.script(&[json!(events)]);
    let args = world.turn_args(&script, &[]);

    let child = world.haft(&args).spawn().unwrap();
    wait_until("the turn ends though nobody reads", || {
        let shown = world.run(&["threads", "show", "last", "--json"]);
        shown.status == Some(0) && shown.lines().len() == 2
    });
    let done = Done::of(child.wait_with_output().unwrap()).status(0);
    assert_eq!(
        done.out.len(),
        piece.len() * 1_000 + 1,
        "and is shown whole in the end"
    );

    let child = world.haft(&args).spawn().unwrap();
    wait_until("the turn ends", || {
        world.run(&["threads", "list"]).out.lines().count() == 2
    });
    std::thread::sleep(Duration::from_millis(300));
    let began = Instant::now();
    let mut child = child;
    while child.try_wait().unwrap().is_none() {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "it doesn't leave"
        );
        interrupt(&child);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let world = World::new();
    let rounds =
        [json!([text("one\n"), {"type": "sleep", "ms": 300}, text("two\n"), {"type": "stall"}])];
    for flag in ["--json", "--deadline=600"] {
        let script = world.script(&rounds);
        let mut child = world
            .haft(&world.turn_args(&script, &[flag]))
            .spawn()
            .unwrap();
        let mut first = [0; 4];
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut first)
            .unwrap();
        drop(child.stdout.take());
        let done = end_of(child);
        assert_eq!(done.status, Some(130), "{}", done.err);
        assert!(
            !done.err.contains("error") && !done.err.contains("panic"),
            "{}",
            done.err
        );
    }
}

#[test]
fn with_nobody_to_ask_what_would_be_asked_is_denied_and_said() {
    let world = World::new();
    let rounds = || {
        [
            json!([call("write_file", json!({"path": "a.txt", "content": "x"}))]),
            json!([text("done")]),
        ]
    };
    let denied = world.turn(&rounds(), &[]).status(0);
    assert!(denied.err.contains("--approve edits"), "{}", denied.err);
    assert!(!world.path("w/a.txt").exists());
    assert_eq!(world.items()[2]["is_error"], true);
    let denied = world.turn(&rounds(), &["--json"]).status(0);
    assert!(types(&denied.lines()).contains(&"approval.requested"));
    assert!(denied.err.contains("--approve edits"), "{}", denied.err);
    world.turn(&rounds(), &["--approve", "edits"]).status(0);
    assert_eq!(std::fs::read_to_string(world.path("w/a.txt")).unwrap(), "x");
}

#[test]
fn threads_are_listed_forked_exported_and_deleted() {
    let world = World::new();
    let rounds = [
        json!([call("list_files", json!({"path": "."})), {"type": "text", "text": "x"}]),
        json!([text("ends")]),
    ];
    world.turn(&rounds, &[]).status(0);
    world.turn(&[json!([text("b")])], &[]).status(0);
    let list = world.run(&["threads", "list", "--json"]).status(0).lines();
    assert_eq!(list.len(), 2);
    assert_eq!(list[0]["title"], "hi there");
    let page = world
        .run(&["threads", "list", "--json", "--limit", "1"])
        .status(0)
        .lines();
    assert_eq!((page.len(), &page[0]["id"]), (2, &list[0]["id"]));
    let next = page[1]["next"].as_str().unwrap();
    let rest = world
        .run(&["threads", "list", "--json", "--cursor", next])
        .status(0)
        .lines();
    assert_eq!((rest.len(), &rest[0]["id"]), (1, &list[1]["id"]));

    let first = list[1]["id"].as_str().unwrap();
    let fork = world.run(&["threads", "fork", first]).status(0).out;
    let fork = fork.trim();
    let items = |id: &str| {
        world
            .run(&["threads", "show", id, "--json"])
            .status(0)
            .lines()
    };
    assert_eq!(items(fork), items(first));

    let markdown = world.run(&["threads", "export", first]).status(0).out;
    assert!(
        markdown.starts_with("# hi there\n") && markdown.contains("**list_files**"),
        "{markdown}"
    );
    let lines = world
        .run(&["threads", "export", first, "--format", "jsonl"])
        .status(0)
        .lines();
    assert_eq!(lines, items(first));

    // What was recorded can be played again, to the same items.
    let script = world
        .run(&["threads", "export", first, "--replay"])
        .status(0)
        .out;
    let script = world.write("again.jsonl", &script);
    world
        .run(&world.turn_args(script.to_str().unwrap(), &[]))
        .status(0);
    let without = |lines: Vec<Value>| -> Vec<Value> {
        lines
            .into_iter()
            .map(|line| json!([line["type"], line["text"], line["parts"]]))
            .collect()
    };
    assert_eq!(without(world.items()), without(items(first)));

    world.run(&["threads", "check"]).status(0);
    world.run(&["threads", "delete", fork]).status(0);
    world.run(&["threads", "show", fork]).status(2);
    let ids = world.run(&["threads", "list"]).status(0).out;
    assert!(!ids.contains(fork) && ids.contains(first), "{ids}");
}

#[test]
fn threads_are_imported_found_renamed_and_put_away() {
    let world = World::new();
    let session = world.write(
        "session.jsonl",
        &[
            json!({"type": "session", "id": "s", "cwd": "/nowhere/at/all"}),
            json!({"type": "message", "message": {"role": "user", "content": "Where is the Spare Key?"}}),
            json!({"type": "message", "message": {"role": "assistant", "content": [
                {"type": "toolCall", "id": "c", "name": "look", "arguments": {}},
                {"type": "hologram"}
            ]}}),
        ]
        .map(|line| line.to_string())
        .join("\n"),
    );
    let session = session.to_str().unwrap();
    let done = world.run(&["threads", "import", session]).status(0);
    let id = done.out.trim().to_owned();
    assert!(
        done.err.contains("hologram") && done.err.contains("no result"),
        "{}",
        done.err
    );
    let script = world.script(&[json!([text("under the pot")])]);
    world
        .run(&[
            "run", "--engine", "replay", "--model", &script, "--thread", &id, "well?",
        ])
        .status(0);
    world.run(&["threads", "check", &id]).status(0);
    let found = |text: &str, status: i32| world.run(&["threads", "search", text]).status(status);
    assert!(
        found("spare key", 0)
            .out
            .contains("Where is the Spare Key?")
    );
    assert!(found("UNDER THE POT", 0).out.contains(&id));
    assert_eq!(found("under the mat", 1).out, "");
    world.run(&["threads", "rename", &id, "The  key"]).status(0);
    assert!(
        world
            .run(&["threads", "list"])
            .status(0)
            .out
            .contains("The key")
    );
    assert!(found("the key", 0).out.contains("The key"));
    world.run(&["threads", "archive", &id]).status(0);
    assert_eq!(world.run(&["threads", "list"]).status(0).out, "");
    assert_eq!(found("the key", 1).out, "");
    let all = world
        .run(&["threads", "list", "--archived", "--json"])
        .status(0);
    assert_eq!(all.lines()[0]["extra"]["imported_from"]["format"], "pi");
    world.run(&["threads", "archive", "--undo", &id]).status(0);
    assert!(found("the key", 0).out.contains(&id));
    let no_session = world.write("no.jsonl", "{}");
    let refused = world
        .run(&["threads", "import", no_session.to_str().unwrap()])
        .status(2);
    assert!(refused.err.contains("no.jsonl"), "{}", refused.err);
    world
        .run(&["threads", "import", "--format", "cursor", session])
        .status(2);
}

#[test]
fn a_log_that_lost_its_end_is_told_of() {
    let world = World::new();
    world.turn(&[json!([text("one")])], &[]).status(0);
    let log = find(&world.path("home"), "jsonl");
    let bytes = std::fs::read(&log).unwrap();
    std::fs::write(&log, &bytes[..bytes.len() - 9]).unwrap();
    let check = world.run(&["threads", "check", "last", "--json"]).status(1);
    assert!(
        check.lines().iter().any(|line| line["lost"] == true),
        "{}",
        check.out
    );
    let check = world.run(&["threads", "check"]).status(1);
    assert!(check.out.contains("lost: "), "{}", check.out);
}

/// The largest file with this ending below a folder.
fn find(folder: &Path, ending: &str) -> PathBuf {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|e| e == ending) => found.push(path),
                false => {}
            }
        }
    }
    found
        .into_iter()
        .max_by_key(|path| path.metadata().unwrap().len())
        .unwrap()
}

#[test]
fn tools_run_without_a_model() {
    let world = World::new();
    world.write("w/notes.txt", "milk\n");
    let done = world
        .run(&["tools", "call", "read_file", r#"{"path":"notes.txt"}"#])
        .status(0);
    assert!(done.out.contains("milk"), "{}", done.out);
    let done = world
        .run(&["tools", "call", "read_file", r#"{"path":"none"}"#, "--json"])
        .status(1);
    assert_eq!(done.lines()[0]["is_error"], true);
    let write = r#"{"path":"b.txt","content":"x"}"#;
    world
        .run(&["tools", "call", "write_file", write, "--approve", "plan"])
        .status(1);
    assert!(!world.path("w/b.txt").exists());
    world.run(&["tools", "call", "write_file", write]).status(0);
    assert!(world.path("w/b.txt").exists());

    let batch = world.write(
        "batch",
        "{\"name\":\"read_file\",\"arguments\":{\"path\":\"notes.txt\"}}\n{\"name\":\"nope\"}\n",
    );
    let done = world
        .run(&["tools", "call", "--batch", batch.to_str().unwrap()])
        .status(1);
    let names: Vec<_> = done
        .lines()
        .iter()
        .map(|line| line["name"].clone())
        .collect();
    assert_eq!(names, ["read_file", "nope"]);
    let listed = world.run(&["tools", "list", "--json"]).status(0).lines();
    assert!(listed.iter().any(|tool| tool["name"] == "read_file"));
}

#[test]
fn a_chat_is_a_turn_a_line() {
    let world = World::new();
    let script = world.script(&[json!([text("one")]), json!([text("two")])]);
    let mut child = world
        .haft(&["chat", "--engine", "replay", "--model", &script])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"first\n\nsecond\n")
        .unwrap();
    let done = end_of(child).status(0);
    assert_eq!(done.out, "one\ntwo\n");
    let said: Vec<_> = world
        .items()
        .iter()
        .filter(|i| i["type"] == "user_message")
        .cloned()
        .collect();
    assert_eq!(
        (said.len(), &said[1]["parts"][0]["text"]),
        (2, &json!("second"))
    );
}

#[test]
fn a_conversation_that_is_too_long_is_summarised_and_its_cost_told() {
    let world = World::new();
    std::fs::create_dir_all(world.path("config/haft")).unwrap();
    world.write(
        "config/haft/config.toml",
        "[prices.'/']\ninput = 10_000.0\noutput = 0.0",
    );
    let used = json!({"type": "usage", "input": 300, "output": 20});
    let script = world.script(&[
        json!([text("one"), used]),
        json!([{"type": "error", "kind": "context_overflow", "message": "too long"}]),
        json!([text("they said hello"), used]),
        json!([text("two"), used]),
        json!([text("they counted to two"), used]),
        json!([text("three"), used]),
    ]);
    let mut child = world
        .haft(&["chat", "--engine", "replay", "--model", &script])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let input = b"hello\nand on\n/compact\nfurther\n";
    child.stdin.take().unwrap().write_all(input).unwrap();
    let done = end_of(child).status(0);
    assert_eq!(done.out, "one\ntwo\nthree\n");
    assert_eq!(done.err.matches("summarising").count(), 2, "{}", done.err);
    let notices = world.items();
    let notices = notices.iter().filter(|item| item["code"] == "compaction");
    assert_eq!(notices.count(), 2);
    let shown = world.run(&["threads", "show", "last"]).status(0);
    assert!(
        shown.err.contains("1,500 tokens in, 100 out, about $15.00"),
        "{}",
        shown.err
    );
    world.run(&["threads", "check", "last"]).status(0);
}

#[test]
fn a_prompt_may_come_from_standard_input() {
    let world = World::new();
    let script = world.script(&[json!([text("ok")])]);
    let run = |input: &[u8]| {
        let mut command = world.haft(&["run", "--engine", "replay", "--model", &script, "-"]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        end_of(child)
    };
    run(b"from afar\n").status(0);
    assert_eq!(world.items()[0]["parts"][0]["text"], "from afar\n");
    assert!(run(b" \n").status(2).err.contains("empty"));
    assert!(run(b"\xff").status(2).err.contains("UTF-8"));
}

#[test]
fn settings_come_from_files_and_the_environment() {
    let world = World::new();
    let script = world.script(&[json!([text("ok")])]);
    std::fs::create_dir_all(world.path("config/haft")).unwrap();
    world.write("config/haft/config.toml", "engine = 'replay'");
    world.write(
        "w/haft.toml",
        &format!("[ext.engine-replay]\nscript = '{script}'"),
    );
    let done = world.run(&["run", "hi"]).status(0);
    assert_eq!(done.out, "ok\n");
    let output = world
        .haft(&["run", "hi"])
        .env("HAFT_ENGINE", "relpay")
        .output()
        .unwrap();
    let done = Done::of(output).status(2);
    assert!(done.err.contains("did you mean `replay`?"), "{}", done.err);
}

#[test]
fn bad_input_is_one_clear_line_and_the_documented_status() {
    let world = World::new();
    let script = world.script(&[json!([text("ok")])]);
    let script = script.as_str();
    let file = world.write("file", "");
    let file = file.to_str().unwrap();
    let check = |args: &[&str], status: i32, words: &[&str]| {
        let done = world.run(args);
        assert_eq!(done.status, Some(status), "{args:?}: {}", done.err);
        assert_eq!(done.err.lines().count(), 1, "{args:?}: {}", done.err);
        assert_eq!(done.out, "", "{args:?}");
        for word in words {
            assert!(
                done.err.contains(word),
                "{args:?}: no `{word}` in {}",
                done.err
            );
        }
    };
    check(&["run", "--thread", "last", "hi"], 2, &["no thread"]);
    check(&["run"], 2, &["<PROMPT>"]);
    check(&["run", "  "], 2, &["prompt is empty"]);
    check(&["run", "--engin", "x", "hi"], 2, &["'--engine'"]);
    check(
        &["run", "--engine", "relay", "hi"],
        2,
        &["did you mean `replay`?"],
    );
    check(&["run", "--engine", "replay", "hi"], 1, &["--model FILE"]);
    check(
        &["run", "--engine", "replay", "--model", "/none", "hi"],
        1,
        &["/none"],
    );
    check(
        &[
            "run", "--engine", "replay", "--model", file, "--runner", "lokal", "hi",
        ],
        2,
        &["`local`"],
    );
    check(&["run", "--workspace", "/none", "hi"], 2, &["/none"]);
    check(&["run", "--workspace", file, "hi"], 2, &["no folder"]);
    check(&["run", "--config", "/none", "hi"], 2, &["/none"]);
    check(&["run", "--thread", "../x", "hi"], 2, &["../x"]);
    check(&["run", "--thread", "none", "hi"], 2, &["none"]);
    check(&["threads", "show", "none"], 2, &["none"]);
    check(&["threads", "fork", "none"], 2, &["none"]);
    check(&["tools", "call", "--batch", "/none"], 2, &["/none"]);
    check(&["tools", "call", "read_file", "{"], 2, &["JSON"]);
    let home = format!("{file}/home");
    check(
        &[
            "run", "--home", &home, "--engine", "replay", "--model", script, "hi",
        ],
        1,
        &[&home],
    );
}

#[test]
fn what_is_here_is_told() {
    let world = World::new();
    let engines = world.run(&["engines", "--json"]).status(0).lines();
    let replay = engines
        .iter()
        .find(|engine| engine["id"] == "replay")
        .unwrap();
    assert_eq!(replay["status"], "unavailable");
    assert!(replay["reason"].as_str().unwrap().contains("--model FILE"));
    let listed = world.run(&["ext", "list", "--json"]).status(0).lines();
    assert!(
        listed
            .iter()
            .any(|extension| extension["id"] == "store-jsonl")
    );
    let findings = world.run(&["doctor", "--json"]).lines();
    let of = |subject: &str| findings.iter().find(|f| f["subject"] == subject).unwrap();
    assert_eq!(of("store jsonl")["health"], "good");
    assert!(of("tools")["text"].as_str().unwrap().contains("read_file"));
    assert_eq!(
        world.run(&["threads", "list"]).status(0).out,
        "",
        "the doctor leaves nothing"
    );
    let version = world.run(&["-V"]).status(0).out;
    assert_eq!(version, format!("haft {}\n", env!("CARGO_PKG_VERSION")));
}
