//! Other processes: this test binary, started again.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use haft_api::{Durability, ErrorKind, ThreadId, ThreadStore};
use haft_ext_store_jsonl::{JsonlConfig, JsonlStore};
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};

use crate::files::assert_tight;
use crate::support::*;

const ROLE: &str = "HAFT_STORE_TEST_ROLE";
const HOME: &str = "HAFT_STORE_TEST_HOME";
pub(crate) const POLICY: &str = "HAFT_STORE_TEST_POLICY";
const THREAD: &str = "HAFT_STORE_TEST_THREAD";
const KILLS: &str = "HAFT_STORE_TEST_KILLS";
const SEED: &str = "HAFT_STORE_TEST_SEED";

/// What a child does; in the tests' own process, nothing.
#[tokio::test]
async fn child() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let home = std::env::var(HOME).unwrap();
    let open = || JsonlStore::open(&home, JsonlConfig::default()).unwrap();
    match role.as_str() {
        "hold" => {
            let _writer = open().open_writer(&id("t")).await.unwrap();
            say("held");
            std::thread::sleep(Duration::from_secs(600));
        }
        "append" => {
            let thread = id(&std::env::var(THREAD).unwrap());
            append_for_ever(&open(), &thread).await;
        }
        "umask" => {
            let mask: u32 = std::env::var("MASK").unwrap().parse().unwrap();
            umask(Mode::from_raw_mode(mask));
            make_everything(&home).await;
        }
        "full" => fill_the_disk(&open()).await,
        #[cfg(target_os = "linux")]
        "power" => crate::power::write(&home).await,
        #[cfg(target_os = "linux")]
        "inspect" => crate::power::inspect(&home).await,
        #[cfg(target_os = "linux")]
        "small-disk" => crate::small_disk::fill(&home).await,
        #[cfg(target_os = "linux")]
        "small-disk-again" => crate::small_disk::again(&home).await,
        other => panic!("no role {other}"),
    }
}

pub(crate) fn say(text: &str) {
    let mut out = std::io::stderr().lock();
    writeln!(out, "{text}").unwrap();
}

fn command(home: &Home, role: &str) -> Command {
    command_in(&home.path(), role)
}

/// A child that does this in such a place.
pub(crate) fn command_in(home: &Path, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "child::child", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(HOME, home)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

/// How often something is done: as the environment says, or so often.
pub(crate) fn count(variable: &str, unless: usize) -> usize {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap(),
        Err(_) => unless,
    }
}

/// A sequence that is the same in each run, unless the environment says which.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new() -> Self {
        Self(count(SEED, 12345) as u64)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % limit
    }
}

/// A child and the lines it says.
pub(crate) struct Process {
    pub(crate) child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStderr>>,
}

impl Process {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, lines }
    }

    pub(crate) fn next(&mut self) -> Option<String> {
        self.lines.next().map(Result::unwrap)
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn succeed(mut self) {
        let said: Vec<_> = self.lines.by_ref().map(Result::unwrap).collect();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{}", said.join("\n"));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn a_second_process_is_told_who_has_the_thread() {
    let home = Home::new();
    let store = home.store();
    let thread = thread(&store, "t", &["one"]).await;
    let mut process = Process::start(command(&home, "hold"));
    assert_eq!(process.next().as_deref(), Some("held"));

    let asked = Instant::now();
    let error = store.open_writer(&thread).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Busy);
    let pid = process.child.id().to_string();
    assert_eq!(error.context_value("pid"), Some(pid.as_str()));
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    assert_eq!(error.context_value("host"), Some(host.as_str()));
    let since: u64 = error.context_value("since").unwrap().parse().unwrap();
    assert!(haft_api::unix_ms_now().abs_diff(since) < 60_000);
    assert!(
        error
            .to_string()
            .contains(&format!("process {pid} on host {host}")),
        "{error}"
    );
    assert_eq!(
        store.delete(&thread).await.unwrap_err().kind(),
        ErrorKind::Busy
    );
    assert!(asked.elapsed() < Duration::from_secs(5));

    // Reading and forking are free.
    assert_eq!(note_texts(&read(&store, &thread).await.0), ["one"]);
    fork(&store, "fork", &thread, 1)
        .await
        .unwrap()
        .close()
        .await
        .unwrap();

    process.kill();
    let mut writer = store.open_writer(&thread).await.unwrap();
    append(&mut *writer, &["two"]).await;
    // Within one process as well.
    let error = home.store().open_writer(&thread).await.err().unwrap();
    assert_eq!(
        error.context_value("pid"),
        Some(std::process::id().to_string().as_str())
    );
}

