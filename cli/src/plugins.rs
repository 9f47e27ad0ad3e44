//! Extensions in shared objects: named by the user, judged before they run.

use std::path::{Path, PathBuf};

use haft_api::Extension;

use crate::failure::{Failure, Outcome};

/// Whether a path names a shared object.
pub(crate) fn is_shared_object(path: &Path) -> bool {
    path.extension()
        .is_some_and(|ending| ["so", "dylib", "dll"].iter().any(|known| ending == *known))
}

/// Loads shared objects; each may hold several extensions.
#[cfg(feature = "plugins")]
pub(crate) fn load(paths: &[PathBuf]) -> Outcome<Vec<Box<dyn Extension>>> {
    let mut extensions: Vec<Box<dyn Extension>> = Vec::new();
    for path in paths {
        let plugin = haft_plugin::load(path, &haft_plugin::LoadOptions::default())
            .map_err(|refusal| Failure::usage(format!("--ext: {refusal}")))?;
        for extension in plugin.into_extensions() {
            extensions.push(Box::new(extension));
        }
    }
    Ok(extensions)
}

/// This program loads none.
#[cfg(not(feature = "plugins"))]
pub(crate) fn load(paths: &[PathBuf]) -> Outcome<Vec<Box<dyn Extension>>> {
    match paths.first() {
        None => Ok(Vec::new()),
        Some(path) => Err(Failure::usage(format!(
            "--ext {}: this program was built without plug-ins (feature `plugins`)",
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
