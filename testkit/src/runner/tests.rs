use std::time::Duration;

use haft_api::*;
use tokio::time::Instant;

use super::*;
use crate::fixture::fresh_process;
use crate::gate::Gate;
use crate::lock::lock;

async fn session(runner: &MemoryRunner) -> Arc<dyn RemoteRunnerSession> {
    runner.create(runner.binding("d")).await.unwrap()
}

async fn read(session: &dyn RemoteRunnerSession, path: &str) -> Result<String> {
    let file = session.read_file(path, ReadOptions::default()).await?;
    Ok(String::from_utf8(file.bytes).unwrap())
}

async fn write(session: &dyn RemoteRunnerSession, path: &str, text: &str) -> Result<()> {
    let options = WriteOptions::default();
    session
        .write_file(path, text.into(), options)
        .await
        .map(drop)
}

#[derive(Default)]
struct Printed(std::sync::Mutex<String>);

impl OutputSink for Printed {
    fn write(&self, channel: OutputChannel, bytes: &[u8]) {
        let mark = if channel == OutputChannel::Stderr {
            "!"
        } else {
            ""
        };
        *lock(&self.0) += &format!("{mark}{}", String::from_utf8_lossy(bytes));
    }
}

/// Runs a line and returns its output (`!` before what is an error) and ending.
async fn run(session: &dyn RemoteRunnerSession, request: CommandRequest) -> (String, Ending) {
    let printed = Printed::default();
    let outcome = session
        .run_command(fresh_process(), request, &printed)
        .await
        .unwrap();
    (printed.0.into_inner().unwrap(), outcome.ending)
}

#[tokio::test]
async fn operations_are_counted_and_fail_as_asked() {
    let runner = MemoryRunner::new();
    let down = || Error::new(ErrorKind::Unavailable, "down");
    runner
        .faults()
        .on(RunnerOperation::Create)
        .nth(1)
        .fail(down());
    let session = session(&runner).await;
    assert!(runner.create(runner.binding("d")).await.is_err());
    assert_eq!(runner.created().len(), 2);
    assert_eq!(
        runner.sandboxes().len(),
        1,
        "a failed creation leaves nothing behind"
    );

    runner
        .faults()
        .on(RunnerOperation::WriteFile)
        .next()
        .fail(down());
    assert!(write(&*session, "a", "1").await.is_err());
    assert!(read(&*session, "a").await.is_err());
    runner
        .faults()
        .on(RunnerOperation::WriteFile)
        .next()
        .fail_after(down());
    assert!(write(&*session, "a", "1").await.is_err());
    assert_eq!(read(&*session, "a").await.unwrap(), "1");
    assert_eq!(runner.faults().on(RunnerOperation::ReadFile).count(), 2);
}

#[tokio::test]
async fn a_held_write_that_is_dropped_never_happens() {
    let runner = MemoryRunner::new();
    let session = session(&runner).await;
    let gate = Gate::new();
    runner
        .faults()
        .on(RunnerOperation::WriteFile)
        .next()
        .hold(&gate);
    let writing = tokio::spawn({
        let session = Arc::clone(&session);
        async move { write(&*session, "a", "1").await }
    });
    gate.reached(1).await;
    writing.abort();
    assert!(writing.await.is_err());
    gate.open();
    assert!(read(&*session, "a").await.is_err());
}

#[tokio::test]
async fn links_are_followed_as_far_as_they_may() {
    let runner = MemoryRunner::new().file("dir/a", "inside");
    let session = session(&runner).await;
    let id = session.state().session_id;
    for (link, target) in [
        ("near", "dir/a"),
        ("dir/up", "../dir/a"),
        ("whole", "/workspace/dir"),
        ("out", "/etc/passwd"),
        ("up", "../../etc"),
        ("loop", "loop"),
    ] {
        runner.put_link(&id, link, target);
    }
    for path in [
        "near",
        "dir/up",
        "whole/a",
        "/workspace/dir/../near",
        "./dir//a",
    ] {
        assert_eq!(read(&*session, path).await.unwrap(), "inside", "{path}");
    }
    for (path, kind, word) in [
        ("out", ErrorKind::Denied, "/etc/passwd"),
        ("up/passwd", ErrorKind::Denied, "/etc/passwd"),
        ("../x", ErrorKind::Denied, "/x"),
        ("loop", ErrorKind::InvalidInput, "links"),
        ("a\0b", ErrorKind::InvalidInput, "NUL"),
    ] {
        for error in [
            read(&*session, path).await.err(),
            write(&*session, path, "x").await.err(),
        ] {
            let error = error.unwrap_or_else(|| panic!("{path} was allowed"));
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(word), "{error}");
        }
    }
    assert_eq!(
        session.metadata("out").await.unwrap().kind,
        FileKind::Symlink
    );
}

