//! `manifest.json`: what a skill says of itself.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::grants::Grants;

/// The file that makes a folder a skill.
pub(crate) const FILE: &str = "manifest.json";

/// What a skill says of itself. Fields that aren't known are left alone.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct SkillManifest {
    /// Its id: the folder's name; letters, digits, `-` and `_`.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// `quickjs`; `javascript` and `v8` mean the same.
    pub runtime: String,
    /// The script, below the folder.
    #[serde(default = "entry")]
    pub entry: String,
    /// Most memory of its runtime, in MiB.
    #[serde(default = "memory")]
    pub memory_limit_mb: usize,
    /// Whether it starts with the host.
    #[serde(default)]
    pub auto_start: bool,
    /// Its version.
    #[serde(default)]
    pub version: Option<String>,
    /// What it does.
    #[serde(default)]
    pub description: Option<String>,
    /// How it is set up: `{required, label, …}`, for user interfaces.
    #[serde(default)]
    pub setup: Option<Box<RawValue>>,
    /// Systems it runs on (`linux`, `macos`, `windows`); empty is all.
    #[serde(default)]
    pub platforms: Vec<String>,
    /// How long a call of its tools may take, in milliseconds.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// What it asks to reach.
    #[serde(default)]
    pub grants: Grants,
}

fn entry() -> String {
    "index.js".to_owned()
}

fn memory() -> usize {
    64
}

impl SkillManifest {
    /// Whether it runs on this system.
    pub fn fits_platform(&self) -> bool {
        self.platforms.is_empty()
            || self
                .platforms
                .iter()
                .any(|name| name.eq_ignore_ascii_case(std::env::consts::OS))
    }
}

/// A skill on disk.
#[derive(Debug, Clone)]
pub(crate) struct Package {
    pub(crate) manifest: SkillManifest,
    /// Without links.
    pub(crate) folder: PathBuf,
    /// Without links, below the folder.
    pub(crate) entry: PathBuf,
}

/// Reads a skill's folder.
///
/// # Errors
/// What is wrong with it, and in which file.
pub(crate) fn read(folder: &Path) -> Result<Package, String> {
    let path = folder.join(FILE);
    let at = |words: String| format!("{}: {words}", path.display());
    let text = std::fs::read_to_string(&path).map_err(|e| at(e.to_string()))?;
    let manifest: SkillManifest = serde_json::from_str(&text).map_err(|e| at(e.to_string()))?;
    let folder = folder.canonicalize().map_err(|e| at(e.to_string()))?;
    check(&manifest, &folder).map_err(at)?;
    let entry = folder.join(&manifest.entry);
    let entry = entry
        .canonicalize()
        .map_err(|e| at(format!("the entry `{}`: {e}", manifest.entry)))?;
    if !entry.starts_with(&folder) {
        return Err(at(format!(
            "the entry `{}` leads out of the skill's folder",
            manifest.entry
        )));
    }
    Ok(Package {
        manifest,
        folder,
        entry,
    })
}

fn check(manifest: &SkillManifest, folder: &Path) -> Result<(), String> {
    let id = &manifest.id;
    let plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_');
    if id.is_empty() || id.len() > 64 || !id.bytes().all(plain) || id.contains("__") {
        return Err(format!(
            "`{id}` is no skill's id (1 to 64 letters, digits, `-` and single `_`)"
        ));
    }
    if folder.file_name().is_none_or(|name| name != id.as_str()) {
        return Err(format!(
            "the id `{id}` isn't the folder's name, `{}`",
            folder.file_name().unwrap_or_default().display()
        ));
    }
    if manifest.name.trim().is_empty() {
        return Err("field `name` is empty".to_owned());
    }
    if !["quickjs", "javascript", "v8"].contains(&&*manifest.runtime) {
        return Err(format!(
            "the runtime `{}` isn't here (`quickjs`, `javascript` and `v8` are)",
            manifest.runtime
        ));
    }
    if manifest.memory_limit_mb == 0 {
        return Err("field `memory_limit_mb` must be at least 1".to_owned());
    }
    Ok(())
}

/// The folders of skills within a folder, by name.
pub(crate) fn within(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut folders: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join(FILE).is_file())
        .collect();
    folders.sort();
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(folder: &str, manifest: &str) -> Result<Package, String> {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join(folder);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join(FILE), manifest).unwrap();
        std::fs::write(folder.join("index.js"), "").unwrap();
        std::fs::write(root.path().join("outside.js"), "").unwrap();
        read(&folder)
    }

    #[test]
    fn defaults_are_as_documented() {
        let package = package("a", r#"{"id":"a","name":"A","runtime":"v8","more":1}"#).unwrap();
        let manifest = package.manifest;
        assert_eq!(
            (&*manifest.entry, manifest.memory_limit_mb),
            ("index.js", 64)
        );
        assert!(!manifest.auto_start && manifest.fits_platform());
        assert!(package.entry.ends_with("a/index.js"));
    }

    #[test]
    fn what_is_wrong_is_named_with_the_file() {
        for (folder, manifest, words) in [
            ("a", "{", "EOF"),
            ("a", r#"{"id":"a","name":"A"}"#, "runtime"),
            ("a", r#"{"id":"a","name":"A","runtime":"deno"}"#, "`deno`"),
            (
                "a",
                r#"{"id":"b","name":"A","runtime":"quickjs"}"#,
                "isn't the folder's name",
            ),
            (
                "a",
                r#"{"id":"../a","name":"A","runtime":"quickjs"}"#,
                "no skill's id",
            ),
            (
                "a__b",
                r#"{"id":"a__b","name":"A","runtime":"quickjs"}"#,
                "no skill's id",
            ),
            (
                "a",
                r#"{"id":"a","name":" ","runtime":"quickjs"}"#,
                "`name` is empty",
            ),
            (
                "a",
                r#"{"id":"a","name":"A","runtime":"quickjs","entry":"../outside.js"}"#,
                "leads out",
            ),
            (
                "a",
                r#"{"id":"a","name":"A","runtime":"quickjs","entry":"missing.js"}"#,
                "`missing.js`",
            ),
        ] {
            let error = package(folder, manifest).unwrap_err();
            assert!(error.contains(words) && error.contains(FILE), "{error}");
        }
    }
}
