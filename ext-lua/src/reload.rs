//! Notices that scripts changed on disk.

use std::path::PathBuf;

use haft_script_host::{Watch, Watched};

use crate::config::Settings;
use crate::script::Place;

/// Watches the places of a host's extensions, and tells of each that changed and
/// is an extension still.
///
/// # Errors
/// If the system can't watch.
pub(crate) fn watch(
    settings: &Settings,
    reload: impl Fn(PathBuf) + Send + 'static,
) -> Result<Watch, String> {
    let places = settings
        .paths
        .iter()
        .map(|path| Place::of(path).map_or_else(|_| path.clone(), |place| place.own));
    let watched = Watched::new(places, settings.folders.iter().cloned(), &["lua"]);
    Watch::start(watched, "haft-lua-reload", move |extension| {
        if Place::of(&extension).is_ok() {
            reload(extension);
        }
    })
}
