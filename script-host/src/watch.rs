//! Notices that scripts changed on disk.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

/// How long changes are gathered: an editor writes a file in several steps.
const GATHER: Duration = Duration::from_millis(100);

/// What is watched. Links in the paths are followed; what isn't there is left
/// out.
#[derive(Debug, Clone, Default)]
pub struct Watched {
    /// Single scripts, each a file or a folder.
    scripts: Vec<PathBuf>,
    /// Folders of scripts.
    folders: Vec<PathBuf>,
    /// The endings of the files whose change counts.
    endings: &'static [&'static str],
}

impl Watched {
    /// Scripts by themselves, folders whose every entry is one, and the endings
    /// (without the dot) of files that belong to a script.
    pub fn new(
        scripts: impl IntoIterator<Item = PathBuf>,
        folders: impl IntoIterator<Item = PathBuf>,
        endings: &'static [&'static str],
    ) -> Self {
        let real = |path: PathBuf| path.canonicalize().ok();
        Self {
            scripts: scripts.into_iter().filter_map(real).collect(),
            folders: folders.into_iter().filter_map(real).collect(),
            endings,
        }
    }

    /// The script that a changed file belongs to, if it belongs to one.
    pub fn script(&self, changed: &Path) -> Option<PathBuf> {
        let ending = changed.extension()?.to_str()?;
        if !self.endings.contains(&ending) {
            return None;
        }
        let single = self
            .scripts
            .iter()
            .find(|script| changed.starts_with(script));
        if let Some(script) = single {
            return Some(script.clone());
        }
        self.folders.iter().find_map(|folder| {
            let inner = changed.strip_prefix(folder).ok()?;
            Some(folder.join(inner.components().next()?))
        })
    }
}

/// Watches a host's scripts while it lives.
pub struct Watch {
    _watcher: RecommendedWatcher,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

impl Watch {
    /// Starts to watch. `changed` is told of each script of which something
    /// changed, once for changes that come together, on a thread of this name
    /// that sleeps until there are some and ends with the watch.
    ///
    /// # Errors
    /// If the system can't watch, in words.
    pub fn start(
        watched: Watched,
        thread: &str,
        mut changed: impl FnMut(PathBuf) + Send + 'static,
    ) -> Result<Self, String> {
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
        for place in watched.scripts.iter().chain(&watched.folders) {
            // A file is replaced as often as it is written: its folder tells of
            // both.
            let (folder, mode) = match place.is_dir() {
                true => (place.as_path(), RecursiveMode::Recursive),
                false => (place.parent().unwrap_or(place), RecursiveMode::NonRecursive),
            };
            watcher.watch(folder, mode).map_err(|e| e.to_string())?;
        }
        std::thread::Builder::new()
            .name(thread.to_owned())
            .spawn(move || {
                while let Ok(first) = changes.recv() {
                    let mut touched = BTreeSet::from([first]);
                    while let Ok(more) = changes.recv_timeout(GATHER) {
                        touched.insert(more);
                    }
                    let scripts: BTreeSet<_> = touched
                        .iter()
                        .filter_map(|path| watched.script(path))
                        .collect();
                    scripts.into_iter().for_each(&mut changed);
                }
            })
            .map_err(|e| e.to_string())?;
        Ok(Self { _watcher: watcher })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Duration = Duration::from_secs(20);

    fn world() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for path in ["many/a", "one"] {
            std::fs::create_dir_all(root.join(path)).unwrap();
        }
        std::fs::write(root.join("single.lua"), "").unwrap();
        (folder, root)
    }

    fn watched(root: &Path) -> Watched {
        Watched::new(
            [
                root.join("one"),
                root.join("single.lua"),
                root.join("missing"),
            ],
            [root.join("many")],
            &["lua"],
        )
    }

    #[test]
    fn a_changed_file_belongs_to_a_script() {
        let (_folder, root) = world();
        let watched = watched(&root);
        for (changed, script) in [
            ("one/inner/x.lua", Some("one")),
            ("single.lua", Some("single.lua")),
            ("many/a/x.lua", Some("many/a")),
            ("many/b.lua", Some("many/b.lua")),
            ("one/x.txt", None),
            ("one/x", None),
            ("other.lua", None),
        ] {
            let found = watched.script(&root.join(changed));
            assert_eq!(found, script.map(|script| root.join(script)), "{changed}");
        }
    }

    #[test]
    fn a_script_that_changes_is_told_of_until_the_watch_ends() {
        let (_folder, root) = world();
        let (send, told) = mpsc::channel();
        let watch = Watch::start(watched(&root), "watch-test", move |script| {
            send.send(script).ok();
        })
        .unwrap();
        std::fs::write(root.join("many/a/x.lua"), "1").unwrap();
        std::fs::write(root.join("many/a/y.lua"), "2").unwrap();
        assert_eq!(told.recv_timeout(BOUND).unwrap(), root.join("many/a"));
        // Replaced, as editors do it.
        std::fs::write(root.join("single.new"), "3").unwrap();
        std::fs::rename(root.join("single.new"), root.join("single.lua")).unwrap();
        loop {
            // A slow machine may tell of the first in two.
            match told.recv_timeout(BOUND).unwrap() {
                script if script == root.join("single.lua") => break,
                script => assert_eq!(script, root.join("many/a")),
            }
        }
        drop(watch);
        let mut left = told.iter();
        assert!(
            left.all(|script| script.starts_with(&root)),
            "and then it ends"
        );
    }
}
