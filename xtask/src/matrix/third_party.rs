//! A third party's world: the examples and a fresh scaffold, on the crates as
//! they would be published.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::shop::{Done, Shop, has, run};
use super::{Depth, Line, Verdict};
use crate::Result;
use crate::dylib;
use crate::workspace::{Workspace, cargo};

/// An arbitrary name for the scaffold.
const SCAFFOLD: &str = "greet-people";

pub(super) fn lines(workspace: &Workspace) -> Vec<Line> {
    if !workspace.root.join("examples/extension-crate").is_dir() {
        return Vec::new();
    }
    vec![
        Line::new(
            Depth::Quick,
            "third party: extension-crate linked",
            |shop| {
                Ok(Example::copy(shop, "extension-crate")?
                    .cargo(&["test"])?
                    .verdict())
            },
        ),
        Line::new(Depth::Quick, "third party: extension-crate dylib", |shop| {
            let example = Example::copy(shop, "extension-crate")?;
            let object = example.object("extension-crate")?;
            super::extensions::conform(shop, "extension-crate", Some(&object))
        }),
        Line::new(Depth::Quick, "third party: downstream-binary", |shop| {
            Ok(Example::copy(shop, "downstream-binary")?
                .cargo(&["test"])?
                .verdict())
        }),
        Line::new(Depth::Quick, "third party: c-plugin", c_plugin),
        Line::new(Depth::Quick, "third party: haft ext new --rust", scaffold),
    ]
}

/// A package of somebody else's, outside of the workspace.
struct Example<'s> {
    shop: &'s Shop,
    folder: PathBuf,
    /// Puts our packaged crates in the registry's place.
    patches: Vec<String>,
}

impl<'s> Example<'s> {
    /// A copy of an example, so that nothing of the repository is in its reach
    /// and its lock file stays as it is.
    fn copy(shop: &'s Shop, name: &str) -> Result<Self> {
        let place = shop.folder("examples")?;
        // One may depend on another.
        let from = shop.workspace.root.join("examples");
        for example in ["extension-crate", "downstream-binary"] {
            copy_folder(&from.join(example), &place.join(example))?;
        }
        let folder = place.join(name);
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml"))?;
        let manifest: toml::Table = toml::from_str(&manifest)?;
        let patched = manifest
            .get("patch")
            .and_then(|patch| patch.get("crates-io"))
            .and_then(toml::Value::as_table)
            .ok_or("the example doesn't say which crates are ours")?;
        let patched: Vec<_> = patched.keys().cloned().collect();
        Self::new(shop, folder, &patched)
    }

    fn new(shop: &'s Shop, folder: PathBuf, patched: &[String]) -> Result<Self> {
        let patches = shop.patches(patched)?;
        Ok(Self {
            shop,
            folder,
            patches,
        })
    }

    /// Puts a command into the example's folder. External crates come from
    /// where the workspace's came from: from this machine, if all are there.
    fn equip(&self, command: &mut Command) {
        let target = &self.shop.workspace.target;
        command
            .args(&self.patches)
            .current_dir(&self.folder)
            .env("CARGO_TARGET_DIR", target);
    }

    /// Runs cargo in it.
    fn cargo(&self, arguments: &[&str]) -> Result<Done> {
        let run_it = |offline: bool| {
            let mut command = cargo();
            command.args(arguments);
            self.equip(&mut command);
            if offline {
                command.arg("--offline");
            }
            run(command)
        };
        // What is missing is told before anything is built.
        let done = run_it(true)?;
        let offline = |line: &String| line.contains("offline");
        match done.lines.iter().any(offline) && !done.success {
            true => run_it(false),
            false => Ok(done),
        }
    }

    /// The package as a shared object.
    fn object(&self, package: &str) -> Result<PathBuf> {
        let options = dylib::Options {
            package: package.to_owned(),
            out: Some(self.folder.join("plugins")),
            profile: "dev".to_owned(),
            manifest: None,
            features: None,
        };
        let mut build = dylib::build_command(&options);
        self.equip(&mut build);
        dylib::kept(&options, &run(build)?.output()?)
    }

    /// Judges a shared object by the stock command, and calls a tool of it.
    fn serves(&self, object: &Path, tool: &str, arguments: &str, expected: &str) -> Result<()> {
        serves(self.shop, &self.folder, object, tool, arguments, expected)
    }
}

fn serves(
    shop: &Shop,
    place: &Path,
    object: &Path,
    tool: &str,
    arguments: &str,
    expected: &str,
) -> Result<()> {
    let haft = shop.haft()?;
    let mut check = shop.command(&haft, place);
    check.args(["ext", "check"]).arg(object);
    let checked = run(check)?.output()?;
    if !checked.contains("would load") {
        return Err(checked.into());
    }
    let mut call = shop.command(&haft, place);
    call.args(["tools", "call", tool, arguments, "--ext"])
        .arg(object);
    let said = run(call)?.output()?;
    // What it printed on its way comes before.
    match said.lines().last() == Some(expected) {
        true => Ok(()),
        false => Err(format!("{tool} said {said:?} in place of {expected:?}").into()),
    }
}

fn c_plugin(shop: &Shop) -> Result<Verdict> {
    if !has("make", &["--version"]) || !has("cc", &["--version"]) {
        return Ok(Verdict::Skipped("no make, or no C compiler".to_owned()));
    }
    let place = shop.folder("c-plugin")?;
    copy_folder(&shop.workspace.root.join("examples/c-plugin"), &place)?;
    let packaged = shop.packaged()?;
    let api = packaged.get("haft-api").ok_or("haft-api isn't packaged")?;
    let mut make = Command::new("make");
    make.arg(format!("HAFT_INCLUDE={}", api.join("include").display()))
        .current_dir(&place);
    run(make)?.output()?;
    let object = place.join("librot13.so");
    serves(shop, &place, &object, "rot13", r#"{"text":"Haft"}"#, "Unsg")?;
    Ok(Verdict::Passed)
}

/// What `haft ext new --rust` makes builds, passes its tests, loads and serves.
fn scaffold(shop: &Shop) -> Result<Verdict> {
    let place = shop.folder("scaffold")?;
    let mut new = shop.command(&shop.haft()?, &place);
    new.args(["ext", "new", "--rust", SCAFFOLD]);
    run(new)?.output()?;
    let ours = ["haft-api", "haft-testkit"].map(str::to_owned);
    let example = Example::new(shop, place.join(SCAFFOLD), &ours)?;
    let tested = example.cargo(&["test"])?;
    if !tested.success {
        return Ok(tested.verdict());
    }
    let object = example.object(SCAFFOLD)?;
    let tool = SCAFFOLD.replace('-', "_");
    example.serves(&object, &tool, r#"{"who":"world"}"#, "Hello, world!")?;
    Ok(Verdict::Passed)
}

/// Copies a folder, but for what was built in it.
fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    let at = |path: &Path, e: std::io::Error| format!("{}: {e}", path.display());
    std::fs::create_dir_all(to).map_err(|e| at(to, e))?;
    for entry in std::fs::read_dir(from).map_err(|e| at(from, e))? {
        let entry = entry.map_err(|e| at(from, e))?;
        let (source, copy) = (entry.path(), to.join(entry.file_name()));
        if entry.file_name() == "target" {
            continue;
        }
        if source.is_dir() {
            copy_folder(&source, &copy)?;
        } else {
            std::fs::copy(&source, &copy).map_err(|e| at(&source, e))?;
        }
    }
    Ok(())
}
