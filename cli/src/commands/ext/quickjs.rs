//! Skills: new ones, and what is wrong with one.

use std::io::Write as _;
use std::path::Path;

use haft_ext_quickjs::Language;

use crate::commands::print;
use crate::failure::{DONE, FAILED, Failure, Outcome};

pub(super) fn new(name: &str, typescript: bool) -> Outcome {
    if typescript && !cfg!(feature = "typescript") {
        return Err(Failure::usage(
            "--ts: this program was built without TypeScript (feature `typescript`)",
        ));
    }
    let language = match typescript {
        true => Language::TypeScript,
        false => Language::JavaScript,
    };
    let files =
        haft_ext_quickjs::scaffold(Path::new("."), name, language).map_err(Failure::usage)?;
    print(|out| {
        files
            .iter()
            .try_for_each(|file| writeln!(out, "{}", file.display()))
    })?;
    Ok(DONE)
}

pub(super) async fn check(path: &Path) -> Outcome {
    let report = haft_ext_quickjs::check(path)
        .await
        .map_err(Failure::usage)?;
    print(|out| {
        for tool in &report.tools {
            writeln!(out, "tool     {}", tool.name)?;
        }
        for command in &report.commands {
            writeln!(out, "command  {}", command.name)?;
        }
        for test in &report.tests {
            match &test.failure {
                None => writeln!(out, "passed   {}", test.name)?,
                Some(why) => writeln!(out, "FAILED   {}: {why}", test.name)?,
            }
        }
        report
            .problems
            .iter()
            .try_for_each(|problem| writeln!(out, "problem  {problem}"))
    })?;
    Ok(if report.is_fine() { DONE } else { FAILED })
}
