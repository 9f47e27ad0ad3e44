//! A folder that is held open.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::ops::FileOps;

/// A folder by its handle. All that is done with its entries is relative to the
/// handle and follows no links.
pub(crate) struct Folder {
    handle: OwnedFd,
    path: PathBuf,
    ops: Arc<dyn FileOps>,
}

/// Something in a folder.
pub(crate) struct Entry {
    pub(crate) name: OsString,
    pub(crate) kind: FileType,
    pub(crate) inode: u64,
}

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    ReadWrite,
    /// Reading, and writing at the end.
    Append,
}

impl Access {
    fn flags(self) -> OFlags {
        let access = match self {
            Self::Read => OFlags::RDONLY,
            Self::ReadWrite => OFlags::RDWR,
            Self::Append => OFlags::RDWR | OFlags::APPEND,
        };
        // Not to hang where somebody put a pipe.
        access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK
    }
}

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl Folder {
    /// Opens a folder by its path, of which links may be a part: it is the
    /// user's own word.
    pub(crate) fn open(path: &Path, ops: Arc<dyn FileOps>) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self {
            handle,
            path: path.to_owned(),
            ops,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The same folder, after it got another name.
    pub(crate) fn renamed(self, path: PathBuf) -> Self {
        Self { path, ..self }
    }

    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn ops(&self) -> &Arc<dyn FileOps> {
        &self.ops
    }

    /// Opens a folder in this one.
    pub(crate) fn folder(&self, name: &str) -> io::Result<Self> {
        let handle = rustix::fs::openat(&self.handle, name, FOLDER, Mode::empty())?;
        Ok(Self {
            handle,
            path: self.path.join(name),
            ops: Arc::clone(&self.ops),
        })
    }

    /// Makes a folder in this one, of mode 0700 whatever the umask.
    pub(crate) fn create_folder(&self, name: &str) -> io::Result<Self> {
        self.ops.create_folder(self.as_fd(), name)?;
        let folder = match self.folder(name) {
            // A umask that takes even the owner's rights.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                rustix::fs::chmodat(&self.handle, name, Mode::RWXU, AtFlags::empty())?;
                self.folder(name)?
            }
            outcome => outcome?,
        };
        if rustix::fs::fstat(&folder.handle)?.st_mode & 0o777 != 0o700 {
            self.ops.set_mode(folder.as_fd(), Mode::RWXU)?;
        }
        Ok(folder)
    }

    /// Opens a folder in this one, or makes it. The flag says whether it did.
    pub(crate) fn ensure_folder(&self, name: &str) -> io::Result<(Self, bool)> {
        match self.folder(name) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            outcome => return outcome.map(|folder| (folder, false)),
        }
        match self.create_folder(name) {
            Ok(folder) => Ok((folder, true)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok((self.folder(name)?, false)),
            Err(e) => Err(e),
        }
    }

    /// Opens a regular file.
    pub(crate) fn file(&self, name: &str, access: Access) -> io::Result<File> {
        let file = rustix::fs::openat(&self.handle, name, access.flags(), Mode::empty())?;
        regular(File::from(file))
    }

    /// Makes a file, of mode 0600 whatever the umask. It mustn't exist yet.
    pub(crate) fn create_file(&self, name: &str, access: Access) -> io::Result<File> {
        self.make_file(name, access.flags() | OFlags::EXCL)
    }

    /// Opens a regular file, or makes it.
    pub(crate) fn ensure_file(&self, name: &str, access: Access) -> io::Result<File> {
        match self.file(name, access) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => self.make_file(name, access.flags()),
            outcome => outcome,
        }
    }

    fn make_file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let file = regular(self.ops.create_file(self.as_fd(), name, flags)?)?;
        if rustix::fs::fstat(&file)?.st_mode & 0o777 != 0o600 {
            self.ops.set_mode(file.as_fd(), Mode::RUSR | Mode::WUSR)?;
        }
        Ok(file)
    }

    /// What stands under a name. `name` may lead through folders.
    pub(crate) fn stat(&self, name: &str) -> io::Result<Stat> {
        Ok(rustix::fs::statat(
            &self.handle,
            name,
            AtFlags::SYMLINK_NOFOLLOW,
        )?)
    }

    /// Which file stands under a name, and its length. Asks for no times: a file
    /// whose times were asked for costs its next writer more (Linux gives it a
    /// finer time then, and writes that down).
    pub(crate) fn glance(&self, name: &str) -> io::Result<Glance> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{StatxFlags, makedev, statx};
            let wanted = StatxFlags::INO | StatxFlags::SIZE;
            match statx(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW, wanted) {
                Ok(stat) => {
                    let device = makedev(stat.stx_dev_major, stat.stx_dev_minor);
                    let identity = (device, stat.stx_ino);
                    return Ok(Glance {
                        identity,
                        size: stat.stx_size,
                    });
                }
                // An old kernel, or a sandbox that doesn't know the call.
                Err(Errno::NOSYS) => {}
                Err(e) => return Err(e.into()),
            }
        }
        let stat = self.stat(name)?;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        Ok(Glance {
            identity: identity(&stat),
            size,
        })
    }

    /// What the folder itself is.
    pub(crate) fn own_stat(&self) -> io::Result<Stat> {
        Ok(rustix::fs::fstat(&self.handle)?)
    }

    /// Moves an entry to another folder. Something that is there is replaced if
    /// it is a file or an empty folder.
    pub(crate) fn rename_to(&self, name: &str, to: &Self, new_name: &str) -> io::Result<()> {
        self.ops
            .rename((self.as_fd(), name), (to.as_fd(), new_name))
    }

    pub(crate) fn remove_file(&self, name: &str) -> io::Result<()> {
        self.ops.remove(self.as_fd(), name, AtFlags::empty())
    }

    /// Removes a folder and all in it.
    pub(crate) fn remove_tree(&self, name: &str) -> io::Result<()> {
        let folder = self.folder(name)?;
        for Entry { name, kind, .. } in folder.entries()? {
            match name.to_str() {
                Some(name) if kind == FileType::Directory => folder.remove_tree(name)?,
                Some(name) => folder.remove_file(name)?,
                None => rustix::fs::unlinkat(&folder.handle, name, AtFlags::empty())?,
            }
        }
        self.ops.remove(self.as_fd(), name, AtFlags::REMOVEDIR)
    }

    /// What is in it.
    pub(crate) fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in Dir::read_from(&self.handle)? {
            let entry = match entry {
                Err(Errno::INTR) => continue,
                entry => entry?,
            };
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    let flags = AtFlags::SYMLINK_NOFOLLOW;
                    let stat = rustix::fs::statat(&self.handle, name, flags)?;
                    FileType::from_raw_mode(stat.st_mode)
                }
                kind => kind,
            };
            entries.push(Entry {
                name: OsString::from_vec(name.to_bytes().to_vec()),
                kind,
                inode: entry.ino(),
            });
        }
        Ok(entries)
    }

    /// Makes the names in it durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.ops.sync_folder(self.as_fd())
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

fn regular(file: File) -> io::Result<File> {
    match FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(file),
        FileType::Directory => Err(Errno::ISDIR.into()),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        )),
    }
}

/// A file at a glance.
pub(crate) struct Glance {
    /// See [`identity`].
    pub(crate) identity: (u64, u64),
    pub(crate) size: u64,
}

/// What tells a file from any other that bears its name later.
pub(crate) fn identity(stat: &Stat) -> (u64, u64) {
    // Their types differ between systems.
    #[allow(clippy::unnecessary_cast)]
    (stat.st_dev as u64, stat.st_ino as u64)
}
