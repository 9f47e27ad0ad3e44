//! Extensions in shared objects: named by the user, judged before they run.

use std::path::{Path, PathBuf};

use haft_api::Extension;
use serde::Deserialize;

use crate::failure::{Failure, Outcome};

/// Whether a path names a shared object.
pub(crate) fn is_shared_object(path: &Path) -> bool {
    path.extension()
        .is_some_and(|ending| ["so", "dylib", "dll"].iter().any(|known| ending == *known))
}

/// A shared object that the user named: an entry `[[plugin]]` of the user's own
/// configuration, or `--ext`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PluginFile {
    /// Where it is; absolute.
    pub(crate) path: PathBuf,
    /// The digest that the file must have.
    pub(crate) sha256: Option<String>,
    /// What named it, for people.
    #[serde(skip, default = "PluginFile::by_configuration")]
    pub(crate) named_by: &'static str,
}

impl PluginFile {
    /// One that `--ext` names.
    pub(crate) fn by_flag(path: PathBuf) -> Self {
        Self {
            path,
            sha256: None,
            named_by: "--ext",
        }
    }

    fn by_configuration() -> &'static str {
        "the configuration's `[[plugin]]`"
    }
}

/// Loads shared objects; each may hold several extensions.
#[cfg(feature = "plugins")]
pub(crate) fn load(files: &[PluginFile]) -> Outcome<Vec<Box<dyn Extension>>> {
    let mut extensions: Vec<Box<dyn Extension>> = Vec::new();
    for file in files {
        let mut options = haft_plugin::LoadOptions::default();
        if let Some(digest) = &file.sha256 {
            options = options.sha256(digest);
        }
        let plugin = haft_plugin::load(&file.path, &options)
            .map_err(|refusal| Failure::usage(format!("{}: {refusal}", file.named_by)))?;
        for extension in plugin.into_extensions() {
            extensions.push(Box::new(extension));
        }
    }
    Ok(extensions)
}

/// This program loads none.
#[cfg(not(feature = "plugins"))]
pub(crate) fn load(files: &[PluginFile]) -> Outcome<Vec<Box<dyn Extension>>> {
    match files.first() {
        None => Ok(Vec::new()),
        Some(PluginFile {
            path,
            sha256: _,
            named_by,
        }) => Err(Failure::usage(format!(
            "{named_by}: {}: this program was built without plug-ins (feature `plugins`)",
            path.display()
        ))),
    }
}

/// What a file is, or why it wouldn't load, without running a line of it.
#[cfg(feature = "plugins")]
pub(crate) fn check(path: &Path) -> Outcome<Vec<String>> {
    let options = haft_plugin::CheckOptions::default();
    let info = haft_plugin::check_file(path, &options).map_err(Failure::usage)?;
    let (major, minor) = info.abi;
    Ok(vec![
        format!("file    {} ({} bytes)", info.file.display(), info.size),
        format!("abi     {major}.{minor}"),
        format!("api     {}", info.api_version),
        format!("build   {}", info.build_info),
        "would load".to_owned(),
    ])
}
