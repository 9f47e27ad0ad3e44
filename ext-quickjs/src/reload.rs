//! Notices that skills changed on disk.

use std::path::PathBuf;

use haft_script_host::{Watch, Watched};

use crate::config::Settings;
use crate::manifest;

const ENDINGS: &[&str] = &["js", "mjs", "ts", "mts", "cts", "json"];

/// Watches the folders of a host's skills, and tells of each that changed and is
/// a skill still.
///
/// # Errors
/// If the system can't watch.
pub(crate) fn watch(
    settings: &Settings,
    changed: impl Fn(PathBuf) + Send + 'static,
) -> Result<Watch, String> {
    let skills = settings.paths.iter().cloned();
    let watched = Watched::new(skills, settings.folders.iter().cloned(), ENDINGS);
    Watch::start(watched, "js-reload", move |folder| {
        if folder.join(manifest::FILE).is_file() {
            changed(folder);
        }
    })
}
