//! The view of the file system that a session's commands have: a new root that
//! shows what may be read, the workspace, a temporary folder, and little else.
//!
//! What isn't shown can't be named: neither its metadata changed nor its sockets
//! reached, which Landlock alone would leave open.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{create_dir_all, write};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen,
    mount_change, mount_remount, move_mount, open_tree, unmount,
};

use super::Profile;
use super::landlock::DEVICES;

/// Links followed on the way to one path.
const MOST_LINKS: usize = 40;
/// Memory that commands may share by name.
const SHARED_MEMORY: &str = "268435456";
const TEMP: &str = "/tmp";

/// What is to be seen.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    links: BTreeMap<PathBuf, PathBuf>,
    reals: BTreeSet<PathBuf>,
}

impl Plan {
    /// Adds a path and every link on the way to it.
    fn add(&mut self, path: &Path) {
        let mut rest: Vec<PathBuf> = vec![path.to_owned()];
        for _ in 0..MOST_LINKS {
            let Some(next) = rest.pop() else { return };
            match first_link(&next) {
                Some((link, target, beyond)) => {
                    let base = link.parent().unwrap_or(Path::new("/")).to_owned();
                    rest.push(base.join(&target).join(beyond));
                    self.links.insert(link, target);
                }
                None => {
                    let real = without_dots(&next);
                    if real.symlink_metadata().is_ok() && real.parent().is_some() {
                        self.reals.insert(real);
                    }
                }
            }
        }
    }

    /// Leaves out what is shown with something above it.
    fn outermost(&self) -> Vec<&Path> {
        let above = |path: &Path| path.ancestors().skip(1).any(|p| self.reals.contains(p));
        let all = self.reals.iter().map(PathBuf::as_path);
        all.filter(|path| path.starts_with(TEMP) || !above(path))
            .collect()
    }
}

/// The first link on a path, where it leads, and what comes after it.
fn first_link(path: &Path) -> Option<(PathBuf, PathBuf, PathBuf)> {
    let mut current = PathBuf::from("/");
    let mut components = path.components();
    while let Some(component) = components.next() {
        match component {
            Component::ParentDir => {
                current.pop();
            }
            Component::Normal(name) => {
                current.push(name);
                if let Ok(target) = std::fs::read_link(&current) {
                    return Some((current, target, components.as_path().to_owned()));
                }
            }
            _ => {}
        }
    }
    None
}

/// Of a path without links.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            Component::Normal(name) => plain.push(name),
            _ => {}
        }
    }
    plain
}

/// Builds the view and makes it this process's root. Returns what doesn't hold.
///
/// # Errors
/// If a part of it can't be built.
pub(super) fn enter(profile: &Profile) -> io::Result<Vec<String>> {
    let mut plan = Plan::default();
    for path in &profile.read {
        plan.add(path);
    }
    let mut ours = Plan::default();
    ours.add(profile.named.as_deref().unwrap_or(&profile.workspace));
    plan.links.extend(ours.links);

    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )
    .map_err(|e| told("mounts can't be made private", e))?;
    // All are taken hold of before anything is covered.
    let mut mounts: BTreeMap<PathBuf, OwnedFd> = BTreeMap::new();
    for path in plan.outermost() {
        if path.starts_with(&profile.workspace) {
            continue;
        }
        // Anything that vanished meanwhile isn't shown.
        if let Ok(tree) = hold(path) {
            mounts.insert(path.to_owned(), tree);
        }
    }
    mounts.insert(
        TEMP.into(),
        hold(&profile.temp).map_err(|e| at(&profile.temp, e))?,
    );
    let workspace = &profile.workspace;
    let before = workspace.metadata().map_err(|e| at(workspace, e))?;
    let before = (before.dev(), before.ino());
    mounts.insert(
        workspace.clone(),
        hold(workspace).map_err(|e| at(workspace, e))?,
    );
    for device in DEVICES {
        if let Ok(tree) = hold(Path::new(device)) {
            mounts.insert(device.into(), tree);
        }
    }

    let root = &profile.temp;
    let empty = new_mount("tmpfs", &[("mode", "0755")]).map_err(|e| told("no tmpfs", e))?;
    place(&empty, root)?;
    let inside = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    for (path, tree) in &mounts {
        let target = inside(path);
        prepare(&target, path)?;
        place(tree, &target).map_err(|e| at(path, e))?;
    }
    for (link, target) in &plan.links {
        make_link(target, &inside(link));
    }
    devices(&inside(Path::new("/dev")))?;
    let shown: Vec<_> = mounts.keys().map(PathBuf::as_path).collect();
    hide(profile, root, &shown)?;
    if let Some(home) = &profile.home {
        // Where it lies beneath something shown, it is what it is.
        let _ = create_dir_all(inside(home));
    }
    let proc_folder = inside(Path::new("/proc"));
    create_dir_all(&proc_folder)?;
    let proc = new_mount("proc", &[]).map_err(|e| told("no /proc for its processes", e))?;
    place(&proc, &proc_folder)?;

    std::env::set_current_dir(root)?;
    rustix::process::pivot_root(".", ".").map_err(|e| told("the root can't be changed", e))?;
    unmount(".", UnmountFlags::DETACH)?;
    std::env::set_current_dir("/")?;
    let now = workspace.metadata().map_err(|e| at(workspace, e))?;
    if (now.dev(), now.ino()) != before {
        let message = "it lies where commands have a place of their own";
        return Err(at(workspace, io::Error::other(message)));
    }
    Ok(protect(workspace))
}

