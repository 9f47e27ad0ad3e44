//! A thread that moves from provider to provider, by the real binary. Each of
//! them refuses what it wouldn't take, a state of another one above all.

use std::process::Command;

use haft_testkit::validate_history;
use haft_tests::{Running, World};

use crate::provider::{CALLING, Server};

/// The wires, by the engine and the setting that choose them.
const WIRES: [(&str, &str); 3] = [
    ("openai", "[ext.engine-openai]\nwire = \"chat\"\n"),
    ("openai", "[ext.engine-openai]\nwire = \"responses\"\n"),
    ("anthropic", ""),
];

fn turn(world: &World, server: &Server, wire: usize, prompt: &str, goes_on: bool) -> Command {
    let (engine, setting) = WIRES[wire];
    let folder = world.dir().join("config/haft");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), setting).unwrap();
    let mut args = vec!["run", "--engine", engine, "--approve", "all", "--json"];
    if goes_on {
        args.extend(["--thread", "last"]);
    }
    args.push(prompt);
    let mut command = world.haft(args);
    command.env("OPENAI_BASE_URL", &server.base_url);
    command.env("ANTHROPIC_BASE_URL", &server.base_url);
    command
}

#[test]
fn a_thread_goes_on_with_every_other_provider() {
    let server = Server::start();
    for first in 0..WIRES.len() {
        let world = World::new();
        // Each wire, then back to the first one, whose own state is still there.
        for step in 0..=WIRES.len() {
            let wire = (first + step) % WIRES.len();
            for prompt in [CALLING, "Say hello."] {
                let goes_on = step > 0 || prompt != CALLING;
                let command = turn(&world, &server, wire, prompt, goes_on);
                let finished = Running::start(command).finish();
                assert_eq!(
                    finished.code,
                    Some(0),
                    "from {first}, step {step}, {prompt}: {}",
                    finished.stderr
                );
            }
            let items = world.items("last");
            assert_eq!(
                validate_history(&items),
                Ok(()),
                "from {first}, step {step}"
            );
        }
        let kinds: Vec<_> = world.items("last").iter().map(|i| i.type_name()).collect();
        let count = |kind| kinds.iter().filter(|k| **k == kind).count();
        assert_eq!(count("tool_result"), 4, "{kinds:?}");
        assert_eq!(count("reasoning"), 12, "{kinds:?}");
    }
}
