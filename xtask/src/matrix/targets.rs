//! Other systems: what is said to compile there does. Nothing runs, and no
//! compiler for C is needed.

use std::path::Path;
use std::process::Command;

use super::shop::{Shop, run};
use super::{Depth, Line, Verdict};
use crate::Result;
use crate::workspace::Workspace;

/// A system, how its compiler's target is called, and what is for it.
struct System {
    name: &'static str,
    target: &'static str,
    packages: &'static [&'static str],
    features: &'static [&'static str],
}

const SYSTEMS: [System; 2] = [
    System {
        name: "macOS",
        target: "aarch64-apple-darwin",
        packages: &["haft"],
        features: &["--no-default-features", "--features", "minimal,runner-ssh"],
    },
    // The JSONL store holds on to folders as only Unix can.
    System {
        name: "Windows",
        target: "x86_64-pc-windows-gnu",
        packages: &[
            "haft-core",
            "haft-plugin",
            "haft-ext-engine-replay",
            "haft-ext-runner-local",
            "haft-ext-tools-coding",
        ],
        features: &[],
    },
];

pub(super) fn lines(workspace: &Workspace) -> Vec<Line> {
    let ours = |name: &&str| workspace.packages.iter().any(|p| p.name == **name);
    let systems = SYSTEMS.iter().filter(|s| s.packages.iter().all(&ours));
    let line = |system: &'static System| {
        let name = format!("compiles for {}", system.name);
        Line::new(Depth::Full, name, move |shop| check(shop, system))
    };
    systems.map(line).collect()
}

fn check(shop: &Shop, system: &System) -> Result<Verdict> {
    if !is_installed(system.target)? {
        let why = format!("no standard library: `rustup target add {}`", system.target);
        return Ok(Verdict::Skipped(why));
    }
    let mut check = shop.cargo(&["check", "--target", system.target]);
    for package in system.packages {
        check.args(["--package", package]);
    }
    check.args(system.features).env("RUSTFLAGS", "-Dwarnings");
    Ok(run(check)?.verdict())
}

/// Whether the compiler has the target's standard library.
fn is_installed(target: &str) -> Result<bool> {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let asked = ["--print", "target-libdir", "--target", target];
    let output = Command::new(compiler).args(asked).output()?;
    let folder = String::from_utf8(output.stdout)?;
    Ok(output.status.success() && Path::new(folder.trim()).is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_system_has_a_line() {
        let mut workspace = Workspace::load().unwrap();
        assert_eq!(lines(&workspace).len(), SYSTEMS.len());
        workspace
            .packages
            .retain(|package| package.name != "haft-core");
        assert_eq!(lines(&workspace).len(), SYSTEMS.len() - 1);
    }

    #[test]
    fn only_targets_that_are_there_count() {
        assert!(!is_installed("no-such-target").unwrap());
    }
}
