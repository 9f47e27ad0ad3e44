//! A host that nobody calls sleeps: no timer ticks, no thread polls.
#![cfg(target_os = "linux")]

mod support;

use std::time::{Duration, Instant};

use support::{World, call, tool};

/// How often threads of this name have gone to sleep so far: each wake-up ends
/// in one more.
fn sleeps(name: &str) -> u64 {
    let mut count = 0;
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let path = task.unwrap().path();
        let read = |file: &str| std::fs::read_to_string(path.join(file)).unwrap_or_default();
        if read("comm").trim_end() == name {
            let status = read("status");
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            count += line.map_or(0, |n| n.trim().parse().unwrap());
        }
    }
    count
}

#[tokio::test]
async fn an_idle_host_is_not_woken() {
    let mut world = World::new().file("t.lua", &tool("t", "haft.sleep(1) return 'fine'"));
    world.settings.reload = Some(true);
    let host = world.start();
    assert_eq!(call(&host, "t", "{}").await.text, "fine");
    let names = ["haft-lua", "haft-lua-reload"];
    let now = || names.map(sleeps);
    assert!(now()[0] > 0, "the state's thread is there");
    // What the call has left to do is done when two looks agree.
    let (began, mut before) = (Instant::now(), now());
    loop {
        std::thread::sleep(Duration::from_millis(300));
        let after = now();
        if after == before {
            break;
        }
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "woken again and again: {before:?}, {after:?}"
        );
        before = after;
    }
    assert_eq!(call(&host, "t", "{}").await.text, "fine");
}
