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

/// A wire that the server speaks, and how it is chosen.
struct Wire {
    name: &'static str,
    engine: &'static str,
    /// Has the model say the same each time, and not too much: left alone, one
    /// this small may go on until its window is full.
    config: &'static str,
}

const WIRES: [Wire; 3] = [
    Wire {
        name: "chat",
        engine: "openai",
        config: "[ext.engine-openai]\nextra_body = { temperature = 0.0, max_tokens = 200 }\n",
    },
    Wire {
        name: "responses",
        engine: "openai",
        config: "[ext.engine-openai]\nwire = \"responses\"\n\
                 extra_body = { temperature = 0.0, max_output_tokens = 200 }\n",
    },
    Wire {
        name: "messages",
        engine: "anthropic",
        config: "[ext.engine-anthropic]\nmax_tokens = 200\nextra_body = { temperature = 0.0 }\n",
    },
];

impl Wire {
    fn world(&self) -> World {
        let world = World::new();
        let folder = world.dir().join("config/haft");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("config.toml"), self.config).unwrap();
        world
    }

    /// The arguments and environment of a turn over the server on this port.
    fn turn(&self, world: &World, port: u16, prompt: &str) -> std::process::Command {
        let mut args = vec!["run", "--engine", self.engine, "--approve", "all", "--json"];
        if world.home().join("threads").exists() {
            args.extend(["--thread", "last"]);
        }
        args.push(prompt);
        let mut command = world.haft(args);
        command.env("OPENAI_BASE_URL", format!("http://127.0.0.1:{port}/v1"));
        command.env("ANTHROPIC_BASE_URL", format!("http://127.0.0.1:{port}"));
        command
    }
}

const COUNT: &str = "Count from 1 to 1000, one number a line.";

/// One test: a model that is loaded for each would take long.
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
    for wire in &WIRES {
        println!("over {}", wire.name);
        turns_over(wire, &llama);
    }
}

fn turns_over(wire: &Wire, llama: &LlamaServer) {
    let world = wire.world();
    world.file("notes.txt", "Buy milk.\n");
    let port = free_port();

    // The server comes up only after the turn has begun.
    let prompt = "Read the file notes.txt with read_file.";
    let first = Running::start(wire.turn(&world, port, prompt));
    std::thread::sleep(Duration::from_millis(700));
    let mut serving = llama.start(port);
    let first = first.finish().expect(0);
    let events = first.json_lines();
    let seen = kinds(&events);
    assert!(seen.contains(&"engine.retry"), "{seen:?}");
    assert_eq!(*seen.last().unwrap(), "turn.completed");
    let count = |kind: &str| seen.iter().filter(|seen| **seen == kind).count();
    assert!(count("message.delta") > 1, "it streams: {seen:?}");
    assert_eq!(count("tool.started"), count("tool.completed"), "{seen:?}");
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
    let mut stopped = Running::start(wire.turn(&world, port, COUNT));
    stopped.wait_for("message.delta");
    stopped.signal("INT");
    let at = Instant::now();
    let stopped = stopped.finish();
    assert_eq!(stopped.code, Some(130), "{}", stopped.stderr);
    assert!(at.elapsed() < Duration::from_secs(5), "{:?}", at.elapsed());
    world.printed("last");

    // More than the model's window. The server has one place for a model's
    // answer: that it answers shows that the stopped one is over there, too.
    let long = "word ".repeat(6_000);
    let too_long = Running::start(wire.turn(&world, port, &long)).finish();
    assert_eq!(too_long.code, Some(1), "{}", too_long.stderr);
    let events = too_long.json_lines();
    let failed = events.last().unwrap();
    assert_eq!(failed["error"]["kind"], "context_overflow", "{failed}");
    world.printed("last");

    // The server dies in mid-stream.
    let world = wire.world();
    let mut broken = Running::start(wire.turn(&world, port, COUNT));
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
