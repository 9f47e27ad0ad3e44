//! Commands of a model, confined by the real binary as it is by default.
#![cfg(target_os = "linux")]

use std::io::Write as _;

use haft_tests::{World, call, marked_processes, text};
use serde_json::json;

/// Whether this machine confines commands; says why not, if it doesn't.
fn confined(world: &World, how: &str) -> bool {
    let doctor = world.run(["doctor"]);
    let runner = doctor
        .stdout
        .lines()
        .find(|line| line.contains("runner local"));
    let runner = runner.expect("the doctor looks at the runner").to_owned();
    let is = runner.contains(how);
    if !is {
        let mut stderr = std::io::stderr();
        writeln!(stderr, "skipped: {runner}").unwrap();
    }
    is
}

fn shell(command: &str) -> String {
    json!({"command": command}).to_string()
}

#[test]
fn what_a_tool_wrote_a_command_sees_and_the_other_way_round() {
    let world = World::new();
    if !confined(&world, "seccomp") {
        return;
    }
    let write =
        |id, path, content| call(id, "write_file", json!({"path": path, "content": content}));
    let rounds = [
        vec![write("a", "note", "by a tool\n")],
        vec![call(
            "b",
            "shell",
            json!({"command": "cat note; echo by a command > answer; pwd -P"}),
        )],
        vec![call("c", "read_file", json!({"path": "answer"}))],
        text("ok"),
    ];
    world.play(&rounds).expect(0);
    let outcomes = world.outcomes();
    let workspace = world.workspace().canonicalize().unwrap();
    assert!(outcomes[1].contains("by a tool"), "{outcomes:?}");
    assert!(
        outcomes[1].contains(workspace.to_str().unwrap()),
        "{outcomes:?}"
    );
    assert!(outcomes[2].contains("by a command"), "{outcomes:?}");
    // And in the next turn, another process.
    let script = world.script(&[
        vec![call("d", "shell", json!({"command": "cat note answer"}))],
        text("ok"),
    ]);
    let script = script.to_str().unwrap();
    world
        .run([
            "run",
            "--engine",
            "replay",
            "--model",
            script,
            "--approve",
            "all",
            "--thread",
            "last",
            "on",
        ])
        .expect(0);
    let last = world.outcomes().pop().unwrap();
    assert!(
        last.contains("by a tool") && last.contains("by a command"),
        "{last}"
    );
}

#[test]
fn a_command_reaches_nothing_beside_the_workspace_and_says_so() {
    let world = World::new();
    if !confined(&world, "seccomp") {
        return;
    }
    let beside = world.dir().join("beside");
    std::fs::write(&beside, "as it was").unwrap();
    let path = beside.to_str().unwrap();
    // It may reach a folder of that name that is the session's own.
    let write = shell(&format!("echo x > {path}"));
    world.run(["tools", "call", "shell", &write]);
    // The threads themselves are there.
    let threads = world.home().join("threads");
    world.run(["threads", "list"]).expect(0);
    for (command, words) in [
        (format!("cat {path}"), ["No such file", "denied"]),
        (
            format!("ls {}", threads.display()),
            ["No such file", "denied"],
        ),
        (
            "echo x > /etc/haft-escape".to_owned(),
            ["Read-only", "denied"],
        ),
    ] {
        let run = world
            .run(["tools", "call", "shell", &shell(&command)])
            .expect(1);
        let told = words.iter().any(|word| run.stdout.contains(word));
        assert!(told, "{command}: {}", run.stdout);
    }
    assert_eq!(std::fs::read_to_string(&beside).unwrap(), "as it was");
}

#[test]
fn the_deadline_kills_all_of_a_command_and_keeps_what_it_said() {
    let world = World::new();
    if !confined(&world, "seccomp") {
        return;
    }
    let mark = format!("97{}", std::process::id());
    let command = format!("echo partial; setsid sleep {mark} & trap '' TERM; sleep {mark}");
    let rounds = [
        vec![call("a", "shell", json!({"command": command}))],
        text("in time"),
    ];
    let turn = world
        .run(world.turn(&rounds, &["--deadline", "2"]))
        .expect(0);
    assert!(turn.stdout.contains("in time"), "{}", turn.stdout);
    let outcomes = world.outcomes();
    assert!(outcomes[0].starts_with("shell: !"), "{outcomes:?}");
    assert!(outcomes[0].contains("partial"), "{outcomes:?}");
    assert_eq!(marked_processes(&mark), Vec::<u32>::new());
}

#[test]
fn the_users_word_holds_and_a_workspace_may_only_tighten_it() {
    let world = World::new();
    if !confined(&world, "seccomp") {
        return;
    }
    let beside = world.dir().join("beside");
    let command = shell(&format!("echo x > {}", beside.display()));
    let user = world.dir().join("user.toml");
    std::fs::write(&user, "[runner]\nsandbox = 'off'\n").unwrap();
    let config = ["--config", user.to_str().unwrap()];
    let run = |arguments: &[&str]| world.run(config.iter().chain(arguments).copied());
    run(&["tools", "call", "shell", &command]).expect(0);
    assert!(beside.exists());
    let doctor = run(&["doctor"]);
    assert!(
        doctor.stdout.contains("commands may write anywhere"),
        "{}",
        doctor.stdout
    );

    std::fs::remove_file(&beside).unwrap();
    world.file("haft.toml", "[runner]\nsandbox = 'require'\n");
    run(&["tools", "call", "shell", &command]);
    assert!(!beside.exists());

    world.file("haft.toml", "[runner]\nsandbox = 'off'\n");
    run(&["tools", "call", "shell", &command]).expect_error(2, &["runner.sandbox", "tighten"]);
    assert!(!beside.exists());
}

#[test]
fn a_limit_is_told_to_the_model() {
    let world = World::new();
    if !confined(&world, "seccomp") {
        return;
    }
    let user = world.dir().join("user.toml");
    std::fs::write(&user, "[runner.limits]\nfile_bytes = 1000\n").unwrap();
    let command = shell("head -c 5000 /dev/zero > big");
    let run = world.run([
        "--config",
        user.to_str().unwrap(),
        "tools",
        "call",
        "shell",
        &command,
    ]);
    let run = run.expect(1);
    assert!(run.stdout.contains("limits.file_bytes"), "{}", run.stdout);
}