#[tokio::test]
async fn read_roots_are_read_and_not_written() {
    let runner = MemoryRunner::new();
    let mut binding = runner.binding("d");
    binding.read_roots.push("/docs/".to_owned());
    let session = runner.create(binding).await.unwrap();
    assert!(session.list("/docs", ListOptions::default()).await.is_ok());
    let denied = |error: Option<Error>| assert_eq!(error.unwrap().kind(), ErrorKind::Denied);
    denied(write(&*session, "/docs/a", "1").await.err());
    denied(read(&*session, "/docsx").await.err());
}

#[tokio::test]
async fn programs_run_as_processes() {
    let runner = MemoryRunner::new()
        .file("a.txt", "hello\n")
        .program("make test", async |io: ProgramIo| {
            io.print("testing\n");
            io.print_error("1 failed\n");
            2
        })
        .program("stamp", async |io: ProgramIo| {
            let mark = io.env.get("MARK").cloned().unwrap_or_default();
            io.write_file("stamp.txt", mark);
            0
        })
        .program("crash", async |_| panic!("boom"));
    let session = session(&runner).await;
    let exited = |code| Ending::Exited { code };
    let check = async |line: &str, output: &str, ending: Ending| {
        let got = run(&*session, CommandRequest::shell(line)).await;
        assert_eq!(got, (output.to_owned(), ending), "{line}");
    };
    check("echo a  b", "a b\n", exited(0)).await;
    check("cat a.txt", "hello\n", exited(0)).await;
    check(
        "cat b.txt",
        "!cat: b.txt: No such file or directory\n",
        exited(1),
    )
    .await;
    check("make test", "testing\n!1 failed\n", exited(2)).await;
    check("pwd", "/workspace\n", exited(0)).await;
    check("false", "", exited(1)).await;
    check(
        "echo a | cat",
        "!sh: echo a | cat: not found\n",
        exited(127),
    )
    .await;
    check("crash", "!panicked: boom", exited(101)).await;

    let mut stamp = CommandRequest::new(["stamp"]);
    stamp.env = vec![("MARK".to_owned(), "x".to_owned())];
    run(&*session, stamp).await;
    assert_eq!(read(&*session, "stamp.txt").await.unwrap(), "x");

    let mut cat = CommandRequest::new(["cat"]);
    cat.stdin = Some(b"typed".to_vec());
    assert_eq!(run(&*session, cat).await, ("typed".to_owned(), exited(0)));

    let unknown = CommandRequest::new(["no-such-program"]);
    let error = session
        .run_command(fresh_process(), unknown, &NoOutput)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(runner.processes().len(), 11);
}

#[tokio::test(start_paused = true)]
async fn commands_are_cut_by_time_and_by_dropping() {
    let runner = MemoryRunner::new();
    let session = session(&runner).await;
    let mut slow = CommandRequest::shell("sleep 60");
    slow.timeout_ms = Some(1500);
    let began = Instant::now();
    assert_eq!(run(&*session, slow).await.1, Ending::TimedOut);
    assert_eq!(began.elapsed(), Duration::from_millis(1500));

    let id = fresh_process();
    let command = session.run_command(id.clone(), CommandRequest::shell("sleep 60"), &NoOutput);
    let cut = tokio::time::timeout(Duration::from_secs(1), command).await;
    assert!(cut.is_err());
    let error = session.read_process(&id, None, 1, 0).await.unwrap_err();
    assert_eq!(
        error.kind(),
        ErrorKind::NotFound,
        "the process was released"
    );
}

#[tokio::test]
async fn unread_output_is_bounded_and_counted() {
    let runner = MemoryRunner::new()
        .output_kept(100)
        .program("flood", async |io: ProgramIo| {
            for _ in 0..50 {
                io.print([b'x'; 10]);
            }
            0
        });
    let session = session(&runner).await;
    let id = fresh_process();
    let spec = ProcessSpec::new(id.clone(), vec!["flood".to_owned()]);
    session.start_process(spec).await.unwrap();
    let mut read = session.read_process(&id, None, 50, 60_000).await.unwrap();
    while read.ending.is_none() {
        tokio::task::yield_now().await;
        read = session.read_process(&id, None, 50, 60_000).await.unwrap();
    }
    assert_eq!(
        (read.skipped_bytes, read.chunks.len(), read.closed),
        (400, 5, false)
    );
    let after = read.chunks.last().map(|chunk| chunk.seq);
    assert_eq!(after, Some(44));
    let read = session.read_process(&id, after, 1000, 0).await.unwrap();
    assert_eq!(
        (read.skipped_bytes, read.chunks.len(), read.closed),
        (0, 5, true)
    );
}

