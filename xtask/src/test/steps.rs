//! The steps, in their order. A new kind of check is a new entry here.

use std::process::Command;

use super::libtest::{Reader, Suite, Update};
use super::report::Outcome;
use crate::child::{self, Event};
use crate::progress::Progress;
use crate::workspace::{Workspace, cargo};
use crate::{Result, matrix, tidy};

/// One step.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// True if what needs a build can't run once this failed.
    pub(super) builds: bool,
    /// True if it can't run without a build.
    pub(super) needs_build: bool,
    pub(super) run: fn() -> Result<Outcome>,
}

/// What takes a moment comes first.
pub(super) const STEPS: &[Step] = &[
    Step {
        name: "fmt",
        about: "every file is formatted",
        builds: false,
        needs_build: false,
        run: || {
            command(
                "fmt",
                &["fmt", "--all", "--", "--check", "--color=never"],
                &[],
            )
        },
    },
    Step {
        name: "tidy",
        about: "the repository's own rules hold",
        builds: false,
        needs_build: false,
        run: tidy_step,
    },
    Step {
        name: "build",
        about: "everything builds: libraries, binaries, examples, tests",
        builds: true,
        needs_build: false,
        run: || command("build", &["build", "--workspace", "--all-targets"], &[]),
    },
    Step {
        name: "clippy",
        about: "the lints are silent",
        builds: false,
        needs_build: true,
        run: || {
            let arguments = [
                "clippy",
                "--workspace",
                "--all-targets",
                "--",
                "-D",
                "warnings",
            ];
            command("clippy", &arguments, &[])
        },
    },
    Step {
        name: "doc",
        about: "the documentation builds, its links lead somewhere",
        builds: false,
        needs_build: true,
        run: || {
            let arguments = ["doc", "--workspace", "--no-deps"];
            command("doc", &arguments, &[("RUSTDOCFLAGS", "-D warnings")])
        },
    },
    Step {
        name: "test",
        about: "all tests and the documentation's examples pass",
        builds: false,
        needs_build: true,
        run: test_step,
    },
    Step {
        name: "matrix",
        about: "feature sets, shared objects, packaged crates: the quick lines of `cargo xtask matrix`",
        builds: false,
        needs_build: true,
        run: matrix_step,
    },
];

/// A step that is one cargo command. What it printed is shown if it fails.
fn command(step: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Result<Outcome> {
    let mut command = cargo();
    command.args(arguments).envs(environment.iter().copied());
    let mut progress = Progress::new();
    let mut lines = Vec::new();
    let ended = child::run(command, |event| match event {
        Event::Line(line) => {
            progress.show(line);
            lines.push(line.to_owned());
        }
        Event::Silence => progress.show(lines.last().map_or("", String::as_str)),
    })?;
    if ended.status.success() {
        return Ok(Outcome::default());
    }
    for line in lines.iter().filter(|line| !is_noise(line)) {
        progress.print(line);
    }
    Ok(Outcome::failed(step))
}

fn tidy_step() -> Result<Outcome> {
    let findings = tidy::findings()?;
    for finding in &findings {
        println!("   {finding}");
    }
    Ok(match findings.len() {
        0 => Outcome::default(),
        count => Outcome::failed(format!("tidy: {count} findings")),
    })
}

fn matrix_step() -> Result<Outcome> {
    let tally = matrix::quick()?;
    let named = |line: String| format!("matrix: {line}");
    Ok(Outcome {
        passed: tally.passed,
        failed: tally.failed.into_iter().map(named).collect(),
        skipped: tally.skipped.into_iter().map(named).collect(),
    })
}

fn test_step() -> Result<Outcome> {
    let mut command = cargo();
    // It is built together with the tests; one that a test builds has other
    // features, and its dependencies too.
    let program = format!("debug/haft{}", std::env::consts::EXE_SUFFIX);
    command.env("HAFT_TEST_PROGRAM", Workspace::load()?.target.join(program));
    command.args([
        "test",
        "--workspace",
        "--no-fail-fast",
        "--",
        "--show-output",
    ]);
    tests(command)
}

/// Runs a `cargo test` with `--show-output`, prints a line a suite and all there
/// is on failures.
fn tests(command: Command) -> Result<Outcome> {
    let mut progress = Progress::new();
    let mut reader = Reader::default();
    let mut outcome = Outcome::default();
    let mut now = String::new();
    let ended = child::run(command, |event| match event {
        Event::Line(line) => {
            match reader.line(line) {
                Some(Update::Suite(suite)) => finish(suite, &mut outcome, &mut progress),
                Some(Update::Progress { suite, done, of }) => {
                    now = format!("{suite} {done}/{of}");
                }
                // The harness tells of a test that takes long.
                None if line.ends_with("has been running for over 60 seconds") => {
                    progress.print(line);
                }
                None => {}
            }
            progress.show(&now);
        }
        Event::Silence => progress.show(&now),
    })?;
    if let Some(suite) = reader.end() {
        finish(suite, &mut outcome, &mut progress);
    }
    if ended.left_processes {
        progress.print("note: a process that some test started is still running");
    }
    if !ended.status.success() {
        let other = reader.other.iter().filter(|line| !line.is_empty());
        for line in other.filter(|line| !is_noise(line)) {
            progress.print(line);
        }
        if outcome.failed.is_empty() {
            outcome.failed.push(format!("cargo test: {}", ended.status));
        }
    }
    Ok(outcome)
}

fn finish(suite: Suite, outcome: &mut Outcome, progress: &mut Progress) {
    let Suite {
        name,
        passed,
        failed,
        skipped,
        output,
    } = suite;
    let count = |count: usize, what: &str| match count {
        0 => String::new(),
        count => format!(", {count} {what}"),
    };
    if passed + failed.len() + skipped.len() > 0 {
        let failures = count(failed.len(), "FAILED");
        let skips = count(skipped.len(), "skipped");
        progress.print(&format!("{name}: {passed} passed{failures}{skips}"));
    }
    for line in &output {
        progress.print(&format!("  {line}"));
    }
    outcome.passed += passed;
    outcome
        .failed
        .extend(failed.iter().map(|test| format!("{name}: {test}")));
    let skipped = skipped
        .iter()
        .map(|(test, why)| format!("{name}: {test}: {why}"));
    outcome.skipped.extend(skipped);
}

/// True for what cargo says while all goes well.
fn is_noise(line: &str) -> bool {
    const WORDS: &[&str] = &[
        "Compiling",
        "Checking",
        "Documenting",
        "Fresh",
        "Finished",
        "Running",
        "Executable",
        "Downloading",
        "Downloaded",
        "Updating",
        "Locking",
        "Adding",
        "Blocking",
        "Generated",
    ];
    let first = line.split_whitespace().next();
    line.starts_with("  ") && first.is_some_and(|word| WORDS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_progress_is_noise() {
        assert!(is_noise("   Compiling haft-api v0.1.0"));
        assert!(is_noise("    Finished `test` profile in 1.2s"));
        assert!(!is_noise("error: could not compile"));
        assert!(!is_noise("  --> src/lib.rs:3"));
        assert!(!is_noise("Running away"));
        assert!(!is_noise(""));
    }
}
