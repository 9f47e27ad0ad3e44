//! 0600 and 0700, whatever the umask says.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use haft_api::{Diagnostic, DiagnosticCode};
use rustix::fs::{Mode, fstat};

use super::ops::FileOps;

const OTHERS: Mode = Mode::RWXG.union(Mode::RWXO);

/// Says so if others than the owner may do something with a file or folder.
pub(crate) fn find_loose(handle: impl AsFd, path: &Path) -> io::Result<Option<Diagnostic>> {
    let mode = permissions(&handle)?;
    Ok(mode
        .intersects(OTHERS)
        .then(|| diagnostic(path, mode, "the next writer tightens them")))
}

/// Takes everything from others than the owner, and says so if there was
/// something to take.
pub(crate) fn tighten(
    ops: &dyn FileOps,
    handle: impl AsFd,
    path: &Path,
) -> io::Result<Option<Diagnostic>> {
    let mode = permissions(&handle)?;
    if !mode.intersects(OTHERS) {
        return Ok(None);
    }
    let done = ops.set_mode(handle.as_fd(), mode - OTHERS);
    Ok(Some(match done {
        Ok(()) => diagnostic(path, mode, "tightened"),
        Err(e) => diagnostic(path, mode, &format!("they can't be tightened: {e}")),
    }))
}

/// Who may do what.
fn permissions(handle: impl AsFd) -> io::Result<Mode> {
    let all = Mode::RWXU | OTHERS;
    Ok(Mode::from_raw_mode(fstat(handle)?.st_mode) & all)
}

fn diagnostic(path: &Path, mode: Mode, what: &str) -> Diagnostic {
    Diagnostic {
        code: DiagnosticCode::LoosePermissions,
        lost: false,
        seq: None,
        place: Some(path.display().to_string()),
        message: format!(
            "others than the owner had permissions ({:03o}); {what}",
            mode.bits()
        ),
    }
}
