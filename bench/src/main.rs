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
mod commands;
mod decode;
mod deltas;
mod hand_written;
mod item_json;
mod list;
mod load;
mod lua;
mod memory;
mod one_file;
mod parallel;
mod plugin;
mod postgres;
mod process;
mod recorded;
mod request;
mod rounds;
mod skills;
mod sqlite;

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
        name: "output-flood",
        about: "a gigabyte of a confined command's output (5 s are 200 MB/s) and what it adds to memory, beside a pipe to `cat`",
        budgets: &[
            Budget::Wall(Duration::from_secs(5)),
            Budget::Memory(16 * 1024 * 1024),
        ],
        set_up: commands::flood,
    },
    Benchmark {
        name: "confined-command",
        about: "`true` through a session that confines it in full, beside `std::process`",
        budgets: &[Budget::WallRatio(3.0)],
        set_up: commands::confined,
    },
    Benchmark {
        name: "local-session",
        about: "making a local session, beside opening its folder",
        budgets: &[Budget::Wall(Duration::from_millis(5))],
        set_up: commands::session,
    },
    Benchmark {
        name: "first-command",
        about: "a local session, its first command and its end, beside `std::process`",
        budgets: &[],
        set_up: commands::first_command,
    },
    Benchmark {
        name: "limited-commands",
        about: "the latest of 200 confined commands at a time that each meet a limit of 1 s, from its start on, beside a wait of 1 s",
        budgets: &[Budget::Wall(Duration::from_millis(1250))],
        set_up: commands::limited,
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
        name: "append-postgres",
        about: "a durable record into one of 64 threads in PostgreSQL at once, beside a bare insert over as many connections",
        budgets: &[],
        set_up: postgres::append,
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
        name: "append-64",
        about: "a durable record into one of 64 threads at once, beside an insert into SQLite (`WAL`, `FULL`) by as many",
        budgets: &[Budget::WallRatio(0.1)],
        set_up: sqlite::side_by_side,
    },
    Benchmark {
        name: "load",
        about: "opening a thread of 100,000 items, beside reading its lines as JSON of the same types",
        budgets: &[Budget::CpuRatio(1.25)],
        set_up: load::thread,
    },
    Benchmark {
        name: "check",
        about: "verifying the log of 100,000 items, beside the same floor as `load`",
        budgets: &[Budget::CpuRatio(0.1)],
        set_up: load::check_thread,
    },
    Benchmark {
        name: "resume",
        about: "the writer and the last 50 records of a thread of 100,000 items, beside reading these lines",
        budgets: &[Budget::Wall(Duration::from_millis(2))],
        set_up: load::resume,
    },
    Benchmark {
        name: "resume-memory",
        about: "what the same adds to a process's memory, beside the bytes of the log's end",
        budgets: &[Budget::Memory(8 * 1024 * 1024)],
        set_up: memory::resumed,
    },
    Benchmark {
        name: "idle-thread",
        about: "what an idle thread with a writer holds in memory, beside an open file",
        budgets: &[Budget::Memory(10_000)],
        set_up: memory::idle,
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
        name: "decode-recorded",
        about: "a megabyte of recorded streams over all wires (5 ms are 200 MB/s), beside parsing their events as values",
        budgets: &[Budget::Cpu(Duration::from_millis(5))],
        set_up: recorded::decode,
    },
    Benchmark {
        name: "request-chat",
        about: "the body of a request for a thread of 10,000 items, beside a copy of its bytes",
        budgets: &[Budget::CpuRatio(1.2)],
        set_up: request::chat,
    },
    Benchmark {
        name: "request-responses",
        about: "the same over Responses",
        budgets: &[Budget::CpuRatio(1.2)],
        set_up: request::responses,
    },
    Benchmark {
        name: "request-messages",
        about: "the same over Messages",
        budgets: &[Budget::CpuRatio(1.2)],
        set_up: request::messages,
    },
    Benchmark {
        name: "item-to-json",
        about: "an item of 4 KiB as JSON, beside a copy of the same bytes",
        budgets: &[Budget::CpuRatio(100.0)],
        set_up: item_json::to_json,
    },
    Benchmark {
        name: "lua-no-op",
        about: "a tool in Lua that does nothing, one of a batch of 500, beside a call made by hand in a bare state",
        budgets: &[Budget::CpuRatio(2.5)],
        set_up: lua::no_op,
    },
    Benchmark {
        name: "lua-wait",
        about: "one that lets others run once, beside one made by hand that yields once",
        budgets: &[Budget::CpuRatio(3.0)],
        set_up: lua::wait,
    },
    Benchmark {
        name: "lua-alone",
        about: "one alone in its batch, beside a message to a thread and back",
        budgets: &[Budget::Wall(Duration::from_micros(30))],
        set_up: lua::batch_of_one,
    },
    Benchmark {
        name: "lua-dispatched",
        about: "one through the runtime's dispatcher, beside the host alone",
        budgets: &[Budget::Cpu(Duration::from_micros(15))],
        set_up: lua::dispatched,
    },
    Benchmark {
        name: "lua-sleep-64",
        about: "64 tools in Lua that sleep 50 ms at once, beside a wait of 50 ms",
        budgets: &[Budget::Wall(Duration::from_millis(58))],
        set_up: lua::sleepers_64,
    },
    Benchmark {
        name: "lua-sleep-1000",
        about: "1,000 of them",
        budgets: &[Budget::Wall(Duration::from_millis(75))],
        set_up: lua::sleepers_1000,
    },
    Benchmark {
        name: "lua-json-in",
        about: "a MiB of JSON as a tool's arguments in Lua, beside reading it into serde_json's values",
        budgets: &[Budget::CpuRatio(2.0)],
        set_up: lua::input,
    },
    Benchmark {
        name: "lua-json-out",
        about: "a MiB of JSON as its result, beside writing it from serde_json's values",
        budgets: &[Budget::CpuRatio(4.0)],
        set_up: lua::output,
    },
    Benchmark {
        name: "lua-recursion",
        about: "a recursive function under the host's limits, beside a bare state",
        budgets: &[Budget::CpuRatio(2.3)],
        set_up: lua::recursion,
    },
    Benchmark {
        name: "lua-loops",
        about: "arithmetic, strings, tables and sorting under the limits, beside a bare state",
        budgets: &[Budget::CpuRatio(1.3)],
        set_up: lua::loops,
    },
    Benchmark {
        name: "lua-hostile",
        about: "the last of eleven programs that never end to be ended, its sibling alive, beside its deadline of 100 ms",
        budgets: &[Budget::Wall(Duration::from_millis(150))],
        set_up: lua::hostile,
    },
    Benchmark {
        name: "lua-state",
        about: "a host's state with its thread, beside a bare state; the memory is the state's",
        budgets: &[
            Budget::Cpu(Duration::from_micros(300)),
            Budget::Memory(48 * 1024),
        ],
        set_up: lua::fresh,
    },
    Benchmark {
        name: "lua-idle",
        about: "half a second of a host that nobody calls, beside none",
        budgets: &[Budget::Cpu(Duration::from_micros(200))],
        set_up: lua::idle,
    },
    Benchmark {
        name: "lua-pause",
        about: "the longest pause (p99.9) of work in a heap of 88 MB, beside the incremental collector",
        budgets: &[Budget::Wall(Duration::from_millis(1))],
        set_up: lua::pauses,
    },
    Benchmark {
        name: "plugin-tool-call",
        about: "a call of a tool in a shared object, beside the same linked in",
        budgets: &[Budget::Cpu(Duration::from_nanos(2_500))],
        set_up: plugin::tool_call_pair,
    },
    Benchmark {
        name: "plugin-text-delta",
        about: "a piece of text of an engine in a shared object, beside the same linked in",
        budgets: &[Budget::Cpu(Duration::from_nanos(600))],
        set_up: plugin::text_delta,
    },
    Benchmark {
        name: "plugin-file",
        about: "a mebibyte of the host's file, read by a tool in a shared object, beside the same linked in",
        budgets: &[Budget::Cpu(Duration::from_micros(100))],
        set_up: plugin::file,
    },
    Benchmark {
        name: "plugin-load",
        about: "loading a shared object that the system hasn't loaded yet, beside reading it",
        budgets: &[Budget::Cpu(Duration::from_millis(2))],
        set_up: plugin::loading,
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
    Benchmark {
        name: "skill-resident",
        about: "what one more of 1,000 skills that nobody calls holds in memory, and how long its start took, beside a bare engine",
        budgets: &[
            Budget::Memory(250 * 1024),
            Budget::Wall(Duration::from_millis(1)),
        ],
        set_up: memory::skills,
    },
    Benchmark {
        name: "skill-hostile",
        about: "the last of seven programs that never end to be ended, its neighbour alive, beside its deadline of 100 ms",
        budgets: &[Budget::Wall(Duration::from_millis(150))],
        set_up: skills::hostile,
    },
    Benchmark {
        name: "skill-idle",
        about: "half a second of 50 skills that nobody calls, beside none",
        budgets: &[Budget::Cpu(Duration::from_millis(1))],
        set_up: skills::idle,
    },
];

fn main() -> ExitCode {
    // Looks after the commands that a session of this program runs.
    haft_ext_runner_local::supervise_if_asked();
    match std::env::args().nth(1).as_deref() {
        Some(chat_server::ARGUMENT) => chat_server::main(),
        Some(commands::FLOOD) => commands::flood_main(),
        Some(process::ARGUMENT) => process::main(),
        Some(memory::ARGUMENT) => memory::main(),
        _ => haft_bench::main(BENCHMARKS),
    }
}
