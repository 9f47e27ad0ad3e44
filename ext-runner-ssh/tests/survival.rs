//! Cuts, restarts, refusals, and what tries to escape.
#![cfg(target_os = "linux")]

mod support;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use haft_api::{
    CommandRequest, Ending, ErrorKind, OutputChannel, OutputSink, ProcessId, ProcessSpec,
    ReadOptions, RemoteRunnerProvider as _, RemoteRunnerSession, RemoteRunnerSessionExt as _,
    Resumed, WriteOptions,
};
use haft_ext_runner_ssh::SshRunner;
use support::{binding, server};

/// How long anything may take that has no reason to take long.
const SOON: Duration = Duration::from_secs(60);

fn id(text: &str) -> ProcessId {
    ProcessId::new(text).unwrap()
}

fn shell(name: &str, line: &str) -> ProcessSpec {
    let argv = ["/bin/sh", "-c", line].map(str::to_owned);
    ProcessSpec::new(id(name), argv.to_vec())
}

#[derive(Default)]
struct Kept(Mutex<Vec<u8>>);

impl OutputSink for Kept {
    fn write(&self, _: OutputChannel, bytes: &[u8]) {
        self.0.lock().unwrap().extend_from_slice(bytes);
    }
}

/// Reads after a number until there is this much, or the end. Returns the last
/// number, the bytes, the ending.
async fn read(
    session: &dyn RemoteRunnerSession,
    process: &ProcessId,
    mut after: Option<u64>,
    enough: usize,
) -> (Option<u64>, Vec<u8>, Option<Ending>) {
    let reading = async {
        let mut bytes = Vec::new();
        loop {
            let read = session.read_process(process, after, 64 * 1024, 1000).await;
            let read = read.unwrap();
            for chunk in read.chunks {
                assert_eq!(chunk.seq, after.map_or(0, |after| after + 1));
                after = Some(chunk.seq);
                bytes.extend(chunk.bytes);
            }
            if read.closed || bytes.len() >= enough {
                return (after, bytes, read.ending);
            }
        }
    };
    tokio::time::timeout(SOON, reading).await.expect("output")
}

