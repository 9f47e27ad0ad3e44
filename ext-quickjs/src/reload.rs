//! Notices that skills changed on disk.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

use crate::config::Settings;
use crate::manifest;

/// How long changes are gathered: an editor writes a file in several steps.
const GATHER: Duration = Duration::from_millis(100);
const ENDINGS: &[&str] = &["js", "mjs", "ts", "mts", "cts", "json"];

/// Watches the folders of a host's skills while it lives.
pub(crate) struct Watch {
    _watcher: RecommendedWatcher,
}

/// What is watched.
struct Watched {
    /// Single skills.
    skills: Vec<PathBuf>,
    /// Folders of skills.
    folders: Vec<PathBuf>,
}

impl Watched {
    /// The folder of the skill that a changed file belongs to.
    fn skill(&self, changed: &Path) -> Option<PathBuf> {
        let ending = changed.extension()?.to_str()?;
        if !ENDINGS.contains(&ending) {
            return None;
        }
        let single = self.skills.iter().find(|skill| changed.starts_with(skill));
        if let Some(skill) = single {
            return Some(skill.clone());
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
        changed: impl Fn(PathBuf) + Send + 'static,
    ) -> Result<Self, String> {
        let real = |paths: &[PathBuf]| -> Vec<PathBuf> {
            paths.iter().filter_map(|p| p.canonicalize().ok()).collect()
        };
        let watched = Watched {
            skills: real(&settings.paths),
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
        for folder in watched.skills.iter().chain(&watched.folders) {
            watcher
                .watch(folder, RecursiveMode::Recursive)
                .map_err(|e| e.to_string())?;
        }
        std::thread::Builder::new()
            .name("js-reload".to_owned())
            .spawn(move || {
                while let Ok(first) = changes.recv() {
                    let mut touched = BTreeSet::from([first]);
                    while let Ok(more) = changes.recv_timeout(GATHER) {
                        touched.insert(more);
                    }
                    let skills: BTreeSet<_> = touched
                        .iter()
                        .filter_map(|path| watched.skill(path))
                        .filter(|folder| folder.join(manifest::FILE).is_file())
                        .collect();
                    for skill in skills {
                        changed(skill);
                    }
                }
            })
            .map_err(|e| e.to_string())?;
        Ok(Self { _watcher: watcher })
    }
}
