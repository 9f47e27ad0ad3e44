//! The fuzz targets, each for a while.

use super::shop::{Shop, has, run};
use super::{Depth, Line, Verdict};
use crate::Result;
use crate::workspace::Workspace;

/// How long a target runs, in seconds.
const SECONDS: u32 = 60;

/// The streams made by hand, which every target begins with.
const SEEDS: &str = "tests/streams";

pub(super) fn lines(workspace: &Workspace) -> Vec<Line> {
    let line = |target: String| {
        let name = format!("fuzz {target}, a minute");
        Line::new(Depth::Full, name, move |shop| fuzz(shop, &target))
    };
    targets(workspace).into_iter().map(line).collect()
}

/// The targets, by their files.
fn targets(workspace: &Workspace) -> Vec<String> {
    let folder = workspace.root.join("fuzz/fuzz_targets");
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut targets: Vec<String> = files
        .filter_map(|file| {
            let name = file.file_name().into_string().ok()?;
            name.strip_suffix(".rs").map(str::to_owned)
        })
        .collect();
    targets.sort_unstable();
    targets
}

fn fuzz(shop: &Shop, target: &str) -> Result<Verdict> {
    if !has("cargo", &["+nightly", "--version"]) {
        let why = "no nightly toolchain: `rustup toolchain install nightly`";
        return Ok(Verdict::Skipped(why.to_owned()));
    }
    if !has("cargo", &["+nightly", "fuzz", "--version"]) {
        let why = "no cargo-fuzz: `cargo install cargo-fuzz --locked`";
        return Ok(Verdict::Skipped(why.to_owned()));
    }
    // What is found stays here; the project's own streams stay as they are.
    let place = shop.folder(&format!("fuzz-{target}"))?;
    let corpus = place.join("corpus");
    std::fs::create_dir(&corpus)?;
    let mut command = shop.nightly(&["fuzz", "run", target], "fuzz");
    command
        .arg(&corpus)
        .arg(shop.workspace.root.join(SEEDS))
        .args(["--", &format!("-max_total_time={SECONDS}")])
        .arg(format!("-artifact_prefix={}/", place.display()));
    Ok(run(command)?.verdict())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_a_line() {
        let mut workspace = Workspace::load().unwrap();
        let manifest = std::fs::read_to_string(workspace.root.join("fuzz/Cargo.toml")).unwrap();
        let manifest: toml::Table = toml::from_str(&manifest).unwrap();
        let programs = manifest["bin"].as_array().unwrap().iter();
        let mut named: Vec<_> = programs.map(|bin| bin["name"].as_str().unwrap()).collect();
        named.sort_unstable();
        assert_eq!(targets(&workspace), named);
        assert_eq!(lines(&workspace).len(), named.len());
        workspace.root.push("nowhere");
        assert_eq!(targets(&workspace), [""; 0]);
    }
}
