//! Haft's benchmarks. `README.md` says how to add one.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use haft_bench::{Benchmark, Budget};

mod item_json;

const BENCHMARKS: &[Benchmark] = &[Benchmark {
    name: "item-to-json",
    about: "an item of 4 KiB as JSON, beside a copy of the same bytes",
    budgets: &[Budget::CpuRatio(100.0)],
    set_up: item_json::to_json,
}];

fn main() -> ExitCode {
    haft_bench::main(BENCHMARKS)
}
