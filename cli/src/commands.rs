//! One file for each command.

mod chat;
mod doctor;
mod engines;
mod ext;
mod models;
mod opening;
mod run;
mod threads;
mod tools;

use std::io::{self, BufWriter, StdoutLock, Write as _};

use tokio::runtime::{Builder, Runtime};

use crate::args::{Cli, Command};
use crate::console::Console;
use crate::failure::{Failure, Outcome};

/// Runs a command; returns the exit status.
pub(crate) fn run(cli: Cli, console: &Console) -> Outcome {
    let Cli { place, command } = cli;
    match command {
        Command::Run(args) => run::run(&args, &place, console),
        Command::Chat(args) => chat::run(&args, &place, console),
        Command::Threads(command) => threads::run(command, &place, console),
        Command::Tools(command) => tools::run(command, &place, console),
        Command::Ext(command) => ext::run(&command, &place),
        Command::Engines(args) => engines::run(&args, &place, console),
        Command::Models(command) => models::run(&command, &place, console),
        Command::Doctor(args) => doctor::run(&args, &place, console),
    }
}

/// Runs a future to its end. What it started and nobody waits for ends with the
/// process.
///
/// One thread: what takes long waits elsewhere, and threads that wake each
/// other would cost more than a turn.
fn block_on<T>(future: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let runtime = runtime()?;
    let outcome = runtime.block_on(future);
    runtime.shutdown_background();
    outcome
}

fn runtime() -> Outcome<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::failed(format!("can't start the runtime: {e}")))
}

type Output = BufWriter<StdoutLock<'static>>;

/// Writes to standard output.
fn print(write: impl FnOnce(&mut Output) -> io::Result<()>) -> Outcome<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    write(&mut out)
        .and_then(|()| out.flush())
        .map_err(|e| Failure::output(&e))
}
