//! The supervisor as a program of its own, for embedders whose own `main` can't
//! call [`haft_ext_runner_local::supervise_if_asked`]: name its path in
//! `LocalConfig::supervisor`.

use std::io::Write as _;

fn main() -> std::process::ExitCode {
    haft_ext_runner_local::supervise_if_asked();
    let hint = "haft-supervisor is started by a Haft runner, not by hand";
    // Nowhere else to say it if standard error is closed.
    let _ = writeln!(std::io::stderr(), "{hint}");
    std::process::ExitCode::from(2)
}
