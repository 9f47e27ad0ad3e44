//! The runner suite passes on an honest runner.

use haft_testkit::{MemoryRunner, RunnerFixture};

fn fixture(runner: MemoryRunner) -> RunnerFixture {
    let binding = runner.binding("conformance");
    RunnerFixture::new(runner.shared(), binding).commands(MemoryRunner::probe_command)
}

haft_testkit::runner_conformance!(|| fixture(MemoryRunner::new()));

/// What isn't claimed isn't asked for.
mod with_files_only {
    use haft_api::RunnerCapabilities;

    use super::*;

    haft_testkit::runner_conformance!(|| {
        let runner = MemoryRunner::new();
        fixture(runner.with_capabilities(|can| *can = RunnerCapabilities::default()))
    });
}
