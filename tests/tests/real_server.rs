//! A real server that isn't ours: llama.cpp's own, over HTTP, with real weights
//! and the real binary. What a model this small says is nobody's promise; that
//! turns run, stream, stop and fail as they should, is ours.

use std::time::{Duration, Instant};

use haft_tests::{LlamaServer, Running, World, free_port};
use serde_json::Value;

fn kinds(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .filter_map(|event| event["type"].as_str())
        .collect()
}

/// The arguments and environment of a turn over the server on this port.
fn turn(world: &World, port: u16, prompt: &str) -> std::process::Command {
    let args = [
        "run",
        "--engine",
        "openai",
        "--approve",
        "all",
        "--json",
        "--thread",
        "last",
    ];
    let fresh = world.home().join("threads").exists();
    let args = if fresh { &args[..] } else { &args[..6] };
    let mut command = world.haft(args.iter().copied().chain([prompt]));
    command.env("OPENAI_BASE_URL", format!("http://127.0.0.1:{port}/v1"));
    command
}

/// A world whose model says the same each time, and not too much: left alone,
/// one this small may go on until its window is full.
fn measured_world() -> World {
    let world = World::new();
    let folder = world.dir().join("config/haft");
    std::fs::create_dir_all(&folder).unwrap();
    let config = "[ext.engine-openai]\nextra_body = { temperature = 0.0, max_tokens = 200 }\n";
    std::fs::write(folder.join("config.toml"), config).unwrap();
    world
}

/// One test, one server: loading a model for each would take long.
#[test]
#[expect(
    clippy::print_stdout,
    reason = "who reads the test's output wants to know"
)]
fn turns_over_llama_cpp() {
    let llama = match LlamaServer::fetch() {
        Ok(llama) => llama,
        Err(reason) => {
            println!("skipped: {reason}");
            return;
        }
    };
    let world = measured_world();
    world.file("notes.txt", "Buy milk.\n");
    let port = free_port();

    // The server comes up only after the turn has begun.
    let first = Running::start(turn(
        &world,
        port,
        "Read the file notes.txt with read_file.",
    ));
    std::thread::sleep(Duration::from_millis(700));
    let mut serving = llama.start(port);
    let first = first.finish().expect(0);
    let events = first.json_lines();
    let seen = kinds(&events);
    assert!(seen.contains(&"engine.retry"), "{seen:?}");
    assert_eq!(*seen.last().unwrap(), "turn.completed");
    let deltas = seen.iter().filter(|kind| **kind == "message.delta").count();
    assert!(deltas > 1, "it streams: {seen:?}");
    let usage = events
        .iter()
        .find(|event| event["type"] == "usage")
        .expect("usage");
    assert!(
        usage["round"]["input"]
            .as_u64()
            .is_some_and(|tokens| tokens > 50),
        "{usage}"
    );
    world.printed("last");

    // The same thread goes on over the same server, and is stopped in mid-stream.
    let prompt = "Count from 1 to 1000, one number a line.";
    let mut stopped = Running::start(turn(&world, port, prompt));
    stopped.wait_for("message.delta");
    stopped.signal("INT");
    let at = Instant::now();
    let stopped = stopped.finish();
    assert_eq!(stopped.code, Some(130), "{}", stopped.stderr);
    assert!(at.elapsed() < Duration::from_secs(5), "{:?}", at.elapsed());
    world.printed("last");

    // More than the model's window.
    let long = "word ".repeat(6_000);
    let too_long = Running::start(turn(&world, port, &long)).finish();
    assert_eq!(too_long.code, Some(1), "{}", too_long.stderr);
    let events = too_long.json_lines();
    let failed = events.last().unwrap();
    assert_eq!(failed["error"]["kind"], "context_overflow", "{failed}");
    world.printed("last");

    // The server dies in mid-stream.
    let world = measured_world();
    let mut broken = Running::start(turn(&world, port, prompt));
    broken.wait_for("message.delta");
    serving.kill();
    let broken = broken.finish();
    assert_eq!(broken.code, Some(1), "{}", broken.stderr);
    let events = broken.json_lines();
    assert_eq!(*kinds(&events).last().unwrap(), "turn.failed");
    assert!(
        !kinds(&events).contains(&"tool.started"),
        "no half call ran"
    );
    let printed = world.printed("last");
    assert_eq!(
        printed.last().unwrap()["type"],
        "assistant_message",
        "what was shown is kept"
    );
}
