//! The binary under test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Names the binary where it is built already, with all features and the profile
/// of the tests.
const BUILT: &str = "HAFT_TEST_PROGRAM";

/// The binary's path: what `HAFT_TEST_PROGRAM` says, as `cargo xtask test` does,
/// else built with the profile and into the folder of the test that asks. Cargo
/// can't be told that one package's tests need another's binary, so it is asked
/// here; when nothing has changed that takes a moment, but features of shared
/// dependencies differ from those of a whole workspace's build.
///
/// # Panics
/// If it can't be built.
pub fn haft() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(built) = std::env::var_os(BUILT) {
            return built.into();
        }
        // <target>/<profile>/deps/<test>
        let test = std::env::current_exe().expect("the test's own path");
        let profile = test.ancestors().nth(2).expect("a profile's folder");
        let target = profile.parent().expect("a target folder");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args([
            "build",
            "--quiet",
            "--package",
            "haft",
            "--bin",
            "haft",
            "--features",
            "full",
            "--target-dir",
        ]);
        build.arg(target).current_dir(env!("CARGO_MANIFEST_DIR"));
        // They are this test's, and some build scripts run again when they change.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                build.env_remove(&name);
            }
        }
        if profile.ends_with("release") {
            build.arg("--release");
        }
        let built = build.status().expect("cargo");
        assert!(built.success(), "the binary can't be built");
        profile.join(format!("haft{}", std::env::consts::EXE_SUFFIX))
    })
}
