//! Files and folders, reached through folder handles, never through a
//! symbolic link.

mod folder;
mod ops;
mod permissions;

pub(crate) use folder::{Access, Entry, Folder, Glance, identity};
pub(crate) use ops::{FileOps, SystemFiles};
pub(crate) use permissions::{find_loose, tighten};

use std::io;
use std::path::Path;

use haft_api::{Error, ErrorKind};
use rustix::io::Errno;

/// An error of the store from one of the system's, naming the file.
pub(crate) fn disk_error(error: io::Error, message: &str, path: &Path) -> Error {
    let is = |errno: Errno| error.raw_os_error() == Some(errno.raw_os_error());
    let error = if is(Errno::LOOP) || error.kind() == io::ErrorKind::NotADirectory {
        let message =
            format!("{message}: a symbolic link or no folder; the store follows no links");
        Error::new(ErrorKind::Denied, message).source(error)
    } else if is_full(&error) {
        Error::io(error, format!("{message}: the disk is full")).temporary()
    } else {
        Error::io(error, message)
    };
    error.context("path", path.display())
}

/// Whether there was no room: on the disk, in a quota, or under a limit of the
/// file's size.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}
