//! The folders a session may touch, and how a path is opened beneath them.
//!
//! *Architecture invariant:* every file operation goes through a folder's
//! descriptor by way of `cap-std`, which refuses whatever would leave it. Text
//! and links are only looked at to choose the descriptor and to explain a
//! refusal, so a wrong look can't open a wrong file.

use std::io;
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use haft_api::{Error, ErrorKind, Result};

use super::follow::leads_to;

/// What a path is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// The workspace and the read roots.
    Read,
    /// The workspace alone.
    Write,
}

/// Whether a link at the very end of a path is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastLink {
    Follow,
    Keep,
}

/// A folder that is open.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) dir: Dir,
    /// As it was named.
    path: PathBuf,
    /// Without links.
    real: PathBuf,
}

impl Root {
    fn open(path: &str, what: &str) -> Result<Self> {
        let fail = |e: io::Error| {
            let kind = e.kind();
            let message = match kind {
                io::ErrorKind::NotFound => format!("the {what} isn't there"),
                io::ErrorKind::NotADirectory => format!("the {what} is no folder"),
                _ => format!("the {what} can't be opened"),
            };
            Error::io(e, message).context("path", path)
        };
        let dir = Dir::open_ambient_dir(path, ambient_authority()).map_err(fail)?;
        let real = std::fs::canonicalize(path).map_err(fail)?;
        Ok(Self {
            dir,
            path: PathBuf::from(path),
            real,
        })
    }

    pub(crate) fn real(&self) -> &Path {
        &self.real
    }

    /// The rest of an absolute path that begins with this root.
    fn strip<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        let rest = path.strip_prefix(&self.path);
        rest.or_else(|_| path.strip_prefix(&self.real)).ok()
    }
}

/// The workspace and the read roots of a session.
#[derive(Debug)]
pub(crate) struct Roots {
    workspace: Root,
    readable: Vec<Root>,
}

/// A path beneath a root.
#[derive(Debug, Clone)]
pub(crate) struct Place<'a> {
    pub(crate) root: &'a Root,
    /// Relative to the root, never empty.
    pub(crate) path: PathBuf,
}

impl<'a> Place<'a> {
    fn new(root: &'a Root, path: &Path) -> Self {
        let path = match path.as_os_str().is_empty() {
            true => PathBuf::from("."),
            false => path.to_owned(),
        };
        Self { root, path }
    }

    pub(crate) fn absolute(&self) -> PathBuf {
        self.root.real.join(&self.path)
    }
}

impl Roots {
    /// Opens all of them.
    pub(crate) fn open(workspace: &str, readable: &[String]) -> Result<Self> {
        Ok(Self {
            workspace: Root::open(workspace, "workspace")?,
            readable: readable
                .iter()
                .map(|path| Root::open(path, "read root"))
                .collect::<Result<_>>()?,
        })
    }

    #[cfg(unix)]
    pub(crate) fn workspace(&self) -> &Root {
        &self.workspace
    }

    fn allowed(&self, access: Access) -> impl Iterator<Item = &Root> {
        let readable = match access {
            Access::Read => self.readable.as_slice(),
            Access::Write => &[],
        };
        std::iter::once(&self.workspace).chain(readable)
    }

    /// Does something with the file or folder that a path names. `act` is
    /// called with a folder and a path relative to it, and again with another
    /// pair if a link turned out to lead out of the one and into the other.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] if the path leads out of what `access` allows; then
    /// nothing was touched. Otherwise what `act` says.
    pub(crate) fn act<T>(
        &self,
        path: &str,
        access: Access,
        last: LastLink,
        act: impl Fn(&Dir, &Path) -> io::Result<T>,
    ) -> Result<T> {
        let mut place = self.locate(path, access, last)?;
        for attempt in 0..2 {
            match act(&place.root.dir, &place.path) {
                Err(e) if is_escape(&e) && attempt == 0 => {
                    place = self.relocate(path, &place.absolute(), access, last)?;
                }
                Err(e) if is_escape(&e) && !is_loop(&e) => break,
                outcome => return outcome.map_err(|e| explain(e, path)),
            }
        }
        Err(self.denied(path, &leads_to(&place.absolute()), access))
    }

