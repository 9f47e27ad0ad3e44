//! The crates as they would be published.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use super::shop::{Shop, run};
use super::{Depth, Line, Verdict};
use crate::Result;
use crate::workspace::Workspace;

pub(super) fn lines(workspace: &Workspace) -> Vec<Line> {
    let ours = workspace.packages.iter().any(|p| p.name == "haft");
    let line = Line::new(Depth::Quick, "packages", |shop| {
        shop.packaged()?;
        Ok(Verdict::Passed)
    });
    ours.then_some(line).into_iter().collect()
}

/// Packages every crate that is published, and unpacks it: only what is in the
/// package is there then.
pub(super) fn unpack(shop: &Shop) -> Result<BTreeMap<String, PathBuf>> {
    let packages = || shop.workspace.packages.iter().filter(|p| p.published);
    let folder = shop.folder("packages")?;
    let mut package = shop.cargo(&["package", "--no-verify", "--allow-dirty", "--quiet"]);
    package.arg("--target-dir").arg(&folder);
    for member in packages() {
        package.args(["--package", &member.name]);
    }
    run(package)?.output()?;
    let mut unpacked = BTreeMap::new();
    for member in packages() {
        let name = format!("{}-{}", member.name, member.version);
        let mut tar = Command::new("tar");
        // As of now: all packages have one date, by which cargo would take a
        // changed one for the last that was built here.
        tar.arg("-xzmf").arg(format!("package/{name}.crate"));
        tar.current_dir(&folder);
        run(tar)?.output()?;
        unpacked.insert(member.name.clone(), folder.join(name));
    }
    Ok(unpacked)
}
