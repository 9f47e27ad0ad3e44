//! Power cuts: the store on a file system in an image, of which a copy is made
//! while its writer is stopped. What the copy has is what had reached the disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haft_api::{DiagnosticCode, Durability, ThreadStore};
use haft_ext_store_jsonl::{DurabilityPolicy, JsonlConfig, JsonlStore};
use rustix::process::{Pid, Signal, kill_process};

use crate::child::{POLICY, Process, Random, command_in, count, numbered, say};
use crate::mounted::{image, mounted, unavailable};
use crate::support::*;

const CUTS: &str = "HAFT_STORE_TEST_CUTS";
const IMAGE_BYTES: u64 = 32 << 20;

/// A folder with the image that is written to, its copy, and a place to mount.
struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let machine = Self { folder };
        fs::create_dir(machine.disk()).unwrap();
        image(&machine.image(), IMAGE_BYTES).unwrap();
        machine
    }

    fn disk(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    /// Writes for a while, and cuts the power. Gives the last number that was
    /// acknowledged.
    fn run(&self, policy: &str, time: Duration) -> Option<usize> {
        let mut child = command_in(&self.disk().join("home"), "power");
        child.env(POLICY, policy);
        let mut process = Process::start(mounted(&child, &self.image(), &self.disk()));
        assert_eq!(process.next().as_deref(), Some("begun"));
        std::thread::sleep(time);
        // What stands in the shell's place is the program itself.
        let pid = Pid::from_child(&process.child);
        kill_process(pid, Signal::STOP).unwrap();
        let left = self.folder.path().join("left");
        copy(&self.image(), &left);
        process.kill();
        let said = std::iter::from_fn(|| process.next());
        let acknowledged = said.filter_map(|line| line.parse().ok()).max();
        fs::rename(left, self.image()).unwrap();
        acknowledged
    }

    /// Mounts what is left, and gives how many notes there are.
    fn found(&self) -> usize {
        let child = command_in(&self.disk().join("home"), "inspect");
        let mut process = Process::start(mounted(&child, &self.image(), &self.disk()));
        let said: Vec<_> = std::iter::from_fn(|| process.next()).collect();
        let found = said.iter().find_map(|line| line.strip_prefix("found "));
        let found = found.unwrap_or_else(|| panic!("{}", said.join("\n")));
        process.succeed();
        found.parse().unwrap()
    }
}

/// Copies a file that the system may still be writing to, until nothing has
/// changed under the copy.
fn copy(from: &Path, to: &Path) {
    for _ in 0..100 {
        fs::copy(from, to).unwrap();
        if fs::read(from).unwrap() == fs::read(to).unwrap() {
            return;
        }
    }
    panic!("the image never comes to rest");
}

/// Appends numbered notes, some large, in groups, and says what was acknowledged.
pub(crate) async fn write(home: &str) {
    let policy = match std::env::var(POLICY).unwrap().as_str() {
        "os" => DurabilityPolicy::Os,
        _ => DurabilityPolicy::Barriers,
    };
    let store = JsonlStore::open(home, JsonlConfig::default().durability(policy)).unwrap();
    thread(&store, "t", &[]).await;
    let mut writer = store.open_writer(&id("t")).await.unwrap();
    let mut number = 0;
    say("begun");
    loop {
        let group: Vec<_> = (number..number + 1 + number % 3)
            .map(|n| note(&numbered(n)))
            .collect();
        number += group.len();
        writer.append(group, Durability::Barrier).await.unwrap();
        say(&(number - 1).to_string());
    }
}

/// Says how many of the notes are there, and goes on with the thread.
pub(crate) async fn inspect(home: &str) {
    let store = JsonlStore::open(home, JsonlConfig::default()).unwrap();
    if store.metadata(&id("t")).await.is_err() {
        return say("found 0");
    }
    let (records, diagnostics) = read(&store, &id("t")).await;
    let torn = |code: &DiagnosticCode| *code == DiagnosticCode::TornTail;
    assert!(codes(&diagnostics).iter().all(torn), "{diagnostics:?}");
    let found = note_texts(&records);
    for (number, text) in found.iter().enumerate() {
        assert!(*text == numbered(number), "note {number} is another");
    }
    assert!(records.iter().map(|r| r.seq).eq(0..records.len() as u64));
    assert_eq!(listed(&store).await, ["t"]);
    let mut writer = store.open_writer(&id("t")).await.unwrap();
    append(&mut *writer, &["after the cut"]).await;
    writer.close().await.unwrap();
    assert_eq!(store.check(&id("t")).await.unwrap(), []);
    say(&format!("found {}", found.len()));
}

#[test]
fn no_acknowledged_record_is_lost_by_a_power_cut() {
    if let Some(reason) = unavailable() {
        return say(&format!("skipped: {reason}"));
    }
    let mut random = Random::new();
    for cut in 0..count(CUTS, 1) {
        let machine = Machine::new();
        let time = Duration::from_millis(20 + random.below(1500));
        let acknowledged = machine.run("barriers", time);
        let found = machine.found();
        assert!(
            acknowledged.is_none_or(|last| found > last),
            "cut {cut} after {time:?}: {found} notes are left, and {acknowledged:?} was acknowledged"
        );
    }
}

#[test]
fn without_barriers_a_power_cut_is_felt() {
    // That this loses what was acknowledged is what the test above is worth.
    if let Some(reason) = unavailable() {
        return say(&format!("skipped: {reason}"));
    }
    let lost = |_| {
        let machine = Machine::new();
        let acknowledged = machine.run("os", Duration::from_millis(300));
        acknowledged.is_some_and(|last| machine.found() <= last)
    };
    assert!((0..5).any(lost), "five power cuts, and nothing is lost");
}
