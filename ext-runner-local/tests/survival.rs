//! Nothing outlives its command, however it tries.
//!
//! It takes a fraction of a second; the bounds here leave room for a machine that
//! is busy with other things. What tries to survive would do so for a minute.
#![cfg(target_os = "linux")]

mod support;

use std::time::{Duration, Instant};

use haft_api::{CommandRequest, Ending, NoOutput, ProcessSpec, RemoteRunnerSessionExt as _};
use support::{Mode, Place, alive, assert_dead, available, id, marker, reading_tests, until};

const MODES: [Mode; 4] = [
    Mode::Confined,
    Mode::Filtered,
    Mode::Supervised,
    Mode::Grouped,
];

/// Ways to outlive one's parent. All carry the marker in their environment,
/// or (where they clear it) in their arguments.
const WAYS: &[(&str, &str)] = &[
    ("a child", "sleep 60 & sleep 60; echo x"),
    ("a session of its own", "setsid sleep 60 & sleep 60"),
    (
        "a double fork",
        "(setsid sh -c 'sleep 60 & sleep 60 &' &) ; sleep 60",
    ),
    ("nohup", "nohup sleep 60 >/dev/null 2>&1 & sleep 60"),
    (
        "deaf to the polite signal",
        "trap '' TERM HUP INT; setsid sh -c 'trap \"\" TERM; sleep 60; sleep 60' & sleep 60; sleep 60",
    ),
    ("stopped", "setsid sh -c 'kill -STOP $$' & sleep 60"),
    (
        "closed pipes and another folder",
        "(cd /; setsid sleep 60 >/dev/null 2>&1 </dev/null &) ; sleep 60",
    ),
    (
        "many generations",
        "f() { if [ $1 -gt 0 ]; then setsid sh -c \"$2\" $1 & fi; }; for i in 1 2 3 4 5; do (setsid sh -c 'sleep 60 & (setsid sleep 60 &)' &); done; sleep 60",
    ),
];

/// Only the supervisor holds these.
const WAYS_OF_THE_ARTFUL: &[(&str, &str)] = &[
    (
        "an empty environment",
        "(env -i setsid sh -c 'sleep 60; : MARKER' &) ; sleep 60",
    ),
    (
        "breeding",
        "b() { while :; do (env -i setsid sh -c 'sleep 60; : MARKER' &); sleep 0.02; done; }; b & b & sleep 60",
    ),
    (
        "a dead first thread",
        "HEADLESS=1 SELF --exact headless & sleep 60",
    ),
];

fn ways(mode: Mode) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    let artful = match mode {
        Mode::Confined | Mode::Filtered | Mode::Supervised => WAYS_OF_THE_ARTFUL,
        Mode::Grouped => &[],
    };
    WAYS.iter().chain(artful)
}

