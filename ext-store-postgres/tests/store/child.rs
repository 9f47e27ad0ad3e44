//! Other processes: this test program, started again.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use haft_api::{Durability, NewThread, ThreadStore as _};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Server, config, id, note, open};

const ROLE: &str = "HAFT_STORE_TEST_ROLE";
const URL: &str = "HAFT_STORE_TEST_URL";
const SCHEMA: &str = "HAFT_STORE_TEST_SCHEMA";
const THREAD: &str = "HAFT_STORE_TEST_THREAD";

/// The lease of a child's writers.
pub(crate) const LEASE: Duration = Duration::from_millis(1500);

/// What a child does; in the tests' own process, nothing.
#[tokio::test]
async fn child() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let (url, schema) = (std::env::var(URL).unwrap(), std::env::var(SCHEMA).unwrap());
    let store = open(config(url, &schema).lease(LEASE).node("child")).await;
    let thread = id(&std::env::var(THREAD).unwrap());
    match role.as_str() {
        // Takes the thread, and appends a note whenever it is told to.
        "hold" => {
            let mut writer = store.open_writer(&thread).await.unwrap();
            say("held");
            for line in std::io::stdin().lines() {
                let outcome = writer.append(note(&line.unwrap()), Durability::Barrier);
                match outcome.await {
                    Ok(_) => say("written"),
                    Err(error) => say(&format!("{} {error}", error.kind())),
                }
            }
        }
        // Says each number that was acknowledged, for ever.
        "append" => {
            let mut writer = store.create(NewThread::new(thread)).await.unwrap();
            for number in 0_u64.. {
                let group = [note(&number.to_string()), note("pair")].concat();
                let appended = writer.append(group, Durability::Barrier).await.unwrap();
                assert_eq!(appended.first_seq, 1 + 2 * number);
                say(&number.to_string());
            }
        }
        other => panic!("no role {other}"),
    }
}

fn say(text: &str) {
    writeln!(std::io::stderr().lock(), "{text}").unwrap();
}

/// A child and the lines it says.
pub(crate) struct Process {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStderr>>,
}

impl Process {
    pub(crate) fn start(server: &Server, schema: &str, thread: &str, role: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child::child", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(URL, server.url())
            .env(SCHEMA, schema)
            .env(THREAD, thread)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, lines }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line; none once the child has ended and all was read.
    pub(crate) fn next(&mut self) -> Option<String> {
        self.lines.next().map(Result::unwrap)
    }

    /// Tells it a line, and gives its answer.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
        self.next().expect("an answer")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.id().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
