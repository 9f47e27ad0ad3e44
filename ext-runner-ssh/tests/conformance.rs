//! The suite that every runner keeps, over a real server.
#![cfg(target_os = "linux")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use haft_testkit::{RunnerFixture, Verdict, runner_suite};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_promise_of_a_runner_is_kept() {
    let Some(server) = support::server() else {
        return;
    };
    let server = Arc::new(server);
    let made = Arc::clone(&server);
    let number = std::sync::atomic::AtomicUsize::new(0);
    let cases = runner_suite(move || {
        let number = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = made.workspace(&format!("case-{number}"));
        RunnerFixture::new(Arc::new(made.runner()), support::binding(&folder))
    });
    let limit = Arc::new(tokio::sync::Semaphore::new(5));
    let mut running = tokio::task::JoinSet::new();
    for case in cases {
        let limit = Arc::clone(&limit);
        running.spawn(async move {
            let _turn = limit.acquire().await;
            let case = case.limit(Duration::from_secs(180));
            (case.name(), case.run().await)
        });
    }
    let mut broken = Vec::new();
    let mut kept = 0;
    while let Some(outcome) = running.join_next().await {
        match outcome.unwrap() {
            (name, Verdict::Broken { message }) => broken.push(format!("{name}: {message}")),
            (_, Verdict::Kept) => kept += 1,
            _ => {}
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(kept > 40, "only {kept} cases ran");
}
