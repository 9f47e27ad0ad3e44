//! What a command may use up, and what it is told when it has.
#![cfg(target_os = "linux")]

mod support;

use haft_api::{Ending, RemoteRunnerProvider as _};
use haft_ext_runner_local::{Limits, LocalConfig};
use support::{Mode, Place, available, config};

const MODES: [Mode; 3] = [Mode::Confined, Mode::Filtered, Mode::Supervised];

fn limited(mode: Mode, set: impl FnOnce(&mut Limits)) -> LocalConfig {
    let mut config = config(mode);
    set(&mut config.limits);
    config
}

#[tokio::test]
async fn processor_time_is_limited() {
    for mode in available(&MODES).await {
        let place = Place::with(limited(mode, |limits| limits.cpu_seconds = Some(1))).await;
        for (line, ending) in [
            (
                "exec sh -c 'while :; do :; done'",
                Ending::Signalled { signal: 24 },
            ),
            (
                "sh -c 'while :; do :; done'; exit $?",
                Ending::Exited { code: 152 },
            ),
        ] {
            let (outcome, kept) = place.shell(line).await;
            assert_eq!(outcome.ending, ending, "{mode:?}: {line}");
            let text = kept.stderr();
            assert!(
                text.contains("limit of 1 seconds of processor time"),
                "{text}"
            );
            assert!(text.contains("limits.cpu_seconds"), "{text}");
        }
    }
}

#[tokio::test]
async fn the_size_of_files_is_limited() {
    for mode in available(&MODES).await {
        let place = Place::with(limited(mode, |limits| limits.file_bytes = Some(4096))).await;
        let (outcome, kept) = place.shell("exec head -c 10000 /dev/zero > big").await;
        assert_eq!(outcome.ending, Ending::Signalled { signal: 25 }, "{mode:?}");
        assert!(
            kept.stderr().contains("limits.file_bytes"),
            "{}",
            kept.stderr()
        );
        assert_eq!(
            std::fs::metadata(place.root.join("big")).unwrap().len(),
            4096
        );
        let (outcome, _) = place.shell("head -c 4096 /dev/zero > fits").await;
        assert!(outcome.ending.is_success());
    }
}

#[tokio::test]
async fn open_files_are_limited() {
    for mode in available(&MODES).await {
        let place = Place::with(limited(mode, |limits| limits.open_files = Some(20))).await;
        let (_, kept) = place.shell("ulimit -n").await;
        assert_eq!(kept.stdout(), "20\n", "{mode:?}");
    }
}

/// Where a group of processes can be counted, else one by one.
#[tokio::test]
async fn memory_is_limited() {
    for mode in available(&MODES).await {
        let place = Place::with(limited(mode, |limits| limits.memory_bytes = Some(64 << 20))).await;
        // A variable of a shell is memory; a line without an end fills it.
        let line = "exec sh -c 'x=$(head -c 200000000 /dev/zero | tr \"\\0\" x); echo ${#x}'";
        let (outcome, kept) = place.shell(line).await;
        assert!(!outcome.ending.is_success(), "{mode:?}: {outcome:?}");
        assert!(!kept.stdout().contains("200000000"), "{mode:?}");
        if outcome.ending == Ending::OutOfMemory {
            assert!(
                kept.stderr().contains("limits.memory_bytes"),
                "{}",
                kept.stderr()
            );
        }
        let (outcome, _) = place
            .shell("x=$(head -c 1000000 /dev/zero | tr '\\0' x)")
            .await;
        assert!(outcome.ending.is_success(), "{mode:?}");
    }
}

#[tokio::test]
async fn processes_are_limited() {
    for mode in available(&MODES).await {
        let place = Place::with(limited(mode, |limits| limits.processes = Some(20))).await;
        let said = place.runner.explain().await.unwrap_or_default();
        if mode == Mode::Supervised || said.contains("a limit of processes") {
            // Nothing counts them here, and that is said.
            continue;
        }
        let line = "for i in $(seq 60); do sleep 20 & done; wait; exit 0";
        let mut request = haft_api::CommandRequest::shell(line);
        request.timeout_ms = Some(20_000);
        let (outcome, kept) = place.run(request).await.unwrap();
        assert_ne!(outcome.ending, Ending::Exited { code: 0 }, "{mode:?}");
        let text = kept.stderr();
        assert!(text.to_lowercase().contains("fork"), "{mode:?}: {text}");
        if place.runner.capabilities().isolation == haft_api::Isolation::ControlGroups {
            assert!(text.contains("limits.processes"), "{mode:?}: {text}");
        }
        // And they are gone, so that the next one may start.
        let (outcome, _) = place.shell("true").await;
        assert!(outcome.ending.is_success(), "{mode:?}");
    }
}

#[test]
fn limits_that_would_let_nothing_run_are_refused() {
    let check = |set: fn(&mut Limits), key: &str| {
        let error = haft_ext_runner_local::LocalRunner::new(limited(Mode::Confined, set));
        let text = error.unwrap_err().to_string();
        assert!(text.contains(key), "{text}");
    };
    check(|limits| limits.cpu_seconds = Some(0), "limits.cpu_seconds");
    check(
        |limits| limits.memory_bytes = Some(9),
        "limits.memory_bytes",
    );
    check(|limits| limits.processes = Some(1), "limits.processes");
    check(|limits| limits.file_bytes = Some(0), "limits.file_bytes");
    check(|limits| limits.open_files = Some(3), "limits.open_files");
}
