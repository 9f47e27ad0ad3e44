//! The suite that every runner keeps, over local sessions of every kind.
#![cfg(unix)]

mod support;

use std::sync::Arc;

use haft_ext_runner_local::LocalRunner;
use haft_testkit::RunnerFixture;
use support::{Mode, binding, config};

fn fixture(mode: Mode) -> RunnerFixture {
    let folder = tempfile::tempdir().unwrap();
    let binding = binding(&folder.path().canonicalize().unwrap(), &[]);
    let runner = LocalRunner::new(config(mode)).unwrap();
    RunnerFixture::new(Arc::new(runner), binding).keeping(folder)
}

mod confined {
    haft_testkit::runner_conformance!(|| crate::fixture(crate::Mode::Confined));
}

mod filtered {
    haft_testkit::runner_conformance!(|| crate::fixture(crate::Mode::Filtered));
}

mod supervised {
    haft_testkit::runner_conformance!(|| crate::fixture(crate::Mode::Supervised));
}

mod grouped {
    haft_testkit::runner_conformance!(|| crate::fixture(crate::Mode::Grouped));
}
