//! Both programs, as their users run them.

use std::path::PathBuf;
use std::process::Command;

/// Runs a program with a home of its own; returns what it printed.
fn run(program: &str, arguments: &[&str]) -> String {
    let home = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("home");
    std::fs::create_dir_all(&home).unwrap();
    let output = Command::new(program)
        .args(arguments)
        .current_dir(&home)
        .env("HAFT_HOME", &home)
        .env("XDG_CONFIG_HOME", &home)
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn my_agent(arguments: &[&str]) -> String {
    run(env!("CARGO_BIN_EXE_my-agent"), arguments)
}

#[test]
fn our_extension_is_among_the_features() {
    let listed = my_agent(&["ext", "list"]);
    let ids: Vec<_> = listed
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    let expected = [
        "engine-replay",
        "example",
        "runner-local",
        "store-jsonl",
        "tools-coding",
    ];
    assert_eq!(ids, expected);
}

#[test]
fn the_command_has_our_tools_engine_and_runner() {
    let counted = my_agent(&["tools", "call", "word_count", r#"{"text":"one two"}"#]);
    assert_eq!(counted.trim(), "2 words");
    let converted = my_agent(&["tools", "call", "inches_to_cm", r#"{"value":2}"#]);
    assert_eq!(converted.trim(), "5.08");
    let said = my_agent(&["run", "--engine", "parrot", "Pieces of eight"]);
    assert_eq!(said.trim(), "Pieces of eight");
    let shown = my_agent(&["threads", "show", "last", "--json"]);
    assert!(shown.contains("Pieces of eight"), "{shown}");
    let read = [
        "tools",
        "call",
        "write_file",
        r#"{"path":"a","content":"x"}"#,
    ];
    my_agent(&[&read[..], &["--runner", "scratch"]].concat());
}

#[test]
fn the_runtime_alone_runs_a_turn() {
    let said = run(env!("CARGO_BIN_EXE_just-the-runtime"), &[]);
    assert_eq!(said.trim(), "Pieces of eight");
}
