//! The whole system through the real command: once with every extension linked,
//! once with none, each loaded from its shared object.

use std::path::Path;

use super::extensions::packages;
use super::shop::{Shop, run};
use super::{Depth, Line, Verdict};
use crate::Result;
use crate::dylib;
use crate::workspace::Workspace;

/// A round that writes and runs, one that reads it back, and the end.
const SCRIPT: &str = concat!(
    r#"{"events":[{"type":"call","name":"write_file","arguments":{"path":"a.txt","content":"one"}},"#,
    r#"{"type":"call","name":"shell","arguments":{"command":"printf two >> a.txt"}}]}"#,
    "\n",
    r#"{"events":[{"type":"call","name":"read_file","arguments":{"path":"a.txt"}},"#,
    r#"{"type":"call","name":"shout","arguments":{"what":"three"}}]}"#,
    "\n",
    r#"{"events":[{"type":"text","text":"All is done."}]}"#,
    "\n",
);

const LUA: &str = r#"
haft.register_tool { name = "shout", description = "Says it aloud.", effects = "pure",
  schema = { type = "object", required = { "what" }, properties = { what = { type = "string" } } },
  handler = function(args) haft.sleep(1) return args.what:upper() end }
local n = 0
haft.register_tool { name = "count", description = "Counts its calls.", effects = "pure",
  handler = function() n = n + 1 haft.sleep(20 // n) return "count " .. n end }
"#;

/// A round of a script's tools, each of which waits.
const BATCH: &str = r#"
{"id":"one","name":"shout","arguments":{"what":"first"}}
{"id":"two","name":"count"}
{"id":"three","name":"count"}
{"id":"four","name":"shout","arguments":{"what":"last"}}
"#;

pub(super) fn lines(workspace: &Workspace) -> Vec<Line> {
    if !workspace.packages.iter().any(|p| p.name == "haft") {
        return Vec::new();
    }
    vec![
        Line::new(Depth::Quick, "system: everything linked", |shop| {
            smoke(shop, "linked", &shop.haft()?, "")
        }),
        Line::new(
            Depth::Quick,
            "system: everything as shared objects",
            |shop| all_loaded(shop, "dev"),
        ),
        Line::new(
            Depth::Full,
            "system: everything as shared objects (release)",
            |shop| all_loaded(shop, "release"),
        ),
    ]
}

/// A command without any extension, and a configuration that names them all.
fn all_loaded(shop: &Shop, profile: &str) -> Result<Verdict> {
    let haft = shop.build_haft("bare", &["--features", "cli,plugins"])?;
    let mut config = String::new();
    for package in packages(&shop.workspace) {
        let object = shop.object(&package, profile)?;
        config += &dylib::config_entry(&object, &dylib::sha256(&object)?);
    }
    smoke(shop, "loaded", &haft, &config)
}

/// A turn with files, a command and a script's tool; the thread that it leaves.
fn smoke(shop: &Shop, name: &str, haft: &Path, plugins: &str) -> Result<Verdict> {
    let place = shop.folder(&format!("system-{name}"))?;
    for folder in ["home", "config/haft"] {
        std::fs::create_dir_all(place.join(folder))?;
    }
    std::fs::write(place.join("script.jsonl"), SCRIPT)?;
    std::fs::write(place.join("shout.lua"), LUA)?;
    let script = toml::Value::from(place.join("shout.lua").display().to_string());
    let config = format!("{plugins}[ext.lua]\npaths = [{script}]\n");
    std::fs::write(place.join("config/haft/config.toml"), config)?;

    let run_haft = |arguments: &[&str]| {
        let mut command = shop.command(haft, &place);
        command.args(arguments);
        run(command)?.output()
    };
    let model = place.join("script.jsonl").display().to_string();
    let turn = [
        "run",
        "--engine",
        "replay",
        "--model",
        &model,
        "--approve",
        "all",
        "go",
    ];
    expect(&run_haft(&turn)?, &["All is done."])?;
    expect(&std::fs::read_to_string(place.join("a.txt"))?, &["onetwo"])?;
    let shown = run_haft(&["threads", "show", "last", "--json"])?;
    expect(
        &shown,
        &["onetwo", "THREE", "\"is_error\":false", "All is done."],
    )?;
    if shown.contains("\"is_error\":true") {
        return Err(format!("a tool failed:\n{shown}").into());
    }
    run_haft(&["threads", "check"])?;
    let listed = run_haft(&["tools", "list"])?;
    expect(&listed, &["read_file", "shell", "shout"])?;
    let called = run_haft(&["tools", "call", "shout", r#"{"what":"lua"}"#])?;
    expect(&called, &["LUA"])?;
    std::fs::write(place.join("batch.jsonl"), BATCH)?;
    let results = run_haft(&["tools", "call", "--batch", "batch.jsonl"])?;
    let told: Vec<&str> = results.lines().filter(|l| l.starts_with('{')).collect();
    if told.len() != 4 {
        return Err(format!("four results were due:\n{results}").into());
    }
    for (result, words) in told.iter().zip([
        ["shout", "FIRST"],
        ["count", "count 2"],
        ["count", "count 2"],
        ["shout", "LAST"],
    ]) {
        expect(result, &words)?;
    }
    Ok(Verdict::Passed)
}

fn expect(text: &str, words: &[&str]) -> Result<()> {
    match words.iter().find(|word| !text.contains(*word)) {
        None => Ok(()),
        Some(word) => Err(format!("`{word}` is missing in:\n{text}").into()),
    }
}
