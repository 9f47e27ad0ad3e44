//! Feature sets of the facade: each links what it promises and nothing else.

use super::shop::{Shop, run};
use super::{Depth, Line, Verdict};
use crate::Result;
use crate::workspace::Workspace;

/// What builds C, or looks for a library in C.
const C_BUILDERS: [&str; 6] = [
    "autotools",
    "bindgen",
    "cc",
    "cmake",
    "nasm-rs",
    "pkg-config",
];

/// Crates whose names say that they bind a library of the system, and that are
/// Rust all the same.
const NO_C: [&str; 2] = ["linux-raw-sys", "windows-sys"];

pub(super) fn lines(workspace: &Workspace) -> Vec<Line> {
    let Some(facade) = workspace.packages.iter().find(|p| p.name == "haft") else {
        return Vec::new();
    };
    let mut lines = vec![
        Line::new(Depth::Quick, "features none", |shop| linked(shop, "")),
        Line::new(Depth::Quick, "features minimal", |shop| {
            linked(shop, "minimal")
        }),
        Line::new(Depth::Quick, "features minimal: no C", no_c),
        Line::new(Depth::Full, "skills in TypeScript", |shop| {
            let mut test = shop.cargo(&["test", "--package", "haft-ext-quickjs"]);
            test.args(["--features", "typescript"]);
            Ok(run(test)?.verdict())
        }),
        Line::new(Depth::Full, "credentials in a keyring", |shop| {
            let mut test = shop.cargo(&["test", "--package", "haft-ext-quickjs"]);
            test.args(["--features", "keyring", "--lib", "--test", "keyring"]);
            Ok(run(test)?.verdict())
        }),
    ];
    // `default` is what all other tests run with.
    let named = ["default", "minimal"];
    let alone = facade.features.iter().filter(|f| !named.contains(&&***f));
    for feature in alone {
        let feature = feature.clone();
        let name = format!("features {feature}");
        lines.push(Line::new(Depth::Full, name, move |shop| {
            linked(shop, &feature)
        }));
    }
    lines
}

/// The facade's own test that compares what is linked with what is promised; the
/// command, if it is among the features, builds.
fn linked(shop: &Shop, features: &str) -> Result<Verdict> {
    let mut test = shop.cargo(&["test", "--package", "haft", "--test", "linked"]);
    test.args(["--no-default-features", "--features", features]);
    Ok(run(test)?.verdict())
}

fn no_c(shop: &Shop) -> Result<Verdict> {
    let mut tree = shop.cargo(&["tree", "--package", "haft", "--no-default-features"]);
    tree.args(["--features", "minimal", "--edges", "no-dev"]);
    tree.args(["--prefix", "none", "--format", "{p}"]);
    let tree = run(tree)?.output()?;
    let found = c_code(&tree);
    Ok(match found.is_empty() {
        true => Verdict::Passed,
        false => Verdict::Failed(vec![format!("it builds C: {}", found.join(", "))]),
    })
}

/// The packages of a tree (`name version` a line) that build or bind C.
fn c_code(tree: &str) -> Vec<&str> {
    let names = tree.lines().filter_map(|line| line.split(' ').next());
    let mut found: Vec<_> = names
        .filter(|name| {
            C_BUILDERS.contains(name) || (name.ends_with("-sys") && !NO_C.contains(name))
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_builds_or_binds_c_is_found() {
        let tree = "haft v0.1.0 (/w/cli)\ncc v1.2.3\nlinux-raw-sys v0.1\nserde v1.0.0\n\
                    zstd-sys v2.0.0 (*)\ncc v1.2.3 (*)";
        assert_eq!(c_code(tree), ["cc", "zstd-sys"]);
        assert!(c_code("haft v0.1.0\nrustix v1.0.0").is_empty());
    }
}