/// Appends numbered notes in groups of one to three, and says each number once
/// its group was acknowledged.
async fn append_for_ever(store: &JsonlStore, thread: &ThreadId) {
    let mut number = note_texts(&read(store, thread).await.0).len();
    let mut writer = store.open_writer(thread).await.unwrap();
    loop {
        let group: Vec<_> = (number..number + 1 + number % 3)
            .map(|n| note(&numbered(n)))
            .collect();
        number += group.len();
        writer.append(group, Durability::Barrier).await.unwrap();
        say(&(number - 1).to_string());
    }
}

/// The note of this number. Now and then one is a payload beside the log.
pub(crate) fn numbered(number: usize) -> String {
    let len = match number % 50 {
        49 => 40_000,
        _ => number * 37 % 2000,
    };
    format!("{number} {}", "x".repeat(len))
}

/// Threads stay short enough to be read after each kill.
const KILLS_OF_THREAD: usize = 40;

#[tokio::test]
async fn no_acknowledged_record_is_lost_by_kill_9() {
    let home = Home::new();
    let mut random = Random::new();
    let mut thread = id("t0");
    let mut known = 0;
    for round in 0..count(KILLS, 30) {
        if round % KILLS_OF_THREAD == 0 {
            if round > 0 {
                home.store().delete(&thread).await.unwrap();
            }
            thread = self::thread(&home.store(), &format!("t{round}"), &[]).await;
            known = 0;
        }
        let mut child = command(&home, "append");
        child.env(THREAD, thread.as_str());
        let mut process = Process::start(child);
        let mut acknowledged: usize = process.next().unwrap().parse().unwrap();
        std::thread::sleep(Duration::from_micros(random.below(30_000)));
        process.kill();
        while let Some(said) = process.next() {
            // The last line may be cut.
            acknowledged = said.parse().unwrap_or(acknowledged).max(acknowledged);
        }

        let store = home.store();
        let (records, diagnostics) = read(&store, &thread).await;
        let found = note_texts(&records);
        assert!(
            found.len() > acknowledged && found.len() > known,
            "round {round}: {} of {acknowledged}, and {known} before",
            found.len()
        );
        known = found.len();
        for (number, text) in found.iter().enumerate() {
            assert!(*text == numbered(number), "round {round}: note {number}");
        }
        assert!(
            diagnostics
                .iter()
                .all(|d| d.code == haft_api::DiagnosticCode::TornTail),
            "round {round}: {diagnostics:?}"
        );
        let numbers: Vec<_> = records.iter().map(|record| record.seq).collect();
        assert!(
            numbers.iter().copied().eq(0..numbers.len() as u64),
            "round {round}"
        );
        assert_eq!(listed(&store).await, [thread.as_str()]);
    }
}

