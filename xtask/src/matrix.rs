//! `cargo xtask matrix`: every feature set and every extension, linked and as
//! shared objects, and a third party's world on packaged crates.
//!
//! A line is one thing that is tried; it prints its result and its time, and a
//! failing one stops no other. The last line of all is
//! `N passed, N failed, N skipped`.

use std::process::ExitCode;
use std::time::Instant;

use lexopt::prelude::*;

use crate::Result;
use crate::workspace::Workspace;

mod builds;
mod extensions;
mod features;
mod fuzz;
mod packages;
mod shop;
mod stores;
mod system;
mod targets;
mod third_party;

use shop::Shop;

const USAGE: &str = "\
Usage: cargo xtask matrix [OPTIONS]

  --quick        what continuous integration has the time for (the default)
  --full         everything: every feature alone, release builds, memory checkers, fuzzing
  --only TEXT    only lines whose name contains this; may be repeated
  --list         list the lines

The last line is `N passed, N failed, N skipped`; exit status 1 if any failed.";

/// What is tried in one line.
pub(crate) struct Line {
    name: String,
    depth: Depth,
    run: Box<Run>,
}

type Run = dyn Fn(&Shop) -> Result<Verdict>;

/// When a line runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Depth {
    Quick,
    Full,
}

/// What came of a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    /// With the lines that explain it.
    Failed(Vec<String>),
    /// With the reason.
    Skipped(String),
}

impl Line {
    fn new(
        depth: Depth,
        name: impl Into<String>,
        run: impl Fn(&Shop) -> Result<Verdict> + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            depth,
            run: Box::new(run),
        }
    }
}

/// What came of all lines.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: Vec<String>,
    /// Each with the reason.
    pub(crate) skipped: Vec<String>,
}

impl Tally {
    fn summary(&self) -> String {
        format!(
            "{} passed, {} failed, {} skipped",
            self.passed,
            self.failed.len(),
            self.skipped.len()
        )
    }
}

/// Runs the task.
pub(crate) fn main(mut arguments: lexopt::Parser) -> Result<ExitCode> {
    let (mut depth, mut only, mut list) = (Depth::Quick, Vec::new(), false);
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("quick") => depth = Depth::Quick,
            Long("full") => depth = Depth::Full,
            Long("only") => only.push(arguments.value()?.string()?),
            Long("list") => list = true,
            Short('h') | Long("help") => {
                println!("{USAGE}");
                return Ok(ExitCode::SUCCESS);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let workspace = Workspace::load()?;
    let mut lines = lines(&workspace, depth);
    lines.retain(|line| only.is_empty() || only.iter().any(|text| line.name.contains(text)));
    if list {
        lines.iter().for_each(|line| println!("{}", line.name));
        return Ok(ExitCode::SUCCESS);
    }
    if lines.is_empty() {
        return Err("no line has such a name; `--list` tells them".into());
    }
    let tally = run(&lines, &Shop::new(workspace));
    println!("\n{}", tally.summary());
    Ok(ExitCode::from(u8::from(!tally.failed.is_empty())))
}

/// The quick lines, as a step of the tests.
pub(crate) fn quick() -> Result<Tally> {
    let workspace = Workspace::load()?;
    let lines = lines(&workspace, Depth::Quick);
    Ok(run(&lines, &Shop::new(workspace)))
}

fn lines(workspace: &Workspace, depth: Depth) -> Vec<Line> {
    let mut lines = features::lines(workspace);
    lines.extend(packages::lines(workspace));
    lines.extend(third_party::lines(workspace));
    lines.extend(extensions::lines(workspace));
    lines.extend(system::lines(workspace));
    lines.extend(stores::lines(workspace));
    lines.extend(targets::lines(workspace));
    lines.extend(builds::lines(workspace));
    lines.extend(fuzz::lines(workspace));
    lines.retain(|line| line.depth <= depth);
    lines
}

fn run(lines: &[Line], shop: &Shop) -> Tally {
    let mut tally = Tally::default();
    for line in lines {
        let start = Instant::now();
        let verdict = (line.run)(shop);
        let verdict = verdict.unwrap_or_else(|e| Verdict::Failed(vec![e.to_string()]));
        let say = |word: &str, why: &str| {
            let (name, seconds) = (&line.name, start.elapsed().as_secs_f64());
            println!("   {word:8}{name:56}{seconds:6.1} s{why}");
        };
        match verdict {
            Verdict::Passed => {
                say("ok", "");
                tally.passed += 1;
            }
            Verdict::Skipped(why) => {
                say("skipped", &format!("  {why}"));
                tally.skipped.push(format!("{}: {why}", line.name));
            }
            Verdict::Failed(lines) => {
                say("FAILED", "");
                lines.iter().for_each(|line| println!("      {line}"));
                tally.failed.push(line.name.clone());
            }
        }
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn workspace() -> Workspace {
        Workspace {
            root: PathBuf::from("/w"),
            target: PathBuf::from("/t"),
            packages: Vec::new(),
        }
    }

    #[test]
    fn a_failing_line_stops_no_other() {
        let lines = [
            Line::new(Depth::Quick, "a", |_| Err("broken".into())),
            Line::new(Depth::Quick, "b", |_| Ok(Verdict::Skipped("no cc".into()))),
            Line::new(Depth::Quick, "c", |_| Ok(Verdict::Failed(Vec::new()))),
            Line::new(Depth::Quick, "d", |_| Ok(Verdict::Passed)),
        ];
        let tally = run(&lines, &Shop::new(workspace()));
        assert_eq!(tally.summary(), "1 passed, 2 failed, 1 skipped");
        assert_eq!(tally.failed, ["a", "c"]);
        assert_eq!(tally.skipped, ["b: no cc"]);
    }

    #[test]
    fn a_workspace_without_our_packages_has_no_lines() {
        assert!(lines(&workspace(), Depth::Full).is_empty());
    }
}
