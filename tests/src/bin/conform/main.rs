//! Runs the suites of the test kit on an extension crate's parts, linked into
//! this program or loaded from a shared object: the same list either way.
//!
//! ```sh
//! conform haft-ext-store-jsonl
//! conform haft-ext-store-jsonl --object /absolute/path/libhaft_ext_store_jsonl.so
//! ```
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command's output is its purpose"
)]

use std::path::PathBuf;
use std::process::ExitCode;

// What is linked into the command is linked into this.
use haft as _;
use haft_testkit::{Report, run_all};

mod host;
mod server;
mod subjects;

use host::{Host, Result};

fn main() -> ExitCode {
    // Commands of the local runner are looked after by this very program.
    haft_ext_runner_local::supervise_if_asked();
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<ExitCode> {
    let (package, object) = arguments()?;
    let host = match &object {
        None => Host::linked(&package)?,
        Some(path) => Host::loaded(path)?,
    };
    let suites = subjects::suites(&package, &host)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let mut kept = true;
    for (name, suite) in suites {
        let report = runtime.block_on(run_all(suite));
        kept &= report.is_kept();
        println!("{name}: {}", summary(&report));
        if !report.is_kept() {
            print!("{report}");
        }
    }
    let rest = runtime.block_on(host.at_rest());
    if let Err(left) = &rest {
        println!("{left}");
    }
    Ok(ExitCode::from(u8::from(!kept || rest.is_err())))
}

fn arguments() -> Result<(String, Option<PathBuf>)> {
    use lexopt::prelude::*;

    let (mut package, mut object) = (None, None);
    let mut arguments = lexopt::Parser::from_env();
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("object") => object = Some(PathBuf::from(arguments.value()?)),
            Value(name) if package.is_none() => package = Some(name.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok((package.ok_or("which package?")?, object))
}

fn summary(report: &Report) -> String {
    let (broken, skipped) = (report.broken().len(), report.skipped().len());
    let kept = report.lines.len() - broken - skipped;
    format!("{kept} kept, {broken} broken, {skipped} not claimed")
}
