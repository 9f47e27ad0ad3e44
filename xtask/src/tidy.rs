//! `cargo xtask tidy`: the rules of this repository that no compiler knows.
//!
//! Each rule is one file here: a function from what it looks at to its
//! findings, and its tests. A rule with exceptions lists them in its file, each
//! with the reason; an exception that nothing needs any more is a finding too.

use std::fmt;
use std::process::ExitCode;

use crate::workspace::Workspace;
use crate::{Result, TASKS};

mod changelog;
mod crate_docs;
mod files;
mod ignored_tests;
mod layers;
mod machine_paths;
mod manifest;
mod readme_commands;
mod shell_words;
mod size;
mod source;
mod unfinished;
mod versions;

/// One breach of a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    file: String,
    /// From 1. Where the whole file is meant, 1.
    line: usize,
    message: String,
}

impl Finding {
    fn new(file: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

/// Runs the task on the workspace of the current folder.
pub(crate) fn main(mut arguments: lexopt::Parser) -> Result<ExitCode> {
    match arguments.next()? {
        Some(lexopt::Arg::Short('h') | lexopt::Arg::Long("help")) => {
            println!("Usage: cargo xtask tidy\n\nPrints one line a finding; exit status 1 if any.");
            return Ok(ExitCode::SUCCESS);
        }
        Some(other) => return Err(other.unexpected().into()),
        None => {}
    }
    let findings = findings()?;
    for finding in &findings {
        println!("{finding}");
    }
    Ok(ExitCode::from(u8::from(!findings.is_empty())))
}

/// Every finding of every rule in the workspace of the current folder, sorted.
pub(crate) fn findings() -> Result<Vec<Finding>> {
    let workspace = Workspace::load()?;
    let files = files::Files::read(&workspace.root)?;
    let mut findings = Vec::new();

    let text = |path: &str| files.text(path).unwrap_or_default();
    findings.extend(layers::check(&workspace.packages, layers::EXCEPTIONS, text));
    findings.extend(changelog::check(
        files.text("CHANGELOG.md"),
        &workspace.packages,
    ));
    for package in &workspace.packages {
        let manifest = text(&package.manifest);
        findings.extend(manifest::check(package, manifest));
        findings.extend(versions::check(&package.manifest, manifest));
        for root in &package.crate_roots {
            findings.extend(crate_docs::check(root, files.source(root)));
        }
    }
    for source in &files.sources {
        findings.extend(source.error.clone());
        findings.extend(unfinished::check(source));
        findings.extend(ignored_tests::check(source));
    }
    findings.extend(size::check(&files.sources, size::EXCEPTIONS));
    for file in &files.texts {
        findings.extend(machine_paths::check(file, files.source(&file.path)));
    }
    let tasks: Vec<_> = TASKS.iter().map(|task| task.name).collect();
    let haft = readme_commands::CommandLine::of_sources(&files.sources, "cli/src/");
    for file in files.texts.iter().filter(|file| file.name() == "README.md") {
        findings.extend(readme_commands::check(file, &tasks, &haft));
    }

    findings.sort();
    findings.dedup();
    Ok(findings)
}
