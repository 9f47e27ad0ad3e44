//! The `haft` command.
#![forbid(unsafe_code)]

mod args;
mod assembly;
mod commands;
mod config;
mod console;
mod conversation;
mod engine_choice;
mod failure;
mod instructions;
mod output;
mod plugins;
mod render;
mod scripts;
mod signals;

use std::process::ExitCode;

use clap::Parser as _;

use args::Cli;
use console::Console;
use failure::{Failure, Outcome};

fn main() -> ExitCode {
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
