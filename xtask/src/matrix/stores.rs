//! What may happen to a store on a disk, more often than the tests have the time
//! for: killed processes, power cuts, a disk that is full.

use super::shop::{Shop, run};
use super::{Depth, Line, Verdict};
use crate::Result;
use crate::workspace::Workspace;

const STORE: &str = "haft-ext-store-jsonl";

/// A test of the store that is made longer here.
#[derive(Clone, Copy)]
struct Test {
    line: &'static str,
    name: &'static str,
    /// A variable that says how often the test does what it does, and how often.
    times: Option<(&'static str, &'static str)>,
}

const TESTS: [Test; 3] = [
    Test {
        line: "store: an appending process is killed 1,000 times",
        name: "child::no_acknowledged_record_is_lost_by_kill_9",
        times: Some(("HAFT_STORE_TEST_KILLS", "1000")),
    },
    Test {
        line: "store: 32 power cuts",
        name: "power::no_acknowledged_record_is_lost_by_a_power_cut",
        times: Some(("HAFT_STORE_TEST_CUTS", "32")),
    },
    Test {
        line: "store: a full disk of 8 MiB",
        name: "small_disk::a_full_disk_of_8_mib_costs_the_group_and_nothing_else",
        times: None,
    },
];

pub(super) fn lines(workspace: &Workspace) -> Vec<Line> {
    if !workspace.packages.iter().any(|p| p.name == STORE) {
        return Vec::new();
    }
    let line = |test: Test| Line::new(Depth::Full, test.line, move |shop| run_test(shop, test));
    TESTS.into_iter().map(line).collect()
}

/// Runs a test of the store, with another seed each time; a failure says which.
fn run_test(shop: &Shop, test: Test) -> Result<Verdict> {
    let seed = std::time::UNIX_EPOCH.elapsed()?.as_secs().to_string();
    let mut command = shop.cargo(&["test", "--package", STORE, "--test", "store"]);
    command
        .args(["--", "--exact", test.name, "--nocapture"])
        .env("HAFT_STORE_TEST_SEED", &seed)
        .envs(test.times);
    let mut done = run(command)?;
    // The harness begins the line with the test's name.
    let skipped = |line: &String| Some(line.split_once("skipped: ")?.1.to_owned());
    if let Some(why) = done.lines.iter().find_map(skipped) {
        return Ok(Verdict::Skipped(why));
    }
    if done.success && !done.lines.iter().any(|line| line.contains("1 passed")) {
        return Err(format!("there is no test {}", test.name).into());
    }
    done.lines.push(format!("HAFT_STORE_TEST_SEED={seed}"));
    Ok(done.verdict())
}
