//! A second process out of this one, without starting a program again.

use std::io;

use rustix::process::Pid;

/// Which of the two this is.
pub(crate) enum Fork {
    /// The one that was there, and the number of the other.
    Parent(Pid),
    /// The new one.
    Child,
}

/// Makes a second process of this one, which must have a single thread.
///
/// # Errors
/// If the system has no room for another process.
pub(crate) fn fork() -> io::Result<Fork> {
    // SAFETY: a child of a process with several threads may only do what is safe
    // in a signal handler, for another thread may have held any lock. Here there
    // is one thread (`keeper::run` makes sure of it before the first fork, and
    // neither the keeper nor a supervisor starts one before its last), so the
    // child is as whole as its parent.
    #[allow(unsafe_code)]
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(Pid::from_raw(pid).map_or(Fork::Child, Fork::Parent)),
    }
}
