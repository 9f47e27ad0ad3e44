//! The command over a real database server: `store = "postgres"`.
#![allow(
    clippy::print_stderr,
    reason = "a test that is skipped says so in its output"
)]

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use haft_testkit::PostgresServer;
use haft_tests::{Finished, Running, World, call, text};
use serde_json::json;

const URL: &str = "HAFT_POSTGRES_URL";
const LEASE_SECONDS: u64 = 2;

/// A machine whose configuration names the server.
struct Node<'s> {
    world: World,
    server: &'s PostgresServer,
}

impl<'s> Node<'s> {
    fn new(server: &'s PostgresServer) -> Self {
        let world = World::new();
        let folder = world.dir().join("config/haft");
        fs::create_dir_all(&folder).unwrap();
        let config = format!(
            "store = \"postgres\"\n[ext.store-postgres]\nlease_seconds = {LEASE_SECONDS}\n"
        );
        fs::write(folder.join("config.toml"), config).unwrap();
        Self { world, server }
    }

    fn haft<A: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = self.world.haft(args);
        command.env(URL, self.server.url());
        command
    }

    fn run<A: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Finished {
        Running::start(self.haft(args)).finish()
    }

    /// The texts of a thread's items, and of its results.
    fn said(&self, thread: &str) -> Vec<String> {
        let shown = self.run(["threads", "show", thread, "--json"]).expect(0);
        let text = |item: serde_json::Value| {
            let text = item["text"].as_str().or(item["parts"][0]["text"].as_str());
            text.map(str::to_owned)
        };
        shown.json_lines().into_iter().filter_map(text).collect()
    }
}

#[test]
fn threads_live_in_the_database() {
    let server = match PostgresServer::start(&[]) {
        Ok(server) => server,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    let (one, other) = (Node::new(&server), Node::new(&server));
    let write = call("c", "write_file", json!({"path": "a.txt", "content": "x"}));
    let rounds = [vec![write], text("written")];
    let turn = one.run(one.world.turn(&rounds, &[])).expect(0);
    assert_eq!(turn.stdout, "written\n");
    // Nothing of it is on this machine.
    assert!(!one.world.home().join("threads").exists());

    // Another machine lists it and goes on with it.
    let listed = other.run(["threads", "list"]).expect(0).stdout;
    assert!(listed.contains("go"), "{listed}");
    let next = other.world.turn(&[text("and on")], &["--thread", "last"]);
    assert_eq!(other.run(next).expect(0).stdout, "and on\n");
    let said = one.said("last");
    assert_eq!(said.first().map(String::as_str), Some("go"));
    assert_eq!(said.last().map(String::as_str), Some("and on"));
    one.run(["threads", "check"]).expect(0);
    let doctor = one.run(["doctor"]);
    assert!(doctor.stdout.contains("postgres"), "{}", doctor.stdout);

    let mut without = one.world.haft(["threads", "list"]);
    without.env_remove(URL);
    Running::start(without).finish().expect_error(1, &[URL]);
}

#[test]
fn another_machine_goes_on_when_one_is_killed() {
    let server = match PostgresServer::start(&[]) {
        Ok(server) => server,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    let (one, other) = (Node::new(&server), Node::new(&server));
    let sleep = call("c", "shell", json!({"command": "sleep 600"}));
    let turn = one.world.turn(&[vec![sleep]], &["--json"]);
    let mut running = Running::start(one.haft(turn));
    running.wait_for("tool_call");
    let next = || {
        other
            .world
            .turn(&[text("taken over")], &["--thread", "last"])
    };

    // While it lives, its lease is renewed.
    std::thread::sleep(Duration::from_secs(LEASE_SECONDS + 1));
    other.run(next()).expect_error(1, &["process"]);
    running.signal("KILL");
    running.finish();

    let killed = Instant::now();
    loop {
        let taken = other.run(next());
        if taken.code == Some(0) {
            assert_eq!(taken.stdout, "taken over\n");
            break;
        }
        taken.expect_error(1, &["process"]);
        assert!(killed.elapsed() < Duration::from_secs(60), "the lease ends");
    }
    let said = other.said("last");
    let interrupted = said.iter().filter(|text| text.contains("interrupted"));
    assert_eq!(interrupted.count(), 1, "{said:?}");
    assert_eq!(said.last().map(String::as_str), Some("taken over"));
    other.run(["threads", "check"]).expect(0);
}