/// Not a test of its own: a process in a session of its own whose first thread ends,
/// and another doesn't. To most it looks dead.
#[test]
#[allow(unsafe_code)]
fn headless() {
    if std::env::var_os("HEADLESS").is_none() {
        return;
    }
    // SAFETY: the child starts a thread and ends, as it were; what it takes of the
    // allocator is safe after a fork.
    if unsafe { libc::fork() } == 0 {
        rustix::process::setsid().unwrap();
        std::thread::spawn(|| std::thread::sleep(Duration::from_secs(60)));
        // SAFETY: it ends this thread, which owns nothing that others use.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
    std::thread::sleep(Duration::from_secs(60));
}

fn request(line: &str, mark: &str) -> CommandRequest {
    let own = std::env::current_exe().unwrap();
    let line = line.replace("SELF", own.to_str().unwrap());
    let mut request = CommandRequest::shell(line.replace("MARKER", mark));
    request.env.push(("MARK".into(), mark.to_owned()));
    request
}

#[tokio::test]
async fn nothing_survives_a_time_limit() {
    for mode in available(&MODES).await {
        let place = Place::with(reading_tests(mode)).await;
        for (way, line) in ways(mode) {
            let mark = marker();
            let mut request = request(line, &mark);
            request.timeout_ms = Some(500);
            let start = Instant::now();
            let (outcome, _) = place.run(request).await.unwrap();
            let took = start.elapsed();
            assert_eq!(outcome.ending, Ending::TimedOut, "{mode:?} {way}");
            assert!(took < Duration::from_secs(5), "{mode:?} {way}: {took:?}");
            assert_dead(&mark, way).await;
        }
    }
}

#[tokio::test]
async fn nothing_survives_being_dropped() {
    for mode in available(&MODES).await {
        let place = Place::with(reading_tests(mode)).await;
        for (way, line) in ways(mode) {
            let mark = marker();
            let run = place
                .session
                .run_command(id(), request(line, &mark), &NoOutput);
            let cut = tokio::time::timeout(Duration::from_millis(400), run).await;
            assert!(cut.is_err(), "{mode:?} {way} ended by itself");
            assert_dead(&mark, way).await;
        }
    }
}

#[tokio::test]
async fn nothing_survives_its_session() {
    for mode in available(&MODES).await {
        for closing in [true, false] {
            let place = Place::with(reading_tests(mode)).await;
            let mut marks = Vec::new();
            for (way, line) in ways(mode) {
                let mark = marker();
                let mut spec = ProcessSpec::new(id(), request(line, &mark).argv);
                spec.env.push(("MARK".into(), mark.clone()));
                place.session.start_process(spec).await.unwrap();
                marks.push((way, mark));
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
            for (way, mark) in &marks {
                assert!(!alive(mark).is_empty(), "{mode:?} {way} isn't there");
            }
            match closing {
                true => place.session.close().await.unwrap(),
                false => drop(place),
            }
            for (way, mark) in &marks {
                assert_dead(mark, way).await;
            }
        }
    }
}

#[tokio::test]
async fn nothing_survives_its_runtime() {
    for mode in available(&MODES).await {
        let mark = marker();
        let wanted = mark.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let place = runtime.block_on(async {
                let place = Place::with(reading_tests(mode)).await;
                let mut spec =
                    ProcessSpec::new(id(), request("setsid sleep 60 & sleep 60", "").argv);
                spec.env.push(("MARK".into(), wanted));
                place.session.start_process(spec).await.unwrap();
                place
            });
            drop(runtime);
            place
        });
        // The session itself is still held.
        let _place = thread.join().unwrap();
        assert_dead(&mark, "the runtime was shut down").await;
    }
}

/// By default a command takes all with it, and says what that was.
#[tokio::test]
async fn leftovers_are_killed_and_listed() {
    for mode in available(&MODES).await {
        let place = Place::with(reading_tests(mode)).await;
        for line in [
            "sleep 30 & echo hi",
            "setsid sleep 30 & echo hi",
            "nohup sleep 30 >/dev/null 2>&1 & echo hi",
            "(setsid sh -c 'trap \"\" TERM; sleep 30; sleep 30' &); sleep 0.1; echo hi",
        ] {
            let mark = marker();
            let start = Instant::now();
            let (outcome, kept) = place.run(request(line, &mark)).await.unwrap();
            let took = start.elapsed();
            assert_eq!(
                outcome.ending,
                Ending::Exited { code: 0 },
                "{mode:?} {line}"
            );
            assert_eq!(kept.stdout(), "hi\n", "{mode:?} {line}");
            assert!(!outcome.leftovers.is_empty(), "{mode:?} {line}");
            assert!(took < Duration::from_secs(5), "{mode:?} {line}: {took:?}");
            assert_dead(&mark, line).await;
        }
    }
}

/// With leave to detach they live on until the session ends, and the command's
/// result doesn't wait for the pipe they hold open.
#[tokio::test]
async fn detached_leftovers_live_on_until_the_session_ends() {
    for mode in available(&MODES).await {
        let place = Place::with(reading_tests(mode)).await;
        let mark = marker();
        let line = "(while :; do echo tick; echo t >> ticks; sleep 0.05; done) & setsid sleep 60 & echo hi";
        let mut request = request(line, &mark);
        request.detach = true;
        let start = Instant::now();
        let (outcome, kept) = place.run(request).await.unwrap();
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "{:?}",
            start.elapsed()
        );
        assert_eq!(outcome.ending, Ending::Exited { code: 0 });
        assert!(kept.stdout().contains("hi\n"));
        assert!(
            outcome.leftovers.len() >= 2,
            "{mode:?} {:?}",
            outcome.leftovers
        );
        // All but a passing `sleep` of the loop. What is confined is known by
        // other numbers than outside.
        if mode != Mode::Confined {
            let lasting = outcome
                .leftovers
                .iter()
                .filter(|pid| alive(&mark).contains(pid));
            assert!(lasting.count() >= 2, "{mode:?} {:?}", outcome.leftovers);
        }
        // They can still write, to a pipe that nobody reads any more.
        let ticks = || {
            std::fs::read(place.root.join("ticks"))
                .unwrap_or_default()
                .len()
        };
        let before = ticks();
        until("more ticks", Duration::from_secs(5), || {
            ticks() > before + 4
        })
        .await;
        assert!(alive(&mark).len() >= 2, "{mode:?}");
        drop(place);
        assert_dead(&mark, "the session was dropped").await;
    }
}

