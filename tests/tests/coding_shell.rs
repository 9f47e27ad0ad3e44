//! The shell tool over a local session whose supervisor is this very program,
//! for which it needs a `main` of its own.

#[path = "coding/bench.rs"]
mod bench;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use bench::{Bench, Called};
use haft_api::{Deadline, ToolContext};
use haft_ext_runner_local::supervise_if_asked;
use haft_testkit::{MemoryRunner, fixture};
use libtest_mimic::{Arguments, Trial};
use serde_json::json;

macro_rules! tests {
    ($($name:ident),+ $(,)?) => {
        vec![$(test(stringify!($name), $name)),+]
    };
}

fn main() -> ExitCode {
    supervise_if_asked();
    let arguments = Arguments::from_args();
    let tests = tests![
        output_and_exit_code_are_told,
        a_failure_is_told_plainly,
        a_time_limit_leaves_nothing,
        a_cancel_leaves_nothing,
        a_background_process_is_not_waited_for,
        characters_and_bytes_arrive_as_they_are,
        nothing_asks_for_input,
        the_time_left_of_the_turn_is_reckoned_at_the_start,
        each_call_runs_where_it_is_told_to,
    ];
    libtest_mimic::run(&arguments, tests).exit_code()
}

fn test<F: Future<Output = ()> + 'static>(name: &str, run: fn() -> F) -> Trial {
    Trial::test(name, move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        runtime.block_on(run());
        Ok(())
    })
}

async fn shell(bench: &Bench, arguments: serde_json::Value) -> Called {
    bench.try_call("shell", arguments).await.unwrap()
}

/// The live processes that carry a marker in their environment or arguments.
fn alive(marker: &str) -> Vec<u32> {
    let has = |pid: u32, file: &str| {
        let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).contains(marker)
    };
    let dead = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned();
        state.is_empty() || state.starts_with(['Z', 'X'])
    };
    let all = std::fs::read_dir("/proc").unwrap();
    all.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
        .filter(|&pid| (has(pid, "environ") || has(pid, "cmdline")) && !dead(pid))
        .collect()
}

fn marker() -> String {
    format!("haft-mark-{}", uuid::Uuid::now_v7().simple())
}

