//! Turns whose tools work on a machine over SSH, by the real binary and against a
//! real server on the loopback address.
#![cfg(target_os = "linux")]

#[path = "../../ext-runner-ssh/tests/support/server.rs"]
mod server;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use haft_tests::{Round, Running, World, call, marked_processes, text};
use serde_json::json;
use server::{Server, kill, pids, server};

/// How long anything may take that has no reason to take long.
const SOON: Duration = Duration::from_secs(60);

/// A world whose user works on the server by default.
struct Far {
    server: Server,
    world: World,
    /// The workspace over there.
    root: PathBuf,
}

impl Far {
    /// None, where there is no server to be had; the reason was told.
    fn new() -> Option<Self> {
        let server = server()?;
        let far = Self {
            root: server.workspace("project"),
            world: World::new(),
            server,
        };
        far.configure("known");
        Some(far)
    }

    /// Writes the user's configuration, with these known hosts.
    fn configure(&self, known: &str) {
        let at = |name: &str| self.server.folder.path().join(name);
        let text = format!(
            "[ext.runner-ssh]\nhost = '127.0.0.1'\nport = {}\nroot = {:?}\nidentity_file = {:?}\n\
             known_hosts_file = {:?}\nconfig_file = '/dev/null'\nstate_folder = {:?}\n\
             connect_timeout_ms = 60000\n",
            self.server.port,
            self.root,
            at("user"),
            at(known),
            at("state"),
        );
        let folder = self.world.dir().join("config/haft");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("config.toml"), text).unwrap();
    }

    /// The arguments of a turn over there.
    fn turn(&self, rounds: &[Round], more: &[&str]) -> Vec<String> {
        let more: Vec<_> = ["--runner", "ssh"].iter().chain(more).copied().collect();
        self.world.turn(rounds, &more)
    }

    /// The sessions on the far side.
    fn sessions(&self) -> Vec<String> {
        let folder = std::fs::read_dir(self.server.folder.path().join("state"));
        let names = folder.into_iter().flatten().flatten();
        let mut names: Vec<_> = names
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name.starts_with("ssh-"))
            .collect();
        names.sort();
        names
    }

    /// The client that holds a process's connection.
    fn master(&self, of: u32) -> u32 {
        let field = |path: String| std::fs::read(path).unwrap_or_default();
        let is = |pid: &u32| {
            let status = field(format!("/proc/{pid}/status"));
            let line = field(format!("/proc/{pid}/cmdline"));
            String::from_utf8_lossy(&status).contains(&format!("PPid:\t{of}\n"))
                && String::from_utf8_lossy(&line).contains("ControlMaster=yes")
        };
        pids()
            .into_iter()
            .find(is)
            .expect("a client that holds the connection")
    }
}

fn shell(id: &str, command: &str) -> Round {
    vec![call(id, "shell", json!({"command": command}))]
}