/// Uses every part of the store that makes files.
async fn make_everything(home: &str) {
    let store = JsonlStore::open(home, JsonlConfig::default()).unwrap();
    for number in 0..5 {
        let thread = thread(&store, &format!("t{number}"), &["one"]).await;
        fork(&store, &format!("fork{number}"), &thread, 1)
            .await
            .unwrap()
            .close()
            .await
            .unwrap();
    }
    let log = std::fs::read_dir(Path::new(home).join("threads")).unwrap();
    let log = log.map(|bucket| bucket.unwrap().path().join("t0/log.jsonl"));
    let log = log.into_iter().find(|log| log.exists()).unwrap();
    let mut log = std::fs::File::options().append(true).open(log).unwrap();
    log.write_all(b"torn").unwrap();
    let mut writer = store.open_writer(&id("t0")).await.unwrap();
    append(&mut *writer, &["after"]).await;
    drop(writer);
    list(&store).await;
    // A listing that has the index made anew.
    let mut writer = store.open_writer(&id("t1")).await.unwrap();
    for number in 0..1200 {
        let patch = haft_api::MetadataPatch::default().title(number.to_string());
        writer.patch_metadata(patch).await.unwrap();
    }
    list(&store).await;
    store.delete(&id("fork0")).await.unwrap();
}

#[test]
fn permissions_are_tight_under_any_umask() {
    for mask in [0o000, 0o022, 0o077, 0o777] {
        let home = Home::new();
        let mut command = command(&home, "umask");
        command.env("MASK", format!("{mask}"));
        Process::start(command).succeed();
        assert_tight(&home.path());
    }
}

/// Appends until a limit on the size of files stops it, which is as good as a
/// full disk; then raises the limit and goes on.
async fn fill_the_disk(store: &JsonlStore) {
    let thread = id("t");
    let mut writer = store.open_writer(&thread).await.unwrap();
    let soft = getrlimit(Resource::Fsize);
    let mut expected = vec!["0".to_owned()];
    for round in 0..4 {
        let error = loop {
            let text = format!("{} {}", expected.len(), "x".repeat(1000 + expected.len()));
            // Both ways of appending: in place, and on another thread.
            let durability = if round % 2 == 0 {
                Durability::Buffered
            } else {
                Durability::Barrier
            };
            match writer.append(notes(&[&text, "second"]), durability).await {
                Ok(_) => expected.extend([text, "second".to_owned()]),
                Err(error) => break error,
            }
            assert!(expected.len() < 10_000);
        };
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.is_temporary(), "{error}");
        assert!(
            error
                .to_string()
                .contains("the disk is full: nothing was written"),
            "{error}"
        );
        // Nothing is lost or fused, whether or not it is tried again.
        if round % 2 == 1 {
            writer
                .append(notes(&["again"]), Durability::Barrier)
                .await
                .ok();
            writer
                .append(notes(&[&"y".repeat(9000)]), Durability::Barrier)
                .await
                .unwrap_err();
        }
        let (records, diagnostics) = read(store, &thread).await;
        assert_eq!(diagnostics, []);
        let found = note_texts(&records);
        assert!(found.starts_with(&expected) && found.len() <= expected.len() + 1);
        expected = found;
        let more = soft.current.map(|limit| limit + 40_000 * (round + 1));
        setrlimit(
            Resource::Fsize,
            Rlimit {
                current: more,
                ..soft
            },
        )
        .unwrap();
        append(&mut *writer, &["space again"]).await;
        expected.push("space again".to_owned());
    }
    writer.close().await.unwrap();
    let (records, diagnostics) = read(store, &thread).await;
    assert_eq!((note_texts(&records), diagnostics), (expected, vec![]));
    assert!(
        records
            .iter()
            .map(|record| record.seq)
            .eq(0..records.len() as u64)
    );
}

#[tokio::test]
async fn a_full_disk_costs_the_group_and_nothing_else() {
    let home = Home::new();
    thread(&home.store(), "t", &["0"]).await;
    // The shell sets the limit, and has the signal ignored that goes with it.
    let child = command(&home, "full");
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "trap '' XFSZ; ulimit -S -f 80; exec \"$@\"", "sh"])
        .arg(child.get_program())
        .args(child.get_args())
        .envs(
            child
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    Process::start(shell).succeed();
}
