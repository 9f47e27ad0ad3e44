//! Every extension crate of the workspace: the test kit's suites on its parts,
//! linked and through its own shared object.

use std::path::Path;

use super::shop::{Shop, run};
use super::{Depth, Line, Verdict};
use crate::Result;
use crate::workspace::Workspace;

/// The package with the program that runs the suites.
const TESTS: &str = "haft-tests";
const PROGRAM: &str = "conform";

/// The extension crates, in the workspace's order.
pub(super) fn packages(workspace: &Workspace) -> impl Iterator<Item = String> {
    let names = workspace.packages.iter().map(|package| &package.name);
    names.filter(|name| name.starts_with("haft-ext-")).cloned()
}

pub(super) fn lines(workspace: &Workspace) -> Vec<Line> {
    if !workspace.packages.iter().any(|p| p.name == TESTS) {
        return Vec::new();
    }
    let mut lines = Vec::new();
    for package in packages(workspace) {
        let linked = package.clone();
        let name = format!("conformance {package} linked");
        lines.push(Line::new(Depth::Quick, name, move |shop| {
            conform(shop, &linked, None)
        }));
        for (depth, profile) in [(Depth::Quick, "dev"), (Depth::Full, "release")] {
            let package = package.clone();
            let name = format!("conformance {package} dylib ({profile})");
            lines.push(Line::new(depth, name, move |shop| {
                let object = shop.object(&package, profile)?;
                conform(shop, &package, Some(&object))
            }));
        }
    }
    lines
}

/// Runs the suites for a package.
pub(super) fn conform(shop: &Shop, package: &str, object: Option<&Path>) -> Result<Verdict> {
    let mut command = shop.cargo(&["run", "--quiet", "--package", TESTS, "--bin", PROGRAM]);
    command.args(["--", package]);
    if let Some(object) = object {
        command.arg("--object").arg(object);
    }
    Ok(run(command)?.verdict())
}