async fn resumed(
    runner: &SshRunner,
    folder: &std::path::Path,
    state: haft_api::SessionState,
) -> Arc<dyn RemoteRunnerSession> {
    match runner.resume(binding(folder), state).await.unwrap() {
        Resumed::Session(session) => session,
        Resumed::Gone { reason } => panic!("gone: {reason}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_connection_costs_neither_the_command_nor_its_output() {
    let Some(server) = server() else { return };
    let session = server
        .runner()
        .create(binding(&server.workspace("w")))
        .await
        .unwrap();
    let line = "echo one; while [ ! -f go ]; do sleep 0.1; done; echo two; exit 7";
    session.start_process(shell("p", line)).await.unwrap();
    let (after, bytes, _) = read(&*session, &id("p"), None, 4).await;
    assert_eq!(bytes, b"one\n");
    for _ in 0..2 {
        server.cut();
        let written = session
            .write_file("probe", b"x".to_vec(), WriteOptions::default())
            .await;
        // One that was under way may be lost; none may hang or lie.
        if let Err(e) = written {
            assert_eq!(e.kind(), ErrorKind::Unavailable, "{e}");
        }
    }
    session
        .write_file("go", Vec::new(), WriteOptions::default())
        .await
        .unwrap();
    let (_, bytes, ending) = read(&*session, &id("p"), after, usize::MAX).await;
    assert_eq!(bytes, b"two\n");
    assert_eq!(ending, Some(Ending::Exited { code: 7 }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_ends_that_nobody_is_connected_to_any_more() {
    let Some(server) = server() else { return };
    let folder = server.workspace("w");
    let mut config = server.config();
    config.abandoned_after_ms = 3_000;
    let first = SshRunner::new(config).unwrap();
    let session = first.create(binding(&folder)).await.unwrap();
    let line = "echo $$; while :; do sleep 0.2; done";
    session.start_process(shell("p", line)).await.unwrap();
    let (_, pid, _) = read(&*session, &id("p"), None, 2).await;
    let pid: u32 = String::from_utf8(pid).unwrap().trim().parse().unwrap();
    let runs = || std::path::Path::new(&format!("/proc/{pid}")).exists();

    // Nobody reads, but its session is held.
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert!(runs(), "it was ended while somebody was there");

    let state = session.state();
    drop(session);
    drop(first);
    let began = Instant::now();
    while runs() {
        assert!(began.elapsed() < SOON, "it runs on");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let second = server.runner();
    let session = resumed(&second, &folder, state).await;
    let (_, _, ending) = read(&*session, &id("p"), None, usize::MAX).await;
    assert_eq!(ending, Some(Ending::Cancelled));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_provider_goes_on_where_one_was() {
    let Some(server) = server() else { return };
    let folder = server.workspace("w");
    let first = server.runner();
    let session = first.create(binding(&folder)).await.unwrap();
    let line = "echo one; while [ ! -f go ]; do sleep 0.1; done; echo two; kill -9 $$";
    session.start_process(shell("p", line)).await.unwrap();
    let (after, ..) = read(&*session, &id("p"), None, 4).await;
    let state = session.state();
    drop(session);
    drop(first);

    let second = server.runner();
    let session = resumed(&second, &folder, state.clone()).await;
    let again = session.start_process(shell("p", "true")).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    session
        .write_file("go", Vec::new(), WriteOptions::default())
        .await
        .unwrap();
    let (_, bytes, ending) = read(&*session, &id("p"), after, usize::MAX).await;
    assert_eq!(bytes, b"two\n");
    assert_eq!(ending, Some(Ending::Signalled { signal: 9 }));
    let (_, all, _) = read(&*session, &id("p"), None, usize::MAX).await;
    assert_eq!(all, b"one\ntwo\n");

    session.close().await.unwrap();
    let gone = second.resume(binding(&folder), state).await.unwrap();
    assert!(matches!(gone, Resumed::Gone { .. }), "{gone:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stands_in_the_way_of_a_connection_is_told() {
    let Some(server) = server() else { return };
    let folder = server.workspace("w");
    let check = async |config: haft_ext_runner_ssh::SshConfig, kind: ErrorKind, words: &str| {
        let runner = SshRunner::new(config).unwrap();
        let error = runner
            .create(binding(&folder))
            .await
            .err()
            .expect("an error");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(words), "{words:?} in {error}");
    };
    let at = |name: &str| server.folder.path().join(name);
    // Another host's key under this one's name.
    let other = std::fs::read_to_string(at("user.pub")).unwrap();
    let line = format!("[127.0.0.1]:{} {other}", server.port);
    std::fs::write(at("other"), line).unwrap();
    let mut config = server.config();
    config.known_hosts_file = Some(at("other"));
    check(config, ErrorKind::Denied, "ssh-keygen -R").await;

    std::fs::write(at("empty"), "").unwrap();
    let mut config = server.config();
    config.known_hosts_file = Some(at("empty"));
    check(config, ErrorKind::Denied, "accept-new").await;

    let mut config = server.config();
    config.identity_file = Some(at("host"));
    check(config, ErrorKind::Denied, "identity_file").await;

    let mut config = server.config();
    config.options.push("NoSuchOption=1".to_owned());
    check(config, ErrorKind::InvalidInput, "options").await;

    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = server.config();
    config.port = Some(free.local_addr().unwrap().port());
    drop(free);
    check(config, ErrorKind::Unavailable, "refused").await;

    let mut config = server.config();
    config.program = "/no/such/ssh".into();
    check(config, ErrorKind::NotFound, "program").await;

    let missing = server
        .runner()
        .create(binding(&folder.join("missing")))
        .await;
    assert_eq!(missing.err().unwrap().kind(), ErrorKind::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_paths_are_denied_and_touch_nothing() {
    let Some(server) = server() else { return };
    let folder = server.workspace("w");
    let outside = server.workspace("outside");
    std::fs::write(outside.join("secret"), "s").unwrap();
    let link = |target: &str, name: &str| {
        std::os::unix::fs::symlink(target, folder.join(name)).unwrap();
    };
    link(&outside.display().to_string(), "out");
    link("../outside", "relative");
    link("/", "root");
    link("/proc/self/root", "proc");
    link("../outside/secret", "file");
    link("loop", "loop");
    std::fs::create_dir(folder.join("sub")).unwrap();
    link("../../outside", "sub/up");
    let session = server.runner().create(binding(&folder)).await.unwrap();
    let absolute = outside.join("secret").display().to_string();
    for path in [
        "../outside/secret",
        "sub/../../outside/secret",
        &absolute,
        "out/secret",
        "relative/secret",
        "root/etc/passwd",
        "proc/etc/passwd",
        "file",
        "sub/up/secret",
        &format!("{}/../outside/secret", folder.display()),
    ] {
        let read = session
            .read_file(path, ReadOptions::default())
            .await
            .unwrap_err();
        assert_eq!(read.kind(), ErrorKind::Denied, "reading {path}: {read}");
        assert!(read.context_value("leads to").is_some(), "{read}");
        let write = session
            .write_file(path, b"x".to_vec(), WriteOptions::default())
            .await;
        assert_eq!(
            write.unwrap_err().kind(),
            ErrorKind::Denied,
            "writing {path}"
        );
    }
    let looped = session.read_file("loop", ReadOptions::default()).await;
    assert_eq!(looped.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(std::fs::read(outside.join("secret")).unwrap(), b"s");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
    // Nor does a name run anything.
    for name in [
        "$(touch ran)",
        "`touch ran`",
        "a'; touch ran; '",
        "a\ntouch ran\n",
        "-n",
    ] {
        session
            .write_file(name, b"x".to_vec(), WriteOptions::default())
            .await
            .unwrap();
        let read = session
            .read_file(name, ReadOptions::default())
            .await
            .unwrap();
        assert_eq!(read.bytes, b"x", "{name:?}");
    }
    assert!(!folder.join("ran").exists());
    let listed = session
        .list(".", haft_api::ListOptions::default())
        .await
        .unwrap();
    assert!(
        listed
            .entries
            .iter()
            .any(|entry| entry.name == "a\ntouch ran\n"),
        "{listed:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_megabytes_are_the_same_on_both_sides() {
    let Some(server) = server() else { return };
    let folder = server.workspace("w");
    let session = server.runner().create(binding(&folder)).await.unwrap();
    let mut seed = 1_u32;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 24) as u8
    })
    .take(10 * 1024 * 1024)
    .collect();
    session
        .write_file("big", bytes.clone(), WriteOptions::default())
        .await
        .unwrap();
    assert!(std::fs::read(folder.join("big")).unwrap() == bytes);
    let read = session
        .read_file("big", ReadOptions::default())
        .await
        .unwrap();
    assert!(read.bytes == bytes);
    let kept = Kept::default();
    let mut request = CommandRequest::new(["cat"]);
    request.stdin = Some(bytes.clone());
    let outcome = session
        .run_command(id("copy"), request, &kept)
        .await
        .unwrap();
    assert!(outcome.ending.is_success(), "{outcome:?}");
    assert!(*kept.0.lock().unwrap() == bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_cancelled_command_started_dies_with_it() {
    let Some(server) = server() else { return };
    let session = server
        .runner()
        .create(binding(&server.workspace("w")))
        .await
        .unwrap();
    for (number, line) in [
        "trap '' TERM; sleep 987",
        "setsid sleep 987 & sleep 987",
        "nohup sleep 987 & sleep 987",
        "(setsid sh -c 'trap \"\" TERM HUP; sleep 987' &) ; sleep 987",
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("p{number}");
        session
            .start_process(shell(&name, &format!("echo begun; {line}")))
            .await
            .unwrap();
        read(&*session, &id(&name), None, 6).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        let mark = format!("{}/p-{name};", session.state().session_id);
        assert!(!marked(&mark).is_empty(), "{line} has begun");
        session.release_process(&id(&name));
        let began = Instant::now();
        while !marked(&mark).is_empty() {
            assert!(began.elapsed() < SOON, "{line} lives on");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The processes that carry a mark in their environment.
fn marked(mark: &str) -> Vec<u32> {
    let carries = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(mark)
    };
    support::pids().into_iter().filter(carries).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn output_over_its_limit_ends_the_command_and_is_kept() {
    let Some(server) = server() else { return };
    let mut config = server.config();
    config.max_output_bytes = 100_000;
    let runner = SshRunner::new(config).unwrap();
    let session = runner
        .create(binding(&server.workspace("w")))
        .await
        .unwrap();
    let line = "head -c 200000 /dev/zero; sleep 987";
    session.start_process(shell("p", line)).await.unwrap();
    let (_, bytes, ending) = read(&*session, &id("p"), None, usize::MAX).await;
    assert_eq!(bytes.len(), 200_000);
    assert_eq!(ending, Some(Ending::Signalled { signal: 25 }));
}

/// A port over there is reached from one here, also after the connection was cut.
#[tokio::test(flavor = "multi_thread")]
async fn a_port_over_there_is_reached_from_here() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let Some(server) = server() else { return };
    let runner = server.runner();
    let session = runner
        .create(binding(&server.workspace("w")))
        .await
        .unwrap();
    let there = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = there.local_addr().unwrap().port();
    let answering = tokio::spawn(async move {
        loop {
            let (mut stream, _) = there.accept().await.unwrap();
            stream.write_all(b"hello from there").await.unwrap();
        }
    });
    for _ in 0..2 {
        let here = session.port(port).await.unwrap();
        assert_ne!(here, format!("127.0.0.1:{port}"));
        assert_eq!(
            session.port(port).await.unwrap(),
            here,
            "the same for the same"
        );
        let mut heard = String::new();
        let mut stream = tokio::net::TcpStream::connect(&here).await.unwrap();
        stream.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "hello from there");
        server.cut();
    }
    answering.abort();
}

/// What isn't there is no surprise: the capabilities say so before, and whoever asks
/// all the same gets an error of its own kind.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_runner_cannot_do_it_says() {
    let Some(server) = server() else { return };
    let runner = server.runner();
    let session = runner
        .create(binding(&server.workspace("w")))
        .await
        .unwrap();
    let can = session.capabilities();
    let mut terminal = shell("t", "tty");
    terminal.pty = true;
    let size = haft_api::PtySize::default();
    for (what, promised, outcome) in [
        (
            "pseudo terminals",
            can.pty,
            session.start_process(terminal).await,
        ),
        (
            "pseudo terminals",
            can.pty,
            session.resize_pty(&id("t"), size).await,
        ),
        ("pausing", can.pause, session.pause().await.map(drop)),
        (
            "snapshots",
            can.snapshot,
            session.snapshot().await.map(drop),
        ),
    ] {
        assert!(!promised, "{what}");
        let error = outcome.expect_err(what);
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{what}: {error}");
        assert!(error.to_string().contains(what), "{what}: {error}");
    }
    assert!(!can.leases);
    // What was refused has left nothing in the way.
    session.start_process(shell("t", "true")).await.unwrap();
    session.close().await.unwrap();
}
