//! Notices that scripts changed on disk.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

use crate::config::Settings;
use crate::script::Place;

/// How long changes are gathered: an editor writes a file in several steps.
const GATHER: Duration = Duration::from_millis(100);

/// Watches the places of a host's extensions while it lives.
pub(crate) struct Watch {
    _watcher: RecommendedWatcher,
}

/// What is watched, and what a change in it means.
struct Watched {
    /// Single extensions.
    places: Vec<PathBuf>,
    /// Folders of extensions.
    folders: Vec<PathBuf>,
}

impl Watched {
    /// The extension that a changed file belongs to.
    fn extension(&self, changed: &Path) -> Option<PathBuf> {
        if changed.extension().is_none_or(|ending| ending != "lua") {
            return None;
        }
        let single = self.places.iter().find(|place| changed.starts_with(place));
        if let Some(place) = single {
            return Some(place.clone());
        }
        self.folders.iter().find_map(|folder| {
            let inner = changed.strip_prefix(folder).ok()?;
            Some(folder.join(inner.components().next()?))
        })
    }
}

impl Watch {
    /// Starts to watch. The thread that gathers changes sleeps until there are
    /// some, and ends with the watch.
    ///
    /// # Errors
    /// If the system can't watch.
    pub(crate) fn start(
        settings: &Settings,
        reload: impl Fn(PathBuf) + Send + 'static,
    ) -> Result<Self, String> {
        let real = |paths: &[PathBuf]| -> Vec<PathBuf> {
            paths.iter().filter_map(|p| p.canonicalize().ok()).collect()
        };
        let watched = Watched {
            places: real(&settings.paths)
                .into_iter()
                .map(|path| Place::of(&path).map_or(path, |place| place.own))
                .collect(),
            folders: real(&settings.folders),
        };
        let (send, changes) = mpsc::channel();
        let mut watcher =
            notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
                let Ok(event) = event else { return };
                if matches!(event.kind, EventKind::Access(_)) {
                    return;
                }
                for path in event.paths {
                    // Nobody listens any more once the watch ends.
                    send.send(path).ok();
                }
            })
            .map_err(|e| e.to_string())?;
        for place in &watched.places {
            // A file is replaced as often as it is written: its folder tells of
            // both.
            let (folder, mode) = match place.is_dir() {
                true => (place.as_path(), RecursiveMode::Recursive),
                false => (place.parent().unwrap_or(place), RecursiveMode::NonRecursive),
            };
            watcher.watch(folder, mode).map_err(|e| e.to_string())?;
        }
        for folder in &watched.folders {
            watcher
                .watch(folder, RecursiveMode::Recursive)
                .map_err(|e| e.to_string())?;
        }
        std::thread::Builder::new()
            .name("haft-lua-reload".to_owned())
            .spawn(move || {
                while let Ok(first) = changes.recv() {
                    let mut touched = BTreeSet::from([first]);
                    while let Ok(more) = changes.recv_timeout(GATHER) {
                        touched.insert(more);
                    }
                    let extensions: BTreeSet<_> = touched
                        .iter()
                        .filter_map(|path| watched.extension(path))
                        .collect();
                    for extension in extensions {
                        if Place::of(&extension).is_ok() {
                            reload(extension);
                        }
                    }
                }
            })
            .map_err(|e| e.to_string())?;
        Ok(Self { _watcher: watcher })
    }
}
