//! What a command costs through a session, beside what it costs bare.
//!
//! `cargo bench -p haft-ext-runner-local --bench commands`
#![allow(clippy::print_stdout)]

use std::time::{Duration, Instant};

use haft_api::{
    Binding, CommandRequest, Destination, DestinationId, ExtensionId, NoOutput, ProcessId,
    RemoteRunnerProvider as _, RemoteRunnerSession, RemoteRunnerSessionExt as _, raw_json,
};
use haft_ext_runner_local::{LocalConfig, LocalRunner, supervise_if_asked};

const ROUNDS: usize = 50;

fn main() {
    supervise_if_asked();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(measure());
}

async fn measure() {
    let folder = tempfile::tempdir().unwrap();
    let binding = Binding {
        destination: Destination {
            id: DestinationId::new("bench").unwrap(),
            provider_id: ExtensionId::new("local").unwrap(),
            config: raw_json("{}").unwrap(),
            manifest: None,
        },
        workspace: folder.path().to_str().unwrap().to_owned(),
        read_roots: Vec::new(),
    };
    let runner = LocalRunner::new(LocalConfig::default()).unwrap();
    let start = Instant::now();
    let session = runner.create(binding).await.unwrap();
    say("create a session", start.elapsed());

    let bare = median(|| {
        let start = Instant::now();
        let output = std::process::Command::new("true").output().unwrap();
        assert!(output.status.success());
        start.elapsed()
    });
    say("true, bare", bare);
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        run(&*session, CommandRequest::new(["true"])).await;
        times.push(start.elapsed());
    }
    times.sort();
    say("true, through a session", times[ROUNDS / 2]);

    let bytes: u64 = 2_000_000_000;
    let request = CommandRequest::shell(format!("yes | head -c {bytes}"));
    let start = Instant::now();
    run(&*session, request).await;
    let took = start.elapsed();
    say("a flood of 2 GB", took);
    let rate = bytes as f64 / took.as_secs_f64() / 1e6;
    println!("{:32}{rate:10.0} MB/s", "");

    let start = Instant::now();
    let mut set = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let session = std::sync::Arc::clone(&session);
        set.spawn(async move { run(&*session, CommandRequest::new(["true"])).await });
    }
    set.join_all().await;
    say("200 commands at a time", start.elapsed());
}

async fn run(session: &dyn RemoteRunnerSession, request: CommandRequest) {
    let id = ProcessId::new(uuid::Uuid::now_v7().to_string()).unwrap();
    let outcome = session.run_command(id, request, &NoOutput).await.unwrap();
    assert!(outcome.ending.is_success(), "{outcome:?}");
    assert_eq!(outcome.skipped_bytes, 0);
}

fn median(mut once: impl FnMut() -> Duration) -> Duration {
    let mut times: Vec<_> = (0..ROUNDS).map(|_| once()).collect();
    times.sort();
    times[ROUNDS / 2]
}

fn say(what: &str, took: Duration) {
    println!("{what:32}{:10.3} ms", took.as_secs_f64() * 1e3);
}
