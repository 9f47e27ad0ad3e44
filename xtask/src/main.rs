//! Haft's build tasks. `cargo xtask` lists them; `README.md` in this folder
//! says what each is for.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command's output is its purpose"
)]

use std::process::ExitCode;

mod bench;
mod child;
mod dylib;
mod matrix;
mod progress;
mod test;
mod tidy;
mod workspace;

/// What every task may fail with: a text for people that says what to do.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// One task of `cargo xtask`.
struct Task {
    name: &'static str,
    about: &'static str,
    run: fn(lexopt::Parser) -> Result<ExitCode>,
}

const TASKS: &[Task] = &[
    Task {
        name: "test",
        about: "everything there is to check, with one summary line at the end",
        run: test::main,
    },
    Task {
        name: "tidy",
        about: "the rules of this repository that no compiler knows",
        run: tidy::main,
    },
    Task {
        name: "matrix",
        about: "every feature set and extension, linked and as shared objects, from packaged crates",
        run: matrix::main,
    },
    Task {
        name: "bench",
        about: "benchmarks against a floor measured in the same run",
        run: bench::main,
    },
    Task {
        name: "dylib",
        about: "an extension crate as a shared object, and the configuration that loads it",
        run: dylib::main,
    },
];

fn main() -> ExitCode {
    let mut arguments = lexopt::Parser::from_env();
    match run(&mut arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &mut lexopt::Parser) -> Result<ExitCode> {
    use lexopt::prelude::*;
    match arguments.next()? {
        Some(Value(name)) => {
            let name = name.string()?;
            let task = TASKS
                .iter()
                .find(|task| task.name == name)
                .ok_or_else(|| format!("no task is called `{name}`\n\n{}", usage()))?;
            // The rest of the command line is the task's own.
            let rest = std::mem::replace(arguments, lexopt::Parser::from_args([""; 0]));
            (task.run)(rest)
        }
        Some(Short('h') | Long("help")) => {
            println!("{}", usage());
            Ok(ExitCode::SUCCESS)
        }
        None => Err(format!("which task?\n\n{}", usage()).into()),
        Some(other) => Err(other.unexpected().into()),
    }
}

fn usage() -> String {
    let mut text = String::from("Usage: cargo xtask TASK [OPTIONS]\n");
    for task in TASKS {
        text += &format!("\n  {:8}{}", task.name, task.about);
    }
    text + "\n\n`cargo xtask TASK --help` tells a task's options."
}
