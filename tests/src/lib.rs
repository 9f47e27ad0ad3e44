//! The harness of the whole-system tests: a temporary home and workspace, the
//! real binary, and what it printed.
#![forbid(unsafe_code)]

mod binary;
mod llama;
mod process;
mod script;

use std::path::{Path, PathBuf};
use std::process::Command;

use haft_api::Item;
use serde_json::Value;
use tempfile::TempDir;

pub use binary::haft;
pub use llama::{LlamaServer, Serving, free_port};
pub use process::{Finished, Running, marked_processes};
pub use script::{Round, call, calls, text};

/// A home, a workspace, and the binary that uses them.
#[derive(Debug)]
pub struct World {
    dir: TempDir,
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl World {
    /// An empty home and an empty workspace.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        for folder in ["home", "workspace", "config"] {
            std::fs::create_dir(dir.path().join(folder)).expect("a folder in it");
        }
        Self { dir }
    }

    /// The folder that holds everything.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Haft's home.
    pub fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    /// The workspace.
    pub fn workspace(&self) -> PathBuf {
        self.dir.path().join("workspace")
    }

    /// Writes a file of the workspace.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.workspace().join(name);
        std::fs::write(&path, content).expect("a file of the workspace");
        path
    }

    /// Writes a script for the replay engine.
    pub fn script(&self, rounds: &[Round]) -> PathBuf {
        let path = self
            .dir
            .path()
            .join(format!("script-{}.jsonl", script::fresh()));
        std::fs::write(&path, script::lines(rounds)).expect("a script");
        path
    }

    /// The binary with this home, in the workspace, and with nothing of the
    /// environment that would choose an engine.
    pub fn haft<A: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(haft());
        command
            .args(args)
            .current_dir(self.workspace())
            .env("HAFT_HOME", self.home())
            .env("XDG_CONFIG_HOME", self.dir.path().join("config"))
            .env_remove("OPENAI_API_KEY")
            .env_remove("OPENAI_BASE_URL")
            .env_remove("ANTHROPIC_API_KEY")
            .env_remove("ANTHROPIC_BASE_URL");
        command
    }

    /// Runs the binary to its end.
    pub fn run<A: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Finished {
        Running::start(self.haft(args)).finish()
    }

    /// The arguments of a scripted turn in which every tool may run.
    pub fn turn(&self, rounds: &[Round], more: &[&str]) -> Vec<String> {
        let script = self.script(rounds);
        let script = script.to_str().expect("a path that is text");
        let mut args = vec![
            "run",
            "--engine",
            "replay",
            "--model",
            script,
            "--approve",
            "all",
        ];
        args.extend(more);
        args.push("go");
        args.into_iter().map(str::to_owned).collect()
    }

    /// Runs a scripted turn on a new thread.
    pub fn play(&self, rounds: &[Round]) -> Finished {
        self.run(self.turn(rounds, &[]))
    }

    /// A thread's items as they are printed, each valid by the rules of every
    /// provider together with the others.
    pub fn printed(&self, thread: &str) -> Vec<Value> {
        let shown = self.run(["threads", "show", thread, "--json"]);
        assert_eq!(shown.code, Some(0), "{}", shown.stderr);
        let printed: Vec<Value> = shown.json_lines();
        let items = items(&printed);
        if let Err(violations) = haft_testkit::validate_history(&items) {
            panic!("not a valid history: {violations:#?}");
        }
        printed
    }

    /// A thread's items, valid as [`printed`](Self::printed) ones are.
    pub fn items(&self, thread: &str) -> Vec<Item> {
        items(&self.printed(thread))
    }

    /// The results of the last thread: `name: text`, with `!` before an error's.
    pub fn outcomes(&self) -> Vec<String> {
        let results = self
            .printed("last")
            .into_iter()
            .filter(|i| i["type"] == "tool_result");
        results.map(|result| outcome(&result)).collect()
    }
}

fn items(printed: &[Value]) -> Vec<Item> {
    printed
        .iter()
        .map(|item| serde_json::from_value(item.clone()).expect("an item"))
        .collect()
}

/// A printed result in one line: its texts and its JSON values, each on a line of
/// its own.
pub fn outcome(result: &Value) -> String {
    let mark = if result["is_error"] == true { "!" } else { "" };
    let parts = result["parts"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let text: Vec<_> = parts
        .iter()
        .filter_map(|part| match part["type"].as_str() {
            Some("json") => Some(part["value"].to_string()),
            _ => part["text"].as_str().map(str::to_owned),
        })
        .collect();
    format!(
        "{}: {mark}{}",
        result["name"].as_str().unwrap_or("?"),
        text.join("\n")
    )
}
