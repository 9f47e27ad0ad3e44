//! What skills cost that do nothing. A file of its own: the CPU time of a process
//! is that of all its tests.
#![cfg(target_os = "linux")]

mod support;

use std::time::Duration;

use support::{World, batch, tools};

/// The CPU time of this process's threads so far, as the scheduler counts it.
fn cpu() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let of_thread = |folder: std::fs::DirEntry| {
        // A thread may have ended since.
        let text = std::fs::read_to_string(folder.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    let nanoseconds = threads.flatten().filter_map(of_thread).sum();
    Duration::from_nanos(nanoseconds)
}

#[tokio::test]
async fn idle_skills_use_no_cpu() {
    const SKILLS: usize = 50;
    let script = tools(&[("t", "return 1;")]) + "setInterval(() => {}, 3600 * 1000);";
    let world = (0..SKILLS).fold(World::new(), |world, number| {
        world.skill(&format!("s{number}"), &script)
    });
    let host = world.start();
    let names: Vec<String> = (0..SKILLS).map(|n| format!("s{n}__t")).collect();
    let calls: Vec<_> = names.iter().map(|name| (name.as_str(), "{}")).collect();
    let outcomes = batch(&host, &calls).await;
    assert!(outcomes.iter().all(|o| o.text == "1"), "{outcomes:?}");
    // Whoever watches running code falls asleep a second after the last of it.
    let mut used = Duration::MAX;
    for _ in 0..20 {
        let before = cpu();
        tokio::time::sleep(Duration::from_secs(1)).await;
        used = cpu() - before;
        if used < Duration::from_millis(50) {
            return;
        }
    }
    panic!("{SKILLS} idle skills used {used:?} in a second");
}
