//! The frame of Haft's benchmarks: each measures the real thing and a floor in
//! the same run. `README.md` says how it measures.
//!
//! A benchmark is a [`Benchmark`] in a list; [`main`] does the rest.
//!
//! ```
//! use haft_bench::{Benchmark, Budget, Pair};
//!
//! const SORT: Benchmark = Benchmark {
//!     name: "sort",
//!     about: "a stable sort of 100 numbers, beside a copy of them",
//!     budgets: &[Budget::CpuRatio(1000.0)],
//!     set_up: || {
//!         let numbers: Vec<u32> = (0..100).rev().collect();
//!         let same = numbers.clone();
//!         Pair::of_operations(
//!             move || {
//!                 let mut numbers = numbers.clone();
//!                 numbers.sort();
//!                 Ok(numbers)
//!             },
//!             move || Ok(same.clone()),
//!         )
//!     },
//! };
//!
//! let outcome = SORT.run(3)?;
//! assert_eq!(outcome.name, "sort");
//! assert!(outcome.measured.cpu_ns > outcome.floor.cpu_ns);
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command's output is its purpose"
)]

use std::process::ExitCode;

mod budget;
mod options;
mod outcome;
mod pair;
mod sample;
mod table;

pub use budget::Budget;
pub use outcome::{Cost, Outcome, Ratio, Spread};
pub use pair::{Pair, Round};
pub use sample::{Mark, Sample};

use options::{Options, Wish};

/// What a benchmark may fail with: a text for people.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Why a benchmark can't be had on this machine, as the error of its setting up:
/// it is then left out, and that is no failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped(pub String);

impl std::fmt::Display for Skipped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Skipped {}

/// One benchmark.
#[derive(Debug)]
pub struct Benchmark {
    /// In kebab case.
    pub name: &'static str,
    /// What is measured, and what the floor is.
    pub about: &'static str,
    /// The limits that `--check` holds it to.
    pub budgets: &'static [Budget],
    /// Makes the two sides. Not measured.
    pub set_up: fn() -> Result<Pair>,
}

impl Benchmark {
    /// Measures `rounds` pairs (at least 1), after one to warm up.
    ///
    /// # Errors
    /// What setting up or a side failed with.
    pub fn run(&self, rounds: usize) -> Result<Outcome> {
        let rounds = (self.set_up)()?.measure(rounds.max(1))?;
        Ok(Outcome::new(self.name, self.budgets, &rounds))
    }
}

/// The command line around a list of benchmarks. The exit status is 1 if one
/// failed, or if one exceeded a budget under `--check`, and 2 for a wrong
/// command line.
pub fn main(benchmarks: &[Benchmark]) -> ExitCode {
    match Options::parse(lexopt::Parser::from_env()) {
        Ok(Wish::Run(options)) => run(benchmarks, &options),
        Ok(Wish::Help) => {
            println!("{}", options::USAGE);
            ExitCode::SUCCESS
        }
        Ok(Wish::List) => {
            for benchmark in benchmarks {
                println!("{:24}{}", benchmark.name, benchmark.about);
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(benchmarks: &[Benchmark], options: &Options) -> ExitCode {
    let (mut outcomes, mut broken, mut skipped) = (Vec::new(), false, false);
    for benchmark in benchmarks.iter().filter(|b| options.includes(b.name)) {
        eprintln!("{}: {}", benchmark.name, benchmark.about);
        match benchmark.run(options.rounds) {
            Ok(outcome) => {
                if options.json {
                    println!("{}", outcome.to_json());
                }
                outcomes.push(outcome);
            }
            Err(error) if error.is::<Skipped>() => {
                skipped = true;
                eprintln!("skipped: {}: {error}", benchmark.name);
            }
            Err(error) => {
                broken = true;
                eprintln!("error: {}: {error}", benchmark.name);
            }
        }
    }
    if !broken && !skipped && outcomes.is_empty() {
        eprintln!("error: no benchmark has such a name; `--list` tells them");
        return ExitCode::from(2);
    }
    if !options.json {
        print!("{}", table::of(&outcomes));
    }
    let exceeded = options.check && outcomes.iter().any(|outcome| !outcome.is_ok());
    ExitCode::from(u8::from(broken || exceeded))
}