#[tokio::test]
async fn sandboxes_outlive_their_sessions() {
    let runner = MemoryRunner::new();
    let binding = || runner.binding("d");
    let first = session(&runner).await;
    write(&*first, "a", "1").await.unwrap();
    let resume = async |state: SessionState| match runner.clone().resume(binding(), state).await {
        Ok(Resumed::Session(session)) => Ok(session),
        Ok(Resumed::Gone { reason }) => Err(reason),
        Err(error) => panic!("{error}"),
    };
    let paused = first.pause().await.unwrap();
    assert!(
        read(&*first, "a")
            .await
            .unwrap_err()
            .to_string()
            .contains("let go")
    );
    let second = resume(paused).await.unwrap();
    assert_eq!(read(&*second, "a").await.unwrap(), "1");
    assert_ne!(
        first.state().metadata.unwrap().get(),
        second.state().metadata.unwrap().get(),
        "a handle tells itself from an earlier one"
    );
    let detached = second.detach().await.unwrap();
    let third = resume(detached.clone()).await.unwrap();
    assert_eq!(third.snapshot().await.unwrap(), "memory-1-snapshot-1");
    assert_eq!(
        third.state().snapshot.as_deref(),
        Some("memory-1-snapshot-1")
    );
    assert!(third.port(80).await.unwrap().contains("80-memory-1"));
    third.close().await.unwrap();
    assert!(resume(detached.clone()).await.is_err());
    assert_eq!(runner.resumed().len(), 3);

    let fourth = session(&runner).await;
    runner.lose(&fourth.state().session_id);
    assert!(
        read(&*fourth, "a")
            .await
            .unwrap_err()
            .to_string()
            .contains("gone")
    );
}

#[tokio::test]
async fn what_is_not_claimed_is_refused() {
    let runner = MemoryRunner::new().with_capabilities(|can| *can = RunnerCapabilities::default());
    let session = session(&runner).await;
    let refused = |error: Error, word: &str| {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(word), "{error}");
    };
    refused(
        session.pause().await.unwrap_err(),
        "does not support pausing",
    );
    refused(session.detach().await.unwrap_err(), "detaching");
    refused(session.snapshot().await.unwrap_err(), "snapshots");
    refused(session.port(1).await.unwrap_err(), "port previews");
    let spec = ProcessSpec::new(fresh_process(), vec!["true".to_owned()]);
    refused(session.start_process(spec).await.unwrap_err(), "processes");
    let request = LeaseRequest {
        acquire_timeout_ms: 1,
        lease_timeout_ms: None,
    };
    assert!(
        runner
            .acquire_lease(session.state(), request)
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn threads_may_share_one_sandbox() {
    let runner = MemoryRunner::new().one_session("machine");
    let (a, b) = (session(&runner).await, session(&runner).await);
    assert_eq!(a.state().session_id, b.state().session_id);
    write(&*a, "x", "1").await.unwrap();
    assert_eq!(read(&*b, "x").await.unwrap(), "1");
}

#[tokio::test]
async fn configs_are_refused_as_asked() {
    let runner = MemoryRunner::new().refusing_configs("no such region");
    let error = runner
        .validate(&runner.binding("d").destination)
        .unwrap_err();
    assert!(error.to_string().contains("no such region"));
    assert!(
        MemoryRunner::new()
            .validate(&runner.binding("d").destination)
            .is_ok()
    );
    let mut relative = runner.binding("d");
    relative.workspace = "w".to_owned();
    assert!(runner.create(relative).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn leases_fence_lapse_and_are_lost() {
    let runner = MemoryRunner::new();
    let state = session(&runner).await.state();
    let acquire = async |wait: u64, lease_timeout_ms: Option<u64>| {
        let request = LeaseRequest {
            acquire_timeout_ms: wait,
            lease_timeout_ms,
        };
        let lease = runner.acquire_lease(state.clone(), request).await;
        lease
            .map(|lease| lease.unwrap())
            .map_err(|error| error.kind())
    };
    let first = acquire(1, None).await.unwrap();
    let began = Instant::now();
    assert_eq!(acquire(500, None).await.err(), Some(ErrorKind::Busy));
    assert_eq!(began.elapsed(), Duration::from_millis(500));

    // Whoever waits gets it as soon as it is given back.
    let release = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        first.release().await.unwrap();
    };
    let (second, ()) = tokio::join!(acquire(1000, Some(2000)), release);
    assert_eq!(began.elapsed(), Duration::from_millis(600));

    // Dropped, it stays until it lapses.
    drop(second);
    assert_eq!(acquire(500, None).await.err(), Some(ErrorKind::Busy));
    let third = acquire(10_000, None).await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_millis(2600));

    let never = tokio::time::timeout(Duration::from_secs(3600), third.lost());
    assert!(never.await.is_err());
    let lose = async { runner.lose_leases("evicted") };
    let (reason, ()) = tokio::join!(third.lost(), lose);
    assert_eq!(reason, "evicted");
    third.release().await.unwrap();

    let fourth = acquire(1, Some(100)).await.unwrap();
    assert_eq!(fourth.lost().await, "the lease has lapsed");
    runner
        .faults()
        .on(RunnerOperation::ReleaseLease)
        .next()
        .fail(Error::new(ErrorKind::Unavailable, "down"));
    assert!(fourth.release().await.is_err());
    drop((first, third, fourth));
    let counts = runner.lease_counts();
    assert_eq!(
        (
            counts.acquired,
            counts.released,
            counts.dropped,
            counts.lost
        ),
        (4, 3, 1, 1)
    );
    assert_eq!(runner.lease_requests().len(), 6);
}
