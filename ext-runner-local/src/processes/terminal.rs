//! Pseudo terminals.

use std::io;
use std::os::fd::OwnedFd;

use haft_api::PtySize;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// A terminal: the end of whoever looks at it, and the command's.
#[derive(Debug)]
pub(crate) struct Terminal {
    pub(crate) ours: OwnedFd,
    pub(crate) theirs: OwnedFd,
}

impl Terminal {
    /// Opens a new one.
    ///
    /// # Errors
    /// If the system has none to give.
    pub(crate) fn open(size: PtySize) -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = openpt(flags)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let theirs = ioctl_tiocgptpeer(&ours, flags)?;
        resize(&ours, size)?;
        Ok(Self { ours, theirs })
    }
}

/// Tells a terminal its size, and what runs on it that it has changed.
pub(crate) fn resize(terminal: &OwnedFd, size: PtySize) -> io::Result<()> {
    let size = Winsize {
        ws_row: size.rows,
        ws_col: size.columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    Ok(tcsetwinsize(terminal, size)?)
}
