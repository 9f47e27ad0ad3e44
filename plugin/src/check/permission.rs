//! Whether anybody but the user could have put a file there, or could change it.

use std::fs::{File, Metadata};
use std::path::Path;

use super::unreadable;
use crate::refusal::{Refusal, RefusalKind};

/// Opens a regular file that only root and the user can change, and returns its
/// size.
pub(super) fn open(path: &Path) -> Result<(File, u64), Refusal> {
    let metadata = path.symlink_metadata().map_err(|e| unreadable(path, e))?;
    check_regular(path, &metadata)?;
    let file = open_file(path).map_err(|e| unreadable(path, e))?;
    // What was opened is what counts from now on.
    let metadata = file.metadata().map_err(|e| unreadable(path, e))?;
    check_regular(path, &metadata)?;
    check_access(path, &metadata)?;
    let folder = path.parent().unwrap_or(path);
    let of_folder = folder.metadata().map_err(|e| unreadable(folder, e))?;
    check_access(folder, &of_folder)?;
    Ok((file, metadata.len()))
}

fn check_regular(path: &Path, metadata: &Metadata) -> Result<(), Refusal> {
    let kind = metadata.file_type();
    if kind.is_file() {
        return Ok(());
    }
    let offered = if kind.is_symlink() {
        match path.canonicalize() {
            Ok(target) => format!("a link; give the path it leads to: {}", target.display()),
            Err(_) => "a link that leads nowhere".to_owned(),
        }
    } else if kind.is_dir() {
        "a folder".to_owned()
    } else {
        "a device, socket or pipe".to_owned()
    };
    Err(Refusal::new(
        RefusalKind::NotRegular,
        path,
        "a regular file",
        offered,
    ))
}

#[cfg(unix)]
fn open_file(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;

    use rustix::fs::OFlags;

    // Neither follows a link nor waits for a pipe that took the file's place.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    File::options()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
}

/// Whether both are of the same file, and it wasn't written to in between.
#[cfg(unix)]
pub(super) fn is_same(a: &Metadata, b: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    let key = |m: &Metadata| (m.dev(), m.ino(), m.size(), m.mtime(), m.mtime_nsec());
    key(a) == key(b)
}

#[cfg(unix)]
fn check_access(path: &Path, metadata: &Metadata) -> Result<(), Refusal> {
    use std::os::unix::fs::MetadataExt as _;

    /// The bits by which the group and others may write.
    const OTHERS_WRITE: u32 = 0o022;

    let user = rustix::process::geteuid().as_raw();
    if metadata.uid() != 0 && metadata.uid() != user {
        let wanted = match user {
            0 => "user 0".to_owned(),
            user => format!("user {user} or 0"),
        };
        let offered = format!("user {}", metadata.uid());
        return Err(Refusal::new(RefusalKind::Owner, path, wanted, offered));
    }
    if metadata.mode() & OTHERS_WRITE != 0 {
        let mode = format!("{:04o}", metadata.mode() & 0o7777);
        let wanted = format!("{:04o}", metadata.mode() & 0o7777 & !OTHERS_WRITE);
        return Err(Refusal::new(RefusalKind::Writable, path, wanted, mode));
    }
    Ok(())
}

#[cfg(not(unix))]
fn open_file(path: &Path) -> std::io::Result<File> {
    File::open(path)
}

#[cfg(not(unix))]
pub(super) fn is_same(_: &Metadata, _: &Metadata) -> bool {
    false
}

/// Who may change a file can't be told here yet, so nothing is loaded.
#[cfg(not(unix))]
fn check_access(path: &Path, _: &Metadata) -> Result<(), Refusal> {
    Err(Refusal::new(
        RefusalKind::Owner,
        path,
        "a system with owners and permission bits",
        std::env::consts::OS,
    ))
}