/// The place of a mount: a file for a file, else a folder.
fn prepare(target: &Path, source: &Path) -> io::Result<()> {
    if target.symlink_metadata().is_ok() {
        return Ok(());
    }
    let make = || match source.is_dir() {
        true => create_dir_all(target),
        false => {
            create_dir_all(target.parent().unwrap_or(target))?;
            write(target, "")
        }
    };
    make().map_err(|e| at(source, e))
}

fn make_link(target: &Path, at: &Path) {
    // Where the place is taken, the folder above shows the link itself.
    if let Some(parent) = at.parent()
        && create_dir_all(parent).is_ok()
    {
        let _ = symlink(target, at);
    }
}

fn devices(dev: &Path) -> io::Result<()> {
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ] {
        symlink(target, dev.join(name))?;
    }
    for name in ["shm", "pts"] {
        create_dir_all(dev.join(name))?;
    }
    let shared = new_mount("tmpfs", &[("mode", "1777"), ("size", SHARED_MEMORY)])?;
    place(&shared, &dev.join("shm"))?;
    // Without it there are no further terminals, and all else works.
    if let Ok(terminals) = new_mount("devpts", &[("ptmxmode", "0666"), ("mode", "0620")]) {
        place(&terminals, &dev.join("pts"))?;
    }
    Ok(())
}

/// Covers what is never to be seen, where it would be.
fn hide(profile: &Profile, root: &Path, shown: &[&Path]) -> io::Result<()> {
    let (folder, file) = (root.join(".hidden/folder"), root.join(".hidden/file"));
    let mut made = false;
    // The temporary folder shows nothing of the host's.
    let own_temp = profile.workspace != Path::new(TEMP);
    let of_host = |path: &&&Path| !(own_temp && **path == Path::new(TEMP));
    for path in &profile.hide {
        if !shown
            .iter()
            .filter(of_host)
            .any(|shown| path.starts_with(shown))
        {
            continue;
        }
        let target = root.join(path.strip_prefix("/").unwrap_or(path));
        let Ok(metadata) = target.symlink_metadata() else {
            continue;
        };
        if !made {
            create_dir_all(&folder)?;
            write(&file, "")?;
            let nobody = std::os::unix::fs::PermissionsExt::from_mode(0o000);
            std::fs::set_permissions(&file, nobody)?;
            made = true;
        }
        let cover = if metadata.is_dir() { &folder } else { &file };
        let tree = hold(cover)?;
        place(&tree, &target).map_err(|e| at(path, e))?;
    }
    Ok(())
}