#[tokio::test]
async fn a_time_limit_holds_for_the_detached_too() {
    let place = Place::new().await;
    let mark = marker();
    let mut request = request("setsid sleep 60 & sleep 60", &mark);
    request.detach = true;
    request.timeout_ms = Some(300);
    let (outcome, _) = place.run(request.clone()).await.unwrap();
    assert_eq!(outcome.ending, Ending::TimedOut);
    assert_dead(&mark, "timed out").await;
    request.timeout_ms = None;
    let run = place.session.run_command(id(), request, &NoOutput);
    assert!(
        tokio::time::timeout(Duration::from_millis(300), run)
            .await
            .is_err()
    );
    assert_dead(&mark, "dropped").await;
}

#[tokio::test]
async fn a_polite_end_comes_first() {
    for mode in available(&MODES).await {
        let place = Place::with(reading_tests(mode)).await;
        let line = "trap 'echo cleaned > cleaned; exit 0' TERM; while :; do sleep 0.02; done";
        let mut request = CommandRequest::shell(line);
        request.timeout_ms = Some(200);
        let (outcome, _) = place.run(request).await.unwrap();
        assert_eq!(
            outcome.ending,
            Ending::TimedOut,
            "an exit code 0 doesn't hide it"
        );
        let cleaned = std::fs::read_to_string(place.root.join("cleaned"));
        assert_eq!(cleaned.unwrap(), "cleaned\n", "{mode:?}");
    }
}

/// A start that is given up midway starts nothing.
#[tokio::test]
async fn a_dropped_start_starts_nothing() {
    let place = Place::new().await;
    for micros in [0, 50, 200, 500, 1000, 2000] {
        let mark = marker();
        let mut spec = ProcessSpec::new(id(), CommandRequest::shell("sleep 60").argv);
        spec.env.push(("MARK".into(), mark.clone()));
        let start = place.session.start_process(spec.clone());
        let cut = tokio::time::timeout(Duration::from_micros(micros), start).await;
        if cut.is_ok() {
            place.session.release_process(&spec.id);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_dead(&mark, "given up").await;
        assert!(
            place
                .session
                .read_process(&spec.id, None, 1, 0)
                .await
                .is_err()
        );
    }
}

/// The host is killed outright: nothing of its commands is left.
#[tokio::test]
async fn nothing_survives_a_killed_host() {
    if let Ok(mark) = std::env::var("HAFT_TEST_HOST_MARK") {
        // This is the host.
        let place = Place::new().await;
        for (_, line) in ways(Mode::Supervised) {
            let mut spec = ProcessSpec::new(id(), request(line, &mark).argv);
            spec.env.push(("MARK".into(), mark.clone()));
            place.session.start_process(spec).await.unwrap();
        }
        let mut detached = request("setsid sleep 60 &", &mark);
        detached.detach = true;
        place.run(detached).await.unwrap();
        std::fs::write(std::env::var("HAFT_TEST_HOST_READY").unwrap(), "").unwrap();
        std::future::pending::<()>().await;
    }
    let mark = marker();
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let mut host = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "nothing_survives_a_killed_host"])
        .env("HAFT_TEST_HOST_MARK", &mark)
        .env("HAFT_TEST_HOST_READY", &ready)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    until("the host is ready", Duration::from_secs(20), || {
        ready.exists()
    })
    .await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(alive(&mark).len() > WAYS.len(), "{:?}", alive(&mark));
    host.kill().unwrap();
    host.wait().unwrap();
    assert_dead(&mark, "the host was killed").await;
}
