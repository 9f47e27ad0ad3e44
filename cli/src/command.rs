//! The command, from the process's arguments to its exit status.

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{self, Cli};
use crate::commands;
use crate::console::Console;
use crate::failure::{Failure, Outcome};
use crate::render;

/// The whole `haft` command, with every extension that is linked into this
/// program: those of this crate's features, and each other extension crate that
/// the program names. It reads the process's arguments and environment.
///
/// ```no_run
/// // An extension crate of your own: `use my_extension as _;`
///
/// fn main() -> std::process::ExitCode {
///     haft::main()
/// }
/// ```
pub fn main() -> ExitCode {
    #[cfg(feature = "runner-local")]
    haft_ext_runner_local::supervise_if_asked();
    let console = Console::of_process();
    let status = run(&console).unwrap_or_else(|failure| {
        if let Some(message) = failure.message() {
            console.say(&render::failure_line(&message, console.colour));
        }
        failure.status()
    });
    ExitCode::from(status)
}

fn run(console: &Console) -> Outcome {
    match Cli::try_parse() {
        Ok(cli) => commands::run(cli, console),
        Err(error) => args::report(&error).map_err(Failure::Usage),
    }
}