async fn assert_dead(marker: &str) {
    let start = Instant::now();
    while !alive(marker).is_empty() {
        assert!(
            start.elapsed() < Duration::from_secs(4),
            "{:?}",
            alive(marker)
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn output_and_exit_code_are_told() {
    let memory = MemoryRunner::new();
    for bench in [Bench::local().await, Bench::memory(&memory).await] {
        let called = shell(&bench, json!({"command":"echo hi"})).await;
        assert_eq!(
            (called.stdout.as_str(), called.stderr.as_str()),
            ("hi\n", "")
        );
        assert_eq!(called.text(), "[exit code 0]");
        assert!(!called.output.is_error);
    }
    let bench = Bench::local().await;
    assert!(bench.session.capabilities().kills_process_trees);
    let called = shell(&bench, json!({"command":"echo out; echo err >&2; exit 3"})).await;
    assert_eq!(
        (called.stdout.as_str(), called.stderr.as_str()),
        ("out\n", "err\n")
    );
    assert_eq!(called.text(), "[exit code 3]");
    assert!(called.output.is_error);
}

async fn a_failure_is_told_plainly() {
    let bench = Bench::local().await;
    let called = shell(&bench, json!({"command":"kill -SEGV $$"})).await;
    assert_eq!(called.text(), "[killed by signal 11 (SIGSEGV)]");
    let called = shell(&bench, json!({"command":"no-such-program"})).await;
    assert_eq!(called.text(), "[exit code 127]");
    assert!(called.stderr.contains("no-such-program"));
    let text = bench
        .told("shell", json!({"command":"true","cwd":"nowhere"}))
        .await;
    assert!(text.contains("nowhere"), "{text}");
    let text = bench
        .told("shell", json!({"command":"true","cwd":"../"}))
        .await;
    assert!(text.contains("outside"), "{text}");
}

async fn a_time_limit_leaves_nothing() {
    let bench = Bench::local().await;
    for line in [
        "echo begun; sh -c 'sleep 60 & sleep 60; echo x'",
        "echo begun; setsid sleep 60 & sleep 60",
        "echo begun; trap '' TERM; (env -i setsid sh -c 'sleep 60; : MARK' &); sleep 60; sleep 60",
    ] {
        let mark = marker();
        let command = format!("export M={mark}; {}", line.replace("MARK", &mark));
        let start = Instant::now();
        let called = shell(&bench, json!({"command":command,"timeout":0.5})).await;
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "{line}: {:?}",
            start.elapsed()
        );
        assert_eq!(called.stdout, "begun\n", "{line}");
        assert!(called.output.is_error);
        assert!(
            called.text().starts_with("[timed out after 0.5 s"),
            "{}",
            called.text()
        );
        assert_dead(&mark).await;
    }
}

async fn a_cancel_leaves_nothing() {
    let bench = Bench::local().await;
    for line in [
        "sleep 60 & sleep 60",
        "setsid sh -c 'trap \"\" TERM; sleep 60; sleep 60' & sleep 60",
    ] {
        let mark = marker();
        let command = format!("export M={mark}; {line}");
        let call = shell(&bench, json!({"command":command}));
        assert!(
            tokio::time::timeout(Duration::from_millis(400), call)
                .await
                .is_err()
        );
        assert_dead(&mark).await;
    }
}

async fn a_background_process_is_not_waited_for() {
    let bench = Bench::local().await;
    let mark = marker();
    let start = Instant::now();
    let command = format!("export M={mark}; sleep 30 & echo $!");
    let called = shell(&bench, json!({"command":command})).await;
    assert!(start.elapsed() < Duration::from_secs(5));
    // Its number where the command runs; outside it may have another.
    let pid = called.stdout.trim().to_owned();
    assert_eq!(alive(&mark).len(), 1);
    let expected = format!("[exit code 0]\n[a background process still runs: pid {pid}]");
    assert_eq!(called.text(), expected);
    assert!(!called.output.is_error);

    let start = Instant::now();
    let command = format!(
        "export M={mark}; nohup sh -c 'echo up > log; sleep 30' >/dev/null 2>&1 & sleep 0.3; cat log"
    );
    let called = shell(&bench, json!({"command":command})).await;
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(called.stdout, "up\n");
    assert!(called.text().contains("still run"), "{}", called.text());

    assert!(!alive(&mark).is_empty());
    bench.session.close().await.unwrap();
    assert_dead(&mark).await;
}

async fn characters_and_bytes_arrive_as_they_are() {
    let bench = Bench::local().await;
    // Split within a character, and not UTF-8 at all.
    let line = r"printf '\344\270'; sleep 0.2; printf '\255'; printf 'a\n'";
    let called = shell(&bench, json!({"command":line})).await;
    assert_eq!(called.stdout, "中a\n");
    let line = "i=0; while [ $i -lt 4000 ]; do i=$((i+1)); printf 中中中中中中中中中中; done";
    let called = shell(&bench, json!({"command":line})).await;
    assert_eq!(called.stdout, "中".repeat(40_000));
    let called = shell(&bench, json!({"command":r"printf '\377\376'"})).await;
    assert_eq!(called.stdout, "\u{fffd}\u{fffd}");
}

async fn nothing_asks_for_input() {
    let bench = Bench::local().await;
    for line in [
        "cat",
        "read x; echo \"[$x]\"",
        "(read x < /dev/tty) 2>/dev/null || true",
    ] {
        let start = Instant::now();
        let called = shell(&bench, json!({"command":line,"timeout":20})).await;
        assert!(start.elapsed() < Duration::from_secs(5), "{line}");
        assert!(!called.text().contains("timed out"), "{line}");
    }
}

async fn the_time_left_of_the_turn_is_reckoned_at_the_start() {
    let bench = Bench::local().await;
    // 31.9 s less the reserve of 30 s: one second, whatever was asked for.
    let within = |ms| {
        let mut context: ToolContext = fixture::tool_context();
        context.turn_deadline = Some(Deadline::after(Duration::from_millis(ms)));
        context
    };
    let arguments = json!({"command":"sleep 20","timeout":15});
    let start = Instant::now();
    let called = bench
        .call_in("shell", arguments, within(31_900))
        .await
        .unwrap();
    assert!(start.elapsed() < Duration::from_secs(10));
    let text = called.text();
    assert!(
        text.starts_with("[timed out after 1 s, which is what was left"),
        "{text}"
    );
    // Time enough: what was asked for holds.
    let arguments = json!({"command":"sleep 20","timeout":0.3});
    let called = bench
        .call_in("shell", arguments, within(300_000))
        .await
        .unwrap();
    assert!(
        called.text().starts_with("[timed out after 0.3 s: "),
        "{}",
        called.text()
    );
    // The session is told in milliseconds.
    let runner = MemoryRunner::new();
    let memory = Bench::memory(&runner).await;
    memory
        .try_call("shell", json!({"command":"true"}))
        .await
        .unwrap();
    memory
        .call_in("shell", json!({"command":"true"}), within(100_900))
        .await
        .unwrap();
    let limits: Vec<_> = runner
        .processes()
        .iter()
        .map(|spec| spec.timeout_ms)
        .collect();
    assert_eq!(limits[0], Some(120_000));
    assert!(
        limits[1] == Some(69_000) || limits[1] == Some(70_000),
        "{limits:?}"
    );
}

async fn each_call_runs_where_it_is_told_to() {
    let bench = Bench::local().await;
    bench.put("sub/file", "").await;
    let root = bench.root();
    let absolute = root.join("sub");
    for (cwd, expected) in [
        (json!(null), root.clone()),
        (json!("."), root.clone()),
        (json!("sub"), absolute.clone()),
        (json!("./sub/"), absolute.clone()),
        (json!(absolute), absolute.clone()),
    ] {
        let mut arguments = json!({"command":"pwd -P"});
        if !cwd.is_null() {
            arguments["cwd"] = cwd.clone();
        }
        let called = shell(&bench, arguments).await;
        assert_eq!(called.stdout, format!("{}\n", expected.display()), "{cwd}");
    }
}
