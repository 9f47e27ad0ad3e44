//! The real binary on small workspaces.
#![cfg(unix)]

use std::path::Path;
use std::process::Command;

const ROOT: &str = r#"
[workspace]
resolver = "3"
members = ["local", "openai"]
[workspace.package]
version = "0.1.0"
edition = "2024"
license = "MIT OR Apache-2.0"
[workspace.dependencies]
haft-ext-engine-openai = { path = "openai", version = "0.1.0" }
[workspace.lints.rust]
missing_docs = "deny"
"#;

const PACKAGE: &str = r#"
description = "A sample"
version.workspace = true
edition.workspace = true
license.workspace = true
[lints]
workspace = true
"#;

const OPENAI: &str = r#"//! A sample.
#![forbid(unsafe_code)]

/// Three.
///
/// ```
/// assert_eq!(haft_ext_engine_openai::three(), 3);
/// ```
pub fn three() -> u8 {
    3
}
"#;

const LOCAL: &str = r#"//! A sample.

#[cfg(test)]
mod tests {
    #[test]
    fn good() {
        println!("all is well");
    }

    #[test]
    fn not_here() {
        println!("skipped: no server here");
    }
}
"#;

/// A healthy workspace of two packages.
struct Sample(tempfile::TempDir);

impl Sample {
    fn new() -> Self {
        let sample = Self(tempfile::tempdir().unwrap());
        let package = |name: &str| format!("[package]\nname = \"haft-ext-engine-{name}\"{PACKAGE}");
        sample.write("Cargo.toml", ROOT);
        sample.write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n");
        sample.write("openai/Cargo.toml", &package("openai"));
        sample.write("openai/README.md", "# A sample\n");
        sample.write("openai/src/lib.rs", OPENAI);
        let dependency = "[dependencies]\nhaft-ext-engine-openai.workspace = true\n";
        sample.write("local/Cargo.toml", &(package("local") + dependency));
        sample.write("local/README.md", "# A sample\n");
        sample.write("local/src/lib.rs", LOCAL);
        sample
    }

    fn write(&self, path: impl AsRef<Path>, text: &str) {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// The exit status and what it printed.
    fn xtask(&self, arguments: &[&str]) -> (i32, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(arguments)
            .current_dir(self.0.path())
            .env("CARGO_TARGET_DIR", self.0.path().join("target"))
            .output()
            .unwrap();
        let mut text = String::from_utf8(output.stdout).unwrap();
        text += &String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), text)
    }
}

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or_default()
}

#[test]
fn test_runs_every_step_and_ends_in_the_summary() {
    let sample = Sample::new();
    let (status, text) = sample.xtask(&["test"]);
    assert_eq!(last_line(&text), "2 passed, 0 failed, 1 skipped", "{text}");
    assert_eq!(status, 0);
    for step in ["fmt", "tidy", "build", "clippy", "doc", "test", "matrix"] {
        assert!(text.contains(&format!("== {step}: ")), "{step}\n{text}");
    }
    assert!(text.contains("tests::not_here: no server here"), "{text}");
    assert!(!text.contains("all is well"), "{text}");

    // Each step finds its own kind of fault, and the ones after it run.
    let good = r#"println!("all is well");"#;
    let bad = r#"panic!("all is lost");"#;
    let unformatted = "\n/// See [`nothing`].\npub fn   f() { let x = 1; return; }\n";
    sample.write(
        "local/src/lib.rs",
        &(LOCAL.replace(good, bad) + unformatted),
    );
    sample.write("CHANGELOG.md", "");
    sample.write(
        "local/tests/crash.rs",
        "//! A sample.\n\n#[test]\nfn f() {\n    std::process::abort();\n}\n",
    );
    let (status, text) = sample.xtask(&["test"]);
    assert_eq!(last_line(&text), "1 passed, 6 failed, 1 skipped", "{text}");
    assert_eq!(status, 1);
    for expected in [
        "\n   fmt\n   tidy: 1 findings\n   clippy\n   doc\n",
        "\n   haft_ext_engine_local src/lib.rs: tests::good\n",
        "\n   tests/crash.rs: (ended without a result)\n",
        "all is lost",
        "no section `## Unreleased`",
        "unresolved link to `nothing`",
        "unneeded `return` statement",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }

    // What needs a build is left out without one.
    sample.write(
        "openai/src/lib.rs",
        "//! A sample.\n\n/// Three.\npub fn three() -> u8 {}\n",
    );
    let (status, text) = sample.xtask(&["test", "--skip", "fmt", "--skip", "tidy"]);
    assert_eq!(last_line(&text), "0 passed, 1 failed, 4 skipped", "{text}");
    assert_eq!(status, 1);
    assert!(
        text.contains("mismatched types") && text.contains("test: the build broke"),
        "{text}"
    );

    // Without the step that builds, the tests' own step tells.
    let (status, text) = sample.xtask(&["test", "--only", "test"]);
    assert_eq!(last_line(&text), "0 passed, 1 failed, 0 skipped", "{text}");
    assert_eq!(status, 1);
    assert!(text.contains("mismatched types"), "{text}");
}

#[test]
fn tidy_prints_a_line_a_finding() {
    let sample = Sample::new();
    assert_eq!(sample.xtask(&["tidy"]), (0, String::new()));

    sample.write("local/src/lib.rs", "fn main() {\n    todo!()\n}\n");
    sample.write("local/src/long.rs", &"fn f() {}\n".repeat(501));
    sample.write("local/tests/slow.rs", "#[test]\n#[ignore]\nfn f() {}\n");
    sample.write(
        "local/README.md",
        "```sh\ncargo xtask nothing\nhaft nothing\n```\nin /tmp/here\n",
    );
    sample.write(
        "openai/Cargo.toml",
        "[package]\nname = \"haft-ext-engine-openai\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
         [dev-dependencies]\nhaft-ext-engine-local = { path = \"../local\" }\n",
    );
    sample.write("openai/src/broken.rs", "fn (\n");
    sample.write("CHANGELOG.md", "# Changelog\n");
    let (status, text) = sample.xtask(&["tidy"]);
    assert_eq!(status, 1);
    let heads: Vec<_> = text
        .lines()
        .map(|line| line.split_once(": ").unwrap().0)
        .collect();
    let expected = [
        "CHANGELOG.md:1",
        "local/README.md:2",
        "local/README.md:3",
        "local/README.md:5",
        "local/src/lib.rs:1",
        "local/src/lib.rs:2",
        "local/src/long.rs:1",
        "local/tests/slow.rs:2",
        "openai/Cargo.toml:1",
        "openai/Cargo.toml:1",
        "openai/Cargo.toml:1",
        "openai/Cargo.toml:4",
        "openai/Cargo.toml:6",
        "openai/Cargo.toml:6",
        "openai/src/broken.rs:1",
    ];
    assert_eq!(heads, expected, "{text}");
}

#[test]
fn a_wrong_command_line_is_explained() {
    let sample = Sample::new();
    let check = |arguments: &[&str], expected: &str| {
        let (status, text) = sample.xtask(arguments);
        assert_eq!(status, 2, "{text}");
        assert!(
            text.starts_with("error: ") && text.contains(expected),
            "{text}"
        );
    };
    check(&[], "which task?");
    check(&["deploy"], "no task is called `deploy`");
    check(&["test", "--only", "clipy"], "no step is called `clipy`");
    check(&["tidy", "--fast"], "--fast");
    sample.write("Cargo.toml", "[workspace");
    check(&["tidy"], "unclosed table");
}
