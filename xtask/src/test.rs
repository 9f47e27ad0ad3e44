//! `cargo xtask test`: everything there is to check.
//!
//! Steps run in order, also after one failed; only what needs a build is left
//! out once the build broke. What passes prints a line, what fails all it said.
//! The last line of all is `N passed, N failed, N skipped`: tests, with one more
//! failure for each other step that failed.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::Result;

mod libtest;
mod options;
mod report;
mod steps;

use options::{Options, Wish};
use report::{Outcome, Report};
use steps::{STEPS, Step};

/// Runs the task.
pub(crate) fn main(arguments: lexopt::Parser) -> Result<ExitCode> {
    let names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
    let options = match Options::parse(arguments, &names)? {
        Wish::Help => {
            println!("{}", options::USAGE);
            return Ok(ExitCode::SUCCESS);
        }
        Wish::List => {
            for step in STEPS {
                println!("{:8}{}", step.name, step.about);
            }
            return Ok(ExitCode::SUCCESS);
        }
        Wish::Run(options) => options,
    };
    let report = run(STEPS.iter().filter(|step| options.includes(step.name)));
    print!("{report}");
    Ok(ExitCode::from(u8::from(report.failed() > 0)))
}

fn run<'s>(steps: impl Iterator<Item = &'s Step>) -> Report {
    let mut report = Report::default();
    let mut build_broke = false;
    for step in steps {
        println!("== {}: {}", step.name, step.about);
        if build_broke && step.needs_build {
            println!("   not run: the build broke");
            let outcome = Outcome::skipped(format!("{}: the build broke", step.name));
            report.add(step.name, Duration::ZERO, outcome);
            continue;
        }
        let start = Instant::now();
        let outcome = (step.run)().unwrap_or_else(|error| {
            println!("   {error}");
            Outcome::failed(step.name)
        });
        let time = start.elapsed();
        println!("   {}, {:.1} s", outcome.word(), time.as_secs_f64());
        build_broke |= step.builds && !outcome.failed.is_empty();
        report.add(step.name, time, outcome);
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &'static str, run: fn() -> Result<Outcome>) -> Step {
        Step {
            name,
            about: "",
            builds: name == "build",
            needs_build: name == "test",
            run,
        }
    }

    fn passed() -> Result<Outcome> {
        Ok(Outcome {
            passed: 3,
            ..Outcome::default()
        })
    }

    #[test]
    fn later_steps_run_after_a_failure() {
        let steps = [
            step("fmt", || Ok(Outcome::failed("fmt"))),
            step("odd", || Err("no such program".into())),
            step("build", || Ok(Outcome::default())),
            step("test", passed),
        ];
        assert_eq!(run(steps.iter()).summary(), "3 passed, 2 failed, 0 skipped");
    }

    #[test]
    fn a_broken_build_skips_what_needs_it_and_says_so() {
        let steps = [
            step("build", || Ok(Outcome::failed("build"))),
            step("test", passed),
            step("tidy", || Ok(Outcome::default())),
        ];
        let report = run(steps.iter());
        assert_eq!(report.summary(), "0 passed, 1 failed, 1 skipped");
        assert!(report.to_string().contains("test: the build broke"));
    }
}
