//! Atomic writes: a temporary file beside the target, renamed over it.
//!
//! Nothing is synced to the disk: a reader sees the old file or the new one, but
//! after a power cut it may be either. Access lists and extended attributes
//! aren't carried over, and a file of several names (hard links) is split from
//! the others.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cap_std::fs::{Dir, File, Metadata, OpenOptions};
use haft_api::{Error, ErrorKind, FileMetadata, Result, WriteMode, WriteOptions};

use super::lock::FolderLock;
use super::roots::{Access, LastLink, Place, explain, is_escape};
use super::{Files, require_file, version};

/// Written between two looks at whether the write is still wanted.
const PIECE_BYTES: usize = 1024 * 1024;

impl Files {
    /// Writes a whole file. Nothing happens any more once `cancelled` is set.
    pub(crate) fn write(
        &self,
        path: &str,
        bytes: &[u8],
        options: &WriteOptions,
        cancelled: &AtomicBool,
    ) -> Result<FileMetadata> {
        let fail = |e| explain(e, path);
        let target = self.target(path, options)?;
        let _ours = self.locks.lock(&target.absolute, target.name.as_ref());
        let _theirs = FolderLock::take(&target.folder, path)?;

        let old = match target.folder.symlink_metadata(&target.name) {
            Ok(metadata) => Some(metadata),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(fail(e)),
        };
        target.check(old.as_ref(), &options.mode, path)?;

        let private = old.is_some() || options.permissions.is_some();
        let temporary = Temporary::create(&target.folder, private).map_err(fail)?;
        let mut file = &temporary.file;
        for piece in bytes.chunks(PIECE_BYTES) {
            still_wanted(cancelled, path)?;
            file.write_all(piece).map_err(fail)?;
        }
        let old = old.filter(|metadata| !metadata.is_symlink());
        adopt(file, old.as_ref(), options.permissions, path)?;
        still_wanted(cancelled, path)?;
        match options.mode {
            WriteMode::CreateNew => temporary.place_new(&target.name),
            _ => temporary.place_over(&target.name),
        }
        .map_err(fail)?;
        let written = target.folder.symlink_metadata(&target.name).map_err(fail)?;
        Ok(version::describe_written(&written, bytes))
    }

    /// Opens the folder that the file is or will be in.
    fn target(&self, path: &str, options: &WriteOptions) -> Result<Target> {
        let mut place = self.roots.locate(path, Access::Write, LastLink::Follow)?;
        let mut relocated = false;
        loop {
            let name = file_name(&place.path, path)?;
            let parent = match place.path.parent() {
                Some(parent) if parent != Path::new("") => parent.to_owned(),
                _ => PathBuf::from("."),
            };
            let opened = open_parent(&place, &parent, options.create_parents);
            let folder = match opened {
                Ok(folder) => folder,
                Err(e) if is_escape(&e) && !relocated => {
                    let written = place.absolute();
                    place = self
                        .roots
                        .relocate(path, &written, Access::Write, LastLink::Follow)?;
                    relocated = true;
                    continue;
                }
                Err(e) if is_escape(&e) && e.raw_os_error().is_none() => {
                    let target = super::follow::leads_to(&place.absolute());
                    return Err(self.roots.denied(path, &target, Access::Write));
                }
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    return Err(Error::new(
                        ErrorKind::NotFound,
                        "the folder to write into isn't there",
                    )
                    .context("path", path)
                    .source(e));
                }
                Err(e) => return Err(explain(e, path)),
            };
            let link = folder.symlink_metadata(&name).is_ok_and(|m| m.is_symlink());
            if link && options.mode != WriteMode::CreateNew && !relocated {
                let written = place.absolute();
                place = self
                    .roots
                    .relocate(path, &written, Access::Write, LastLink::Follow)?;
                relocated = true;
                continue;
            }
            // A link that only now took the file's place is replaced itself, as
            // renaming does: what it points to stays untouched.
            let absolute = place.root.real().join(&parent);
            return Ok(Target {
                folder,
                name,
                absolute,
            });
        }
    }
}

fn still_wanted(cancelled: &AtomicBool, path: &str) -> Result<()> {
    match cancelled.load(Ordering::Acquire) {
        true => {
            Err(Error::new(ErrorKind::Cancelled, "the write was cancelled").context("path", path))
        }
        false => Ok(()),
    }
}

fn open_parent(place: &Place<'_>, parent: &Path, create: bool) -> io::Result<Dir> {
    match place.root.dir.open_dir(parent) {
        Err(e) if e.kind() == io::ErrorKind::NotFound && create => {
            place.root.dir.create_dir_all(parent)?;
            place.root.dir.open_dir(parent)
        }
        outcome => outcome,
    }
}

fn file_name(place: &Path, path: &str) -> Result<PathBuf> {
    let named = place.file_name().map(PathBuf::from);
    let ends_in_separator = path.ends_with(['/', std::path::MAIN_SEPARATOR]);
    match named {
        Some(name) if !ends_in_separator => Ok(name),
        _ => Err(Error::new(
            ErrorKind::InvalidInput,
            "the path names a folder, not a file",
        )
        .context("path", path)),
    }
}

struct Target {
    folder: Dir,
    name: PathBuf,
    /// The folder's path, as the key of a lock.
    absolute: PathBuf,
}