/// Makes every mount read-only that isn't for commands to write to.
fn protect(workspace: &Path) -> Vec<String> {
    let writable = [TEMP, "/dev/shm", "/dev/pts"].map(Path::new);
    let table = match std::fs::read_to_string("/proc/self/mountinfo") {
        Ok(table) => table,
        Err(e) => return vec![format!("a read-only view (/proc/self/mountinfo: {e})")],
    };
    let mut missing = Vec::new();
    for line in table.lines() {
        let mut fields = line.split(' ').skip(4);
        let (Some(point), Some(options)) = (fields.next(), fields.next()) else {
            continue;
        };
        let point = PathBuf::from(unescape(point));
        if point.starts_with(workspace) || writable.contains(&point.as_path()) {
            continue;
        }
        let flags = MountFlags::BIND | MountFlags::RDONLY | kept_flags(options);
        if let Err(e) = mount_remount(&point, flags, "") {
            missing.push(format!("a read-only {} ({e})", point.display()));
        }
    }
    missing
}

/// Flags that may not be taken away from another's mount.
fn kept_flags(options: &str) -> MountFlags {
    options
        .split(',')
        .fold(MountFlags::NOSUID, |flags, option| {
            flags
                | match option {
                    "nodev" => MountFlags::NODEV,
                    "noexec" => MountFlags::NOEXEC,
                    "noatime" => MountFlags::NOATIME,
                    "nodiratime" => MountFlags::NODIRATIME,
                    "relatime" => MountFlags::RELATIME,
                    _ => MountFlags::empty(),
                }
        })
}

/// Blanks and the like stand as a backslash and three octal digits.
fn unescape(text: &str) -> String {
    let mut plain = text.to_owned();
    for (escaped, character) in [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ] {
        plain = plain.replace(escaped, character);
    }
    plain
}

fn hold(path: &Path) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    Ok(open_tree(CWD, path, flags)?)
}

fn new_mount(kind: &str, options: &[(&str, &str)]) -> io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        fsconfig_set_string(context.as_fd(), *key, *value)?;
    }
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let attributes = match kind {
        // Its files are devices.
        "devpts" => MountAttrFlags::MOUNT_ATTR_NOSUID,
        _ => attributes,
    };
    Ok(fsmount(
        context.as_fd(),
        FsMountFlags::FSMOUNT_CLOEXEC,
        attributes,
    )?)
}

fn place(tree: &OwnedFd, target: &Path) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(move_mount(tree.as_fd(), "", CWD, target, flags)?)
}

fn at(path: &Path, error: io::Error) -> io::Error {
    io::Error::other(format!("{} can't be shown ({error})", path.display()))
}

fn told(what: &str, error: impl Into<io::Error>) -> io::Error {
    io::Error::other(format!("{what} ({})", error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_shown_with_what_they_lead_to() {
        let folder = tempfile::Builder::new().tempdir_in("/var/tmp").unwrap();
        let base = folder.path().canonicalize().unwrap();
        create_dir_all(base.join("real/inner")).unwrap();
        symlink("real", base.join("near")).unwrap();
        symlink("../real/inner", base.join("real/back")).unwrap();
        symlink("loop", base.join("loop")).unwrap();
        let check = |path: &str, links: &[&str], reals: &[&str]| {
            let mut plan = Plan::default();
            plan.add(&base.join(path));
            let found: Vec<_> = plan.links.keys().cloned().collect();
            let expected: Vec<_> = links.iter().map(|link| base.join(link)).collect();
            assert_eq!(found, expected, "{path}");
            let expected: BTreeSet<_> = reals.iter().map(|real| base.join(real)).collect();
            assert_eq!(plan.reals, expected, "{path}");
        };
        check("real", &[], &["real"]);
        check("near", &["near"], &["real"]);
        check("near/back", &["near", "real/back"], &["real/inner"]);
        check("near/inner/../..", &["near"], &[""]);
        check("loop", &["loop"], &[]);
        check("nowhere", &[], &[]);
    }

    #[test]
    fn the_inner_is_left_out_where_the_outer_is_shown() {
        let plan = Plan {
            reals: ["/usr", "/usr/bin", "/etc/x", "/tmp/a", "/tmp/a/b"]
                .map(PathBuf::from)
                .into(),
            ..Plan::default()
        };
        let outer = ["/etc/x", "/tmp/a", "/tmp/a/b", "/usr"].map(Path::new);
        assert_eq!(plan.outermost(), outer);
    }

    #[test]
    fn mount_points_may_hold_blanks() {
        assert_eq!(unescape("/a\\040b\\134c"), "/a b\\c");
    }
}