    /// Chooses the root by what is written; links aren't looked at where the text
    /// alone decides.
    pub(crate) fn locate(&self, path: &str, access: Access, last: LastLink) -> Result<Place<'_>> {
        if path.is_empty() || path.contains('\0') {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "a path can't be empty or contain a NUL byte",
            )
            .context("path", path.escape_default()));
        }
        let written = Path::new(path);
        // Taken before anything is touched: by the system's own rules a missing
        // folder before a `..` would hide where the path leads.
        if written
            .components()
            .any(|part| part == Component::ParentDir)
        {
            let absolute = self.workspace.real.join(written);
            return self.relocate(path, &absolute, access, last);
        }
        if !written.is_absolute() {
            return Ok(Place::new(&self.workspace, written));
        }
        let found = self
            .allowed(access)
            .find_map(|root| Some(Place::new(root, root.strip(written)?)));
        match found {
            Some(place) => Ok(place),
            None => self.relocate(path, written, access, last),
        }
    }

    /// Chooses the root by where an absolute path leads.
    pub(crate) fn relocate(
        &self,
        asked: &str,
        path: &Path,
        access: Access,
        last: LastLink,
    ) -> Result<Place<'_>> {
        let target = match (last, path.parent(), path.file_name()) {
            (LastLink::Keep, Some(parent), Some(name)) => leads_to(parent).join(name),
            _ => leads_to(path),
        };
        self.allowed(access)
            .find_map(|root| {
                let rest = target.strip_prefix(&root.real).ok()?;
                Some(Place::new(root, rest))
            })
            .ok_or_else(|| self.denied(asked, &target, access))
    }

    pub(crate) fn denied(&self, asked: &str, target: &Path, access: Access) -> Error {
        let only_readable = access == Access::Write
            && self
                .readable
                .iter()
                .any(|root| target.starts_with(&root.real));
        let message = match (access, only_readable) {
            (_, true) => "the path leads to a place that may only be read",
            (Access::Read, _) => "the path leads outside the workspace and the read roots",
            (Access::Write, _) => "the path leads outside the workspace",
        };
        Error::new(ErrorKind::Denied, message)
            .context("path", asked)
            .context("leads to", target.display())
            .context("workspace", self.workspace.path.display())
    }
}

/// Whether the path has to be looked at again: `cap-std` refused because it
/// would have left the folder (such an error has no number, for no system call
/// failed), or it has too many links, as which a magic link of `/proc` counts.
pub(crate) fn is_escape(error: &io::Error) -> bool {
    let refused = error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none();
    refused || is_loop(error)
}

#[cfg(unix)]
fn is_loop(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

#[cfg(not(unix))]
fn is_loop(_: &io::Error) -> bool {
    false
}

/// An I/O error in words that fit a path.
pub(crate) fn explain(error: io::Error, path: &str) -> Error {
    use io::ErrorKind as Io;
    if is_loop(&error) {
        return Error::new(
            ErrorKind::InvalidInput,
            "the links on the path lead in a circle",
        )
        .context("path", path)
        .source(error);
    }
    let message = match error.kind() {
        Io::NotFound => "no such file or folder",
        Io::NotADirectory => "a part of the path is no folder",
        Io::PermissionDenied => "the system refuses access",
        Io::ReadOnlyFilesystem => "the file system is read-only",
        Io::IsADirectory => "this is a folder, not a file",
        Io::AlreadyExists => "there is something of that name already",
        Io::DirectoryNotEmpty => {
            return Error::new(ErrorKind::InvalidInput, "the folder isn't empty")
                .context("path", path)
                .source(error);
        }
        Io::StorageFull | Io::QuotaExceeded => "there is no space left",
        Io::InvalidFilename => "a name in the path is too long or not allowed",
        _ => "the system call failed",
    };
    Error::io(error, message).context("path", path)
}
