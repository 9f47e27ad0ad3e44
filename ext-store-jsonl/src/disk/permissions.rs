//! 0600 and 0700, whatever the umask says.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use haft_api::{Diagnostic, DiagnosticCode};
use rustix::fs::{Mode, fstat};

use super::ops::FileOps;

const OTHERS: u32 = 0o077;

/// Says so if others than the owner may do something with a file or folder.
pub(crate) fn find_loose(handle: impl AsFd, path: &Path) -> io::Result<Option<Diagnostic>> {
    let mode = fstat(handle)?.st_mode & 0o777;
    Ok((mode & OTHERS != 0).then(|| diagnostic(path, mode, "the next writer tightens them")))
}

/// Takes everything from others than the owner, and says so if there was
/// something to take.
pub(crate) fn tighten(
    ops: &dyn FileOps,
    handle: impl AsFd,
    path: &Path,
) -> io::Result<Option<Diagnostic>> {
    let mode = fstat(&handle)?.st_mode & 0o777;
    if mode & OTHERS == 0 {
        return Ok(None);
    }
    let done = ops.set_mode(handle.as_fd(), Mode::from_raw_mode(mode & !OTHERS));
    Ok(Some(match done {
        Ok(()) => diagnostic(path, mode, "tightened"),
        Err(e) => diagnostic(path, mode, &format!("they can't be tightened: {e}")),
    }))
}

fn diagnostic(path: &Path, mode: u32, what: &str) -> Diagnostic {
    Diagnostic {
        code: DiagnosticCode::LoosePermissions,
        lost: false,
        seq: None,
        place: Some(path.display().to_string()),
        message: format!("others than the owner had permissions ({mode:03o}); {what}"),
    }
}
