//! Every way in which the store changes the disk.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, Mode, OFlags};

/// The system calls that change something, one method each. Tests put
/// themselves in between, to fail or to die at any of them; reading needs no
/// such door.
pub(crate) trait FileOps: Send + Sync + 'static {
    fn write(&self, mut file: &File, bytes: &[u8]) -> io::Result<usize> {
        file.write(bytes)
    }

    fn sync_data(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        file.set_len(len)
    }

    fn set_mode(&self, file: BorrowedFd<'_>, mode: Mode) -> io::Result<()> {
        Ok(rustix::fs::fchmod(file, mode)?)
    }

    fn create_file(&self, folder: BorrowedFd<'_>, name: &str, flags: OFlags) -> io::Result<File> {
        let mode = Mode::RUSR | Mode::WUSR;
        Ok(rustix::fs::openat(folder, name, flags | OFlags::CREATE, mode)?.into())
    }

    fn create_folder(&self, folder: BorrowedFd<'_>, name: &str) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(folder, name, Mode::RWXU)?)
    }

    fn rename(&self, from: (BorrowedFd<'_>, &str), to: (BorrowedFd<'_>, &str)) -> io::Result<()> {
        Ok(rustix::fs::renameat(from.0, from.1, to.0, to.1)?)
    }

    fn remove(&self, folder: BorrowedFd<'_>, name: &str, flags: AtFlags) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(folder, name, flags)?)
    }

    fn sync_folder(&self, folder: BorrowedFd<'_>) -> io::Result<()> {
        Ok(rustix::fs::fsync(folder)?)
    }
}

/// The system's files.
pub(crate) struct SystemFiles;

impl FileOps for SystemFiles {}
