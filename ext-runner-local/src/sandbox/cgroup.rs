//! Control groups of a session, where this process may make some: they count
//! memory and processes over all of its commands.
//!
//! Both generations: the unified hierarchy where its controllers are delegated,
//! else the older hierarchies of memory and of pids.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::config::Limits;

/// The groups of one session; none, where none are needed or to be had.
#[derive(Debug, Default)]
pub(crate) struct Cgroups {
    folders: Vec<PathBuf>,
    /// Where the system counts what it killed for want of memory.
    memory: Option<File>,
    /// Where it counts refused processes.
    pids: Option<File>,
}

/// What was counted so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) oom_kills: u64,
    pub(crate) refused_processes: u64,
}

/// A hierarchy and this process's place in it.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    unified: bool,
    controllers: Vec<String>,
    folder: PathBuf,
}

impl Cgroups {
    /// Makes them, if a limit asks for them, and moves this process in.
    pub(crate) fn enter(limits: &Limits, name: &str) -> Self {
        let mut groups = Self::default();
        if limits.memory_bytes.is_none() && limits.processes.is_none() {
            return groups;
        }
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let places = places(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"));
        let memory = limits.memory_bytes.map(|limit| ("memory", limit));
        let pids = limits.processes.map(|limit| ("pids", limit));
        for (controller, limit) in memory.into_iter().chain(pids) {
            // A hierarchy that refuses is no different from one that isn't there.
            let made = places
                .iter()
                .find_map(|place| groups.make(place, controller, limit, name).ok());
            match controller {
                "memory" => groups.memory = made,
                _ => groups.pids = made,
            }
        }
        groups
    }

    fn make(
        &mut self,
        place: &Place,
        controller: &str,
        limit: u64,
        name: &str,
    ) -> io::Result<File> {
        if !place.unified && !place.controllers.iter().any(|c| c == controller) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let parent = match place.unified {
            true => delegated(&place.folder, controller).ok_or(io::ErrorKind::PermissionDenied)?,
            false => place.folder.clone(),
        };
        let folder = parent.join(name);
        let known = self.folders.contains(&folder);
        if !known {
            fs::create_dir(&folder)?;
            self.folders.push(folder.clone());
        }
        let (file, events) = match (controller, place.unified) {
            ("memory", true) => ("memory.max", "memory.events"),
            ("memory", false) => ("memory.limit_in_bytes", "memory.oom_control"),
            _ => ("pids.max", "pids.events"),
        };
        let set = || {
            fs::write(folder.join(file), limit.to_string())?;
            fs::write(folder.join("cgroup.procs"), "0")?;
            File::open(folder.join(events))
        };
        let made = set();
        if made.is_ok() && controller == "memory" {
            // Or the limit would only push memory out to disk. Not everywhere.
            let _ = fs::write(folder.join("memory.swap.max"), "0");
            let _ = fs::write(
                folder.join("memory.memsw.limit_in_bytes"),
                limit.to_string(),
            );
        }
        made
    }

    pub(crate) fn controllers(&self) -> Vec<String> {
        let names = [
            ("memory", self.limits_memory()),
            ("pids", self.limits_processes()),
        ];
        let held = names.iter().filter(|(_, held)| *held);
        held.map(|(name, _)| (*name).to_owned()).collect()
    }

    pub(crate) fn limits_memory(&self) -> bool {
        self.memory.is_some()
    }

    pub(crate) fn limits_processes(&self) -> bool {
        self.pids.is_some()
    }

    /// What the system has counted for all of the session.
    pub(crate) fn usage(&self) -> Usage {
        Usage {
            oom_kills: self
                .memory
                .as_ref()
                .map_or(0, |file| count(file, "oom_kill")),
            refused_processes: self.pids.as_ref().map_or(0, |file| count(file, "max")),
        }
    }

    /// Removes them, once everybody in them has ended. This process leaves
    /// first.
    pub(crate) fn remove(&self) {
        for folder in &self.folders {
            if let Some(parent) = folder.parent() {
                // Fails where the hierarchy lets nobody in between; then so does
                // the removal, and an empty group costs nothing.
                let _ = fs::write(parent.join("cgroup.procs"), "0");
            }
            let _ = fs::remove_dir(folder);
        }
    }
}

/// The nearest group of the unified hierarchy beneath which this process may make
/// one with a controller.
fn delegated(own: &Path, controller: &str) -> Option<PathBuf> {
    own.ancestors().take(2).map(Path::to_owned).find(|group| {
        let file = group.join("cgroup.subtree_control");
        let has = || {
            fs::read_to_string(&file)
                .is_ok_and(|all| all.split_whitespace().any(|c| c == controller))
        };
        // Refused where processes are in it, or somebody else's.
        has() || (fs::write(&file, format!("+{controller}")).is_ok() && has())
    })
}

fn count(file: &File, key: &str) -> u64 {
    let mut text = [0; 512];
    let Ok(length) = file.read_at(&mut text, 0) else {
        return 0;
    };
    let text = String::from_utf8_lossy(&text[..length]).into_owned();
    let mut values = text
        .lines()
        .filter_map(|line| line.strip_prefix(key)?.trim().parse().ok());
    values.next().unwrap_or(0)
}

/// Where this process stands, by the texts of its `cgroup` and `mountinfo`.
fn places(own: &str, mounts: &str) -> Vec<Place> {
    let mut found = Vec::new();
    for line in own.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let unified = controllers.is_empty();
        let folder = mounts.lines().find_map(|line| {
            let (mount, kind) = line.split_once(" - ")?;
            let mut kind = kind.split(' ');
            let (kind, options) = (kind.next()?, kind.nth(1)?);
            let ours = match unified {
                true => kind == "cgroup2",
                false => {
                    kind == "cgroup"
                        && controllers
                            .split(',')
                            .all(|c| options.split(',').any(|o| o == c))
                }
            };
            let mut mount = mount.split(' ').skip(3);
            let (root, point) = (mount.next()?, mount.next()?);
            let rest = Path::new(path).strip_prefix(root).ok().filter(|_| ours)?;
            Some(Path::new(point).join(rest))
        });
        if let Some(folder) = folder {
            found.push(Place {
                unified,
                controllers: controllers.split(',').map(str::to_owned).collect(),
                folder,
            });
        }
    }
    // The unified one first.
    found.sort_by_key(|place| !place.unified);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_finds_its_place_in_either_generation() {
        let check = |own: &str, mounts: &str, expected: &[(bool, &str)]| {
            let found = places(own, mounts);
            let found: Vec<_> = found
                .iter()
                .map(|place| (place.unified, place.folder.to_str().unwrap()))
                .collect();
            assert_eq!(found, expected, "{own}");
        };
        let unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate";
        check("0::/a/b", unified, &[(true, "/sys/fs/cgroup/a/b")]);
        let inner = "30 23 0:26 /box /sys/fs/cgroup rw - cgroup2 cgroup2 rw";
        check("0::/box/a", inner, &[(true, "/sys/fs/cgroup/a")]);
        check("0::/elsewhere", inner, &[]);
        let older = "31 23 0:27 / /cg/memory rw - cgroup cgroup rw,memory\n\
                     32 23 0:28 / /cg/unified rw - cgroup2 cgroup2 rw";
        check(
            "4:memory:/x\n0::/",
            older,
            &[(true, "/cg/unified/"), (false, "/cg/memory/x")],
        );
        check("4:memory:/x", "", &[]);
        check("", older, &[]);
    }
}
