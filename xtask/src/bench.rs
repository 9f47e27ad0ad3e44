//! `cargo xtask bench`: builds the benchmarks as they'd be shipped, and runs
//! them. They live in the package `haft-bench`, so that the tasks themselves
//! stay quick to build.

use std::process::ExitCode;

use crate::Result;
use crate::workspace::cargo;

/// Runs the task; every argument is the benchmarks' own.
pub(crate) fn main(mut arguments: lexopt::Parser) -> Result<ExitCode> {
    let mut command = cargo();
    command.args([
        "run",
        "--release",
        "--quiet",
        "--package",
        "haft-bench",
        "--",
    ]);
    command.args(arguments.raw_args()?);
    let status = command
        .status()
        .map_err(|e| format!("cannot run {command:?}: {e}"))?;
    // Cargo passes the benchmarks' own status on. A signal has none.
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}
