//! What cargo knows of this workspace.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::Result;

/// The workspace that the current folder belongs to.
pub(crate) struct Workspace {
    /// Its root folder.
    pub(crate) root: PathBuf,
    /// Where cargo puts what it builds.
    pub(crate) target: PathBuf,
    /// Its members, in the order of the root manifest.
    pub(crate) packages: Vec<Package>,
}

/// One member.
#[derive(Debug, Clone, Default)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) description: Option<String>,
    pub(crate) license: Option<String>,
    pub(crate) readme: Option<String>,
    /// Relative to the workspace's root, as are all paths below.
    pub(crate) manifest: String,
    pub(crate) dependencies: Vec<Dependency>,
    /// The names of its features, sorted.
    pub(crate) features: Vec<String>,
    /// False if it is never published.
    pub(crate) published: bool,
    /// The root files of its libraries and binaries.
    pub(crate) crate_roots: Vec<String>,
}

/// One dependency of a member, as its manifest states it.
#[derive(Debug, Clone)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// True if only tests, examples and benchmarks see it.
    pub(crate) dev: bool,
}

/// The cargo that runs this task, or the one on the path.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

impl Workspace {
    /// Asks cargo, without network and without touching the lock file.
    pub(crate) fn load() -> Result<Self> {
        let mut command = cargo();
        command.args(["metadata", "--no-deps", "--format-version=1"]);
        let output = command
            .output()
            .map_err(|e| format!("cannot run {command:?}: {e}"))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{command:?} failed:\n{}", text.trim_end()).into());
        }
        Self::from_metadata(&serde_json::from_slice(&output.stdout)?)
    }

    fn from_metadata(metadata: &Value) -> Result<Self> {
        let root = PathBuf::from(text(metadata, "workspace_root")?);
        let target = PathBuf::from(text(metadata, "target_directory")?);
        let packages = list(metadata, "packages")?
            .iter()
            .map(|package| Package::from_metadata(package, &root))
            .collect::<Result<_>>()?;
        Ok(Self {
            root,
            target,
            packages,
        })
    }
}

impl Package {
    fn from_metadata(package: &Value, root: &Path) -> Result<Self> {
        let optional = |key: &str| package[key].as_str().map(str::to_owned);
        let mut crate_roots = Vec::new();
        for target in list(package, "targets")? {
            let is = |kind: &str| {
                target["kind"]
                    .as_array()
                    .is_some_and(|k| k.contains(&kind.into()))
            };
            if ["lib", "proc-macro", "bin"].iter().any(|kind| is(kind)) {
                crate_roots.push(relative(root, text(target, "src_path")?));
            }
        }
        let dependencies = list(package, "dependencies")?
            .iter()
            .map(|dependency| {
                Ok(Dependency {
                    name: text(dependency, "name")?.to_owned(),
                    dev: dependency["kind"] == "dev",
                })
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            name: text(package, "name")?.to_owned(),
            version: text(package, "version")?.to_owned(),
            description: optional("description"),
            license: optional("license"),
            readme: optional("readme"),
            manifest: relative(root, text(package, "manifest_path")?),
            dependencies,
            features: package["features"]
                .as_object()
                .map(|features| features.keys().cloned().collect())
                .unwrap_or_default(),
            // No list is every registry, an empty one is none.
            published: package["publish"]
                .as_array()
                .is_none_or(|to| !to.is_empty()),
            crate_roots,
        })
    }

    /// The package's folder, relative to the root; empty if it is the root.
    pub(crate) fn folder(&self) -> &str {
        self.manifest
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder)
    }
}

/// A path below the root, with forward slashes.
pub(crate) fn relative(root: &Path, path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    let path = path.strip_prefix(root).unwrap_or(path);
    path.to_string_lossy().replace('\\', "/")
}

fn text<'v>(value: &'v Value, key: &str) -> Result<&'v str> {
    value[key]
        .as_str()
        .ok_or_else(|| format!("cargo metadata has no `{key}`").into())
}

fn list<'v>(value: &'v Value, key: &str) -> Result<&'v Vec<Value>> {
    value[key]
        .as_array()
        .ok_or_else(|| format!("cargo metadata has no `{key}`").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_from_cargo_metadata() {
        let metadata = serde_json::json!({
            "workspace_root": "/w",
            "target_directory": "/t",
            "packages": [{
                "name": "haft-core", "version": "1.2.3", "license": "MIT", "readme": "README.md",
                "description": null,
                "features": {"default": ["cli"], "cli": []},
                "publish": [],
                "manifest_path": "/w/core/Cargo.toml",
                "dependencies": [
                    {"name": "haft-api", "kind": null},
                    {"name": "haft-testkit", "kind": "dev"},
                    {"name": "cc", "kind": "build"},
                ],
                "targets": [
                    {"kind": ["lib"], "src_path": "/w/core/src/lib.rs"},
                    {"kind": ["test"], "src_path": "/w/core/tests/turns.rs"},
                    {"kind": ["bin"], "src_path": "/w/core/src/main.rs"},
                ],
            }],
        });
        let workspace = Workspace::from_metadata(&metadata).unwrap();
        let package = &workspace.packages[0];
        assert_eq!(workspace.root, Path::new("/w"));
        assert_eq!(
            (package.name.as_str(), package.version.as_str()),
            ("haft-core", "1.2.3")
        );
        assert_eq!(package.manifest, "core/Cargo.toml");
        assert_eq!(package.folder(), "core");
        assert_eq!(package.description, None);
        assert_eq!(package.features, ["cli", "default"]);
        assert!(!package.published);
        assert_eq!(package.readme.as_deref(), Some("README.md"));
        assert_eq!(package.crate_roots, ["core/src/lib.rs", "core/src/main.rs"]);
        let dependencies: Vec<_> = package
            .dependencies
            .iter()
            .map(|d| (d.name.as_str(), d.dev))
            .collect();
        assert_eq!(
            dependencies,
            [("haft-api", false), ("haft-testkit", true), ("cc", false)]
        );
    }

    #[test]
    fn a_missing_key_is_named() {
        let error = Workspace::from_metadata(&serde_json::json!({}))
            .err()
            .unwrap();
        assert!(error.to_string().contains("workspace_root"));
    }
}
