//! What takes long: plug-ins of other builds than the host's, many calls at
//! once, and tools that look for errors in memory.

use super::shop::{Shop, has, run};
use super::{Depth, Line, Verdict};
use crate::Result;
use crate::workspace::Workspace;

const PLUGIN: &str = "haft-plugin";

/// Test files of the loader that run under valgrind; calls at once are fewer
/// there, since it slows all down.
const UNDER_VALGRIND: [&str; 4] = ["behaviour", "failure", "stream", "stress"];

pub(super) fn lines(workspace: &Workspace) -> Vec<Line> {
    if !workspace.packages.iter().any(|p| p.name == PLUGIN) {
        return Vec::new();
    }
    let mut lines = vec![
        Line::new(
            Depth::Full,
            "plug-ins of every build under a release host",
            |shop| {
                let mut test = tests(shop, &["builds", "examples", "first_party"]);
                test.arg("--release").env("HAFT_PLUGIN_BUILDS", "all");
                Ok(run(test)?.verdict())
            },
        ),
        Line::new(
            Depth::Full,
            "three plug-ins, 4,000 calls at once with random cancels",
            |shop| {
                let mut test = tests(shop, &["stress", "failure", "nonsense"]);
                test.arg("--release");
                Ok(run(test)?.verdict())
            },
        ),
        Line::new(Depth::Full, "Miri over the boundary", miri),
    ];
    for file in UNDER_VALGRIND {
        let name = format!("valgrind over the plug-ins' {file}");
        lines.push(Line::new(Depth::Full, name, move |shop| {
            valgrind(shop, file)
        }));
    }
    lines
}

fn tests(shop: &Shop, files: &[&str]) -> std::process::Command {
    let mut command = shop.cargo(&["test", "--package", PLUGIN]);
    for file in files {
        command.args(["--test", file]);
    }
    command
}

fn miri(shop: &Shop) -> Result<Verdict> {
    if !has("cargo", &["+nightly", "miri", "--version"]) {
        let why = "no Miri: `rustup +nightly component add miri`";
        return Ok(Verdict::Skipped(why.to_owned()));
    }
    let mut command = shop.nightly(&["miri", "test", "--package", "haft-api"], "miri");
    command
        .args(["--features", "boundary", "--lib", "boundary::"])
        // What a side gives to the other is there until the process ends, by design;
        // that calls leave nothing behind is counted in the plug-ins' own tests.
        .env("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-ignore-leaks");
    Ok(run(command)?.verdict())
}

fn valgrind(shop: &Shop, file: &str) -> Result<Verdict> {
    if !has("valgrind", &["--version"]) {
        return Ok(Verdict::Skipped("valgrind isn't installed".to_owned()));
    }
    let runner = "target.'cfg(unix)'.runner=['valgrind', '--quiet', '--error-exitcode=99', \
                  '--leak-check=no', '--fair-sched=yes', '--trace-children=no']";
    let mut command = tests(shop, &[file]);
    command
        .args(["--config", runner])
        .env("HAFT_STRESS_CALLS", "200");
    Ok(run(command)?.verdict())
}
