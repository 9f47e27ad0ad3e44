//! Haft's benchmarks. `README.md` says how to add one.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command's output is its purpose"
)]

use std::process::ExitCode;
use std::time::Duration;

use haft_bench::{Benchmark, Budget};

mod agent;
mod append;
mod chat_server;
mod decode;
mod deltas;
mod hand_written;
mod item_json;
mod list;
mod load;
mod parallel;
mod process;
mod rounds;
mod skills;

const BENCHMARKS: &[Benchmark] = &[
    // First, while this process itself is small: see `Sample::of_process`.
    Benchmark {
        name: "text-turn-process",
        about: "the command's whole life for a turn of one line, beside a process that does just that",
        budgets: &[
            Budget::Cpu(Duration::from_millis(4)),
            Budget::Memory(10_000_000),
        ],
        set_up: process::text_turn,
    },
    Benchmark {
        name: "tool-round",
        about: "a model's call over HTTP, a tool and the log (policy `os`), beside a hand-written loop that stores nothing",
        budgets: &[Budget::CpuRatio(3.0)],
        set_up: rounds::buffered,
    },
    Benchmark {
        name: "tool-round-durable",
        about: "the same with the default policy, `barriers`",
        budgets: &[],
        set_up: rounds::durable,
    },
    Benchmark {
        name: "tool-round-flat",
        about: "rounds 450 to 500 of a turn, beside rounds 50 to 100 of the same",
        budgets: &[Budget::CpuRatio(1.3)],
        set_up: rounds::flat,
    },
    Benchmark {
        name: "parallel-tools",
        about: "a turn whose one round runs 64 tools of 50 ms, beside a wait of 50 ms",
        budgets: &[Budget::Wall(Duration::from_millis(60))],
        set_up: parallel::tools,
    },
    Benchmark {
        name: "text-delta",
        about: "a piece of text from the server to a subscriber, beside a hand-written reader",
        budgets: &[Budget::Cpu(Duration::from_micros(3))],
        set_up: deltas::end_to_end,
    },
    Benchmark {
        name: "conversations",
        about: "a round of one of 100 turns at once, 10 rounds each (policy `os`), beside 100 hand-written loops",
        budgets: &[Budget::CpuRatio(2.0)],
        set_up: rounds::conversations,
    },
    Benchmark {
        name: "append",
        about: "a record of 600 bytes into a log, beside a write of the same bytes",
        budgets: &[Budget::CpuRatio(4.0)],
        set_up: append::single,
    },
    Benchmark {
        name: "append-batch",
        about: "a group of ten such records, beside one write of the same bytes",
        budgets: &[Budget::CpuRatio(2.0)],
        set_up: append::batch,
    },
    Benchmark {
        name: "append-durable",
        about: "a record that is on the disk then, beside a write and `fdatasync`",
        budgets: &[Budget::WallRatio(1.3)],
        set_up: append::durable,
    },
    Benchmark {
        name: "load",
        about: "opening a thread of 100,000 items, beside reading its lines as JSON of the same types",
        budgets: &[Budget::CpuRatio(1.25)],
        set_up: load::thread,
    },
    Benchmark {
        name: "list",
        about: "the newest 50 of 10,000 threads in a store just opened, beside reading its index",
        budgets: &[Budget::Wall(Duration::from_millis(5))],
        set_up: list::cold,
    },
    Benchmark {
        name: "list-again",
        about: "the same in a store that has listed them before",
        budgets: &[Budget::Wall(Duration::from_millis(5))],
        set_up: list::warm,
    },
    Benchmark {
        name: "decode",
        about: "a megabyte of Chat Completions stream (5 ms are 200 MB/s), beside reading just the text",
        budgets: &[Budget::Cpu(Duration::from_millis(5))],
        set_up: decode::stream,
    },
    Benchmark {
        name: "item-to-json",
        about: "an item of 4 KiB as JSON, beside a copy of the same bytes",
        budgets: &[Budget::CpuRatio(100.0)],
        set_up: item_json::to_json,
    },
    Benchmark {
        name: "skill-sync",
        about: "a JavaScript tool that returns at once, in batches of 64, beside the bare engine",
        budgets: &[Budget::Cpu(Duration::from_micros(5))],
        set_up: skills::sync,
    },
    Benchmark {
        name: "skill-await",
        about: "the same with one await",
        budgets: &[Budget::CpuRatio(2.5)],
        set_up: skills::awaiting,
    },
    Benchmark {
        name: "skill-single",
        about: "the same without, one call at a time",
        budgets: &[Budget::Wall(Duration::from_micros(25))],
        set_up: skills::single,
    },
    Benchmark {
        name: "skill-naps",
        about: "64 calls that sleep for 50 ms at once, beside one sleep",
        budgets: &[Budget::Wall(Duration::from_millis(58))],
        set_up: skills::some_naps,
    },
    Benchmark {
        name: "skill-many-naps",
        about: "10,000 such calls",
        budgets: &[Budget::Wall(Duration::from_millis(800))],
        set_up: skills::many_naps,
    },
    Benchmark {
        name: "skill-json-in",
        about: "a megabyte of arguments, beside the bare engine's parser",
        budgets: &[Budget::CpuRatio(1.7)],
        set_up: skills::json_in,
    },
    Benchmark {
        name: "skill-json-out",
        about: "a megabyte of a result, beside serde_json",
        budgets: &[Budget::CpuRatio(6.0)],
        set_up: skills::json_out,
    },
    Benchmark {
        name: "skill-start",
        about: "a small skill's stop and start, beside a bare engine made and dropped",
        budgets: &[Budget::Wall(Duration::from_millis(1))],
        set_up: skills::start,
    },
];

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some(chat_server::ARGUMENT) => chat_server::main(),
        Some(process::ARGUMENT) => process::main(),
        _ => haft_bench::main(BENCHMARKS),
    }
}
