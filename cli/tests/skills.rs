//! Skills by the command: made, checked, used, started and stopped.
#![cfg(all(feature = "cli", feature = "quickjs"))]

use std::path::Path;
use std::process::{Command, Output};

struct World(tempfile::TempDir);

impl World {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_haft"))
            .args(arguments)
            .current_dir(self.path())
            .env("HAFT_HOME", self.path().join("home"))
            .env("XDG_CONFIG_HOME", self.path().join("config"))
            .env_remove("OPENAI_API_KEY")
            .output()
            .unwrap()
    }

    /// What a command prints, and its status.
    fn check(&self, arguments: &[&str], status: i32, words: &[&str]) -> String {
        let output = self.run(arguments);
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {text}");
        for word in words {
            assert!(text.contains(word), "{arguments:?}: no {word:?} in {text}");
        }
        text
    }
}

#[test]
fn a_new_skill_is_checked_and_called() {
    let world = World::new();
    world.check(
        &["ext", "new", "--js", "hello"],
        0,
        &["hello/manifest.json"],
    );
    world.check(&["ext", "new", "--js", "hello"], 2, &["already"]);
    world.check(&["ext", "new", "hello"], 2, &["--js"]);
    world.check(&["ext", "check", "hello"], 0, &["passed", "hello__greet"]);
    world.check(
        &[
            "tools",
            "call",
            "hello__greet",
            r#"{"who":"you"}"#,
            "--ext",
            "hello",
        ],
        0,
        &["Hello, you!"],
    );
    world.check(&["tools", "list", "--ext", "hello"], 0, &["hello__greet"]);
    std::fs::write(
        world.path().join("hello/index.js"),
        "throw new Error('broken')",
    )
    .unwrap();
    world.check(
        &["ext", "check", "hello"],
        1,
        &["broken", "hello/index.js:1"],
    );
    let plain = world.path().join("plain");
    std::fs::create_dir(&plain).unwrap();
    world.check(&["tools", "list", "--ext", "plain"], 2, &["manifest.json"]);
}

#[test]
fn skills_of_the_user_start_when_they_are_wanted() {
    let world = World::new();
    let skill = world.path().join("config/haft/extensions/counter");
    std::fs::create_dir_all(&skill).unwrap();
    std::fs::write(
        skill.join("manifest.json"),
        r#"{"id":"counter","name":"Counter","runtime":"quickjs","description":"Counts."}"#,
    )
    .unwrap();
    std::fs::write(
        skill.join("index.js"),
        "const tools = [{ name: 'next', execute() { state.set('n', (state.get('n') ?? 0) + 1); return state.get('n'); } }];
         const onSync = () => state.get('n') ?? null;
         const onRpc = ({ method, params }) => [method, params];",
    )
    .unwrap();
    world.check(&["skills", "list"], 0, &["counter", "off", "Counts."]);
    let listed = world.check(&["tools", "list"], 0, &[]);
    assert!(!listed.contains("counter__next"), "{listed}");
    world.check(
        &["skills", "start", "counter"],
        0,
        &["counter__next", "with the host"],
    );
    world.check(&["tools", "call", "counter__next", "{}"], 0, &["1"]);
    world.check(&["tools", "call", "counter__next", "{}"], 0, &["2"]);
    world.check(&["skills", "status", "counter"], 0, &[r#"{"n":2}"#]);
    world.check(&["skills", "rpc", "counter", "sync"], 0, &["2"]);
    world.check(
        &["skills", "rpc", "counter", "a/b", "[1]"],
        0,
        &[r#"["a/b",[1]]"#],
    );
    world.check(
        &["skills", "rpc", "counter", "tick"],
        1,
        &["no hook", "`tick`"],
    );
    world.check(&["skills", "rpc", "counter", "a", "{"], 2, &["JSON"]);
    world.check(&["skills", "stop", "counter"], 0, &["by hand"]);
    world.check(&["skills", "start", "nobody"], 1, &["nobody", "counter"]);
    let json = world.check(&["skills", "list", "--json"], 0, &[]);
    let skill: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&skill["id"], &skill["state"]["n"]),
        (&"counter".into(), &2.into())
    );
}