fn until(what: &str, so: impl Fn() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < SOON, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn tools_work_over_there_and_the_next_process_finds_the_same_place() {
    let Some(far) = Far::new() else { return };
    let rounds = [
        vec![call(
            "a",
            "write_file",
            json!({"path": "note", "content": "one\ntwo\n"}),
        )],
        vec![call(
            "b",
            "edit",
            json!({"path": "note", "old": "two", "new": "three"}),
        )],
        shell("c", "cat note; pwd -P; export X=1; (exit 7)"),
        vec![
            call("d", "read_file", json!({"path": "note"})),
            call("e", "list_files", json!({})),
        ],
        text("ok"),
    ];
    Running::start(far.world.haft(far.turn(&rounds, &[])))
        .finish()
        .expect(0);
    let outcomes = far.world.outcomes();
    assert!(
        outcomes[2].contains("three") && outcomes[2].contains(path(&far.root)),
        "{outcomes:?}"
    );
    assert!(outcomes[2].contains("[exit code 7]"), "{outcomes:?}");
    assert!(outcomes[3].contains("three"), "{outcomes:?}");
    assert_eq!(
        std::fs::read_to_string(far.root.join("note")).unwrap(),
        "one\nthree\n"
    );
    // And nothing here.
    assert_eq!(std::fs::read_dir(far.world.workspace()).unwrap().count(), 0);
    let sessions = far.sessions();
    assert_eq!(sessions.len(), 1);

    let shown = far.world.run(["threads", "show", "last"]).expect(0);
    assert!(shown.stderr.contains(&sessions[0]), "{}", shown.stderr);
    let rounds = [shell("f", "cat note"), text("ok")];
    // The thread knows where it works.
    let again = far.world.turn(&rounds, &["--thread", "last"]);
    far.world.run(again).expect(0);
    let last = far.world.outcomes().pop().unwrap();
    assert!(last.contains("three"), "{last}");
    assert_eq!(far.sessions(), sessions, "the same session");
}

#[test]
fn a_cut_connection_costs_neither_the_command_nor_the_turn() {
    let Some(far) = Far::new() else { return };
    let line = "echo begun; : > begun; while [ ! -f go ]; do sleep 0.1; done; echo through; exit 3";
    let rounds = [
        shell("a", line),
        shell("b", "cat begun; echo again"),
        text("ok"),
    ];
    let running = Running::start(far.world.haft(far.turn(&rounds, &[])));
    until("the command has begun", || far.root.join("begun").exists());
    // First the client of this side dies, then the server's side of the connection.
    kill(far.master(running.pid()));
    std::thread::sleep(Duration::from_millis(500));
    far.server.cut();
    std::fs::write(far.root.join("go"), "").unwrap();
    running.finish().expect(0);
    let outcomes = far.world.outcomes();
    for word in ["begun", "through", "[exit code 3]"] {
        assert!(outcomes[0].contains(word), "{word}: {outcomes:?}");
    }
    assert!(outcomes[1].contains("again"), "{outcomes:?}");
    assert_eq!(far.sessions().len(), 1);
}

#[test]
fn an_interrupted_command_dies_over_there() {
    let Some(far) = Far::new() else { return };
    let mark = format!("98{}", std::process::id());
    let line = format!("setsid sleep {mark} & : > begun; sleep {mark}");
    let rounds = [shell("a", &line), text("never")];
    let running = Running::start(far.world.haft(far.turn(&rounds, &[])));
    until("the command has begun", || {
        far.root.join("begun").exists() && marked_processes(&format!("sleep\0{mark}")).len() == 2
    });
    running.signal("INT");
    running.finish().expect(130);
    until("it is dead", || {
        marked_processes(&format!("sleep\0{mark}")).is_empty()
    });
}

#[test]
fn a_killed_host_is_followed_by_another_in_the_same_place() {
    let Some(far) = Far::new() else { return };
    let line = "echo kept > kept; : > begun; while [ ! -f go ]; do sleep 0.1; done; : > through";
    let rounds = [shell("a", line), text("never")];
    let running = Running::start(far.world.haft(far.turn(&rounds, &[])));
    until("the command has begun", || far.root.join("begun").exists());
    running.signal("KILL");
    assert_eq!(running.finish().code, None);
    let sessions = far.sessions();
    let rounds = [shell("b", "cat kept"), text("ok")];
    far.world
        .run(far.world.turn(&rounds, &["--thread", "last"]))
        .expect(0);
    let outcomes = far.world.outcomes();
    assert!(outcomes[0].contains("unknown"), "{outcomes:?}");
    assert!(outcomes[1].contains("kept"), "{outcomes:?}");
    assert_eq!(far.sessions(), sessions);
    // What was left over there goes on, as over any connection that was lost.
    std::fs::write(far.root.join("go"), "").unwrap();
    until("the command went on", || far.root.join("through").exists());
}

#[test]
fn another_hosts_key_is_refused_and_told() {
    let Some(far) = Far::new() else { return };
    let at = |name: &str| far.server.folder.path().join(name);
    let other = std::fs::read_to_string(at("user.pub")).unwrap();
    let line = format!("[127.0.0.1]:{} {other}", far.server.port);
    std::fs::write(at("other"), line).unwrap();
    far.configure("other");
    let words = ["host key of 127.0.0.1", "ssh-keygen -R"];
    // The model is told, and may go on; the user is told by the doctor and by a call.
    let rounds = [shell("a", "echo ran > ran"), text("so be it")];
    let turn = Running::start(far.world.haft(far.turn(&rounds, &[])))
        .finish()
        .expect(0);
    let outcomes = far.world.outcomes();
    let arguments = r#"{"command":"echo ran > ran"}"#;
    let called = far
        .world
        .run(["tools", "call", "shell", arguments, "--runner", "ssh"]);
    let called = called.expect(1);
    for word in words {
        assert!(
            outcomes[0].starts_with("shell: !") && outcomes[0].contains(word),
            "{outcomes:?}"
        );
        assert!(called.stdout.contains(word), "{}", called.stdout);
        assert!(turn.stderr.contains("host key"), "{}", turn.stderr);
    }
    assert!(!far.root.join("ran").exists());
    assert!(!far.world.workspace().join("ran").exists());
}

#[test]
fn a_single_call_works_in_the_runners_folder_and_leaves_no_session() {
    let Some(far) = Far::new() else { return };
    let arguments = r#"{"command":"pwd -P"}"#;
    let called = far
        .world
        .run(["tools", "call", "shell", arguments, "--runner", "ssh"])
        .expect(0);
    assert!(called.stdout.contains(path(&far.root)), "{}", called.stdout);
    until("its session is ended", || far.sessions().is_empty());
}