impl Target {
    /// Whether the write may go on over what is there.
    fn check(&self, old: Option<&Metadata>, mode: &WriteMode, path: &str) -> Result<()> {
        let refuse = |kind, message: &str| Err(Error::new(kind, message).context("path", path));
        let Some(old) = old else {
            return match mode {
                WriteMode::IfVersion(_) => refuse(
                    ErrorKind::NotFound,
                    "the file that should be replaced isn't there any more",
                ),
                _ => Ok(()),
            };
        };
        if *mode == WriteMode::CreateNew {
            return refuse(ErrorKind::AlreadyExists, "there is a file already");
        }
        if !old.is_symlink() {
            require_file(old, path)?;
        }
        if let WriteMode::IfVersion(wanted) = mode {
            let now = super::describe_entry(&self.folder, &self.name)
                .map_err(|e| explain(e, path))?
                .version;
            if now != *wanted {
                return Err(Error::new(
                    ErrorKind::Busy,
                    "the file was changed by somebody else since it was read; read it again",
                )
                .context("path", path)
                .context("expected", wanted)
                .context("found", now));
            }
        }
        self.check_writable(path)
    }

    /// Renaming needs the folder's permission only; a file that is read-only
    /// should stay as it is all the same.
    #[cfg(unix)]
    fn check_writable(&self, path: &str) -> Result<()> {
        use rustix::fs::{Access, AtFlags, accessat};
        match accessat(&self.folder, &self.name, Access::WRITE_OK, AtFlags::EACCESS) {
            Err(e) if e == rustix::io::Errno::ACCESS || e == rustix::io::Errno::ROFS => {
                Err(explain(e.into(), path).context("reason", "the file is read-only"))
            }
            _ => Ok(()),
        }
    }

    #[cfg(not(unix))]
    fn check_writable(&self, path: &str) -> Result<()> {
        let read_only = self
            .folder
            .symlink_metadata(&self.name)
            .is_ok_and(|metadata| metadata.permissions().readonly());
        if read_only {
            return Err(
                Error::new(ErrorKind::Denied, "the file is read-only").context("path", path)
            );
        }
        Ok(())
    }
}

/// Gives the new file the owner and the mode of the old one, or a new one's.
#[cfg(unix)]
fn adopt(file: &File, old: Option<&Metadata>, permissions: Option<u32>, path: &str) -> Result<()> {
    use cap_std::fs::MetadataExt as _;
    use rustix::fs::{Gid, Mode, RawMode, Uid, fchmod, fchown};
    let fail = |e: rustix::io::Errno| explain(e.into(), path);
    let mode = match (old, permissions) {
        (Some(old), _) => {
            let new = file.metadata().map_err(|e| explain(e, path))?;
            let uid = (old.uid() != new.uid()).then(|| Uid::from_raw(old.uid()));
            let gid = (old.gid() != new.gid()).then(|| Gid::from_raw(old.gid()));
            if uid.is_some() || gid.is_some() {
                fchown(file, uid, gid).map_err(|e| {
                    fail(e)
                        .context("reason", "the file's owner can't be kept")
                        .context("owner", format!("{}:{}", old.uid(), old.gid()))
                })?;
            }
            old.mode()
        }
        (None, Some(mode)) => mode,
        (None, None) => return Ok(()),
    };
    // After the owner: changing that clears the set-id bits.
    let mode = Mode::from_bits_truncate((mode & 0o7777) as RawMode);
    fchmod(file, mode).map_err(fail)
}

#[cfg(not(unix))]
fn adopt(_: &File, _: Option<&Metadata>, _: Option<u32>, _: &str) -> Result<()> {
    Ok(())
}

/// A file that is removed again unless it is placed.
struct Temporary<'a> {
    folder: &'a Dir,
    name: PathBuf,
    file: File,
    placed: bool,
}

impl<'a> Temporary<'a> {
    /// `private`: nobody else may look into it until it has its final mode.
    fn create(folder: &'a Dir, private: bool) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = PathBuf::from(format!(".haft-{}-{number}.tmp", std::process::id()));
            let mut options = OpenOptions::new();
            options.write(true).create_new(true);
            #[cfg(unix)]
            if private {
                use cap_std::fs::OpenOptionsExt as _;
                options.mode(0o600);
            }
            #[cfg(not(unix))]
            let _ = private;
            match folder.open_with(&name, &options) {
                Ok(file) => {
                    return Ok(Self {
                        folder,
                        name,
                        file,
                        placed: false,
                    });
                }
                // Left behind by a process of this number that was killed.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn place_over(mut self, name: &Path) -> io::Result<()> {
        self.folder.rename(&self.name, self.folder, name)?;
        self.placed = true;
        Ok(())
    }

    /// Fails if something is there, also if it came just now.
    fn place_new(self, name: &Path) -> io::Result<()> {
        match self.folder.hard_link(&self.name, self.folder, name) {
            Err(e) if no_hard_links(&e) => match self.folder.symlink_metadata(name) {
                Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
                Err(_) => self.place_over(name),
            },
            outcome => outcome,
        }
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.placed {
            // It may be gone with its folder; there is nobody to tell.
            let _ = self.folder.remove_file(&self.name);
        }
    }
}

/// Some file systems know one name per file.
fn no_hard_links(error: &io::Error) -> bool {
    #[cfg(unix)]
    {
        use rustix::io::Errno;
        let known = [Errno::PERM, Errno::NOTSUP, Errno::MLINK, Errno::NOSYS];
        known
            .iter()
            .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
    }
    #[cfg(not(unix))]
    {
        error.kind() == io::ErrorKind::Unsupported
    }
}
