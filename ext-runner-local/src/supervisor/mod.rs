//! The process between the host and a command, which sees to it that nothing
//! the command started outlives it.
//!
//! The host starts its own program again with a private first argument. That
//! process makes itself the *subreaper* of what it starts: whatever loses its
//! parent, by a double fork or `setsid`, becomes its child, not init's. So "no
//! children" means "nothing left", and killing until there are none is final.
//! The host holds one end of a socket, the supervisor the other: when the host
//! dies, however, the kernel closes that end, and the supervisor ends all. (The
//! kernel's parent-death signal would follow the host's *thread* that started the
//! supervisor, and runtimes let threads come and go.)
//!
//! This is also where a command can be confined further before it starts: the
//! supervisor is single-threaded and has nothing to lose at that point.

#[cfg(target_os = "linux")]
mod launch;
#[cfg(target_os = "linux")]
mod watch;
#[cfg(target_os = "linux")]
mod wire;

#[cfg(target_os = "linux")]
pub(crate) use wire::{Launch, Report, Status, send_launch};

use std::sync::atomic::{AtomicBool, Ordering};

/// The private first argument.
#[cfg(target_os = "linux")]
pub(crate) const ARGUMENT: &str = "__haft-supervise";

/// Whether this program answers to [`ARGUMENT`]. A fact about the binary, not a
/// setting: it can only ever become true.
static ANSWERS: AtomicBool = AtomicBool::new(false);

/// Becomes a supervisor, and never returns, if the program was started as one;
/// otherwise returns at once.
///
/// Call it first thing in `main`, before a runtime or any thread is started.
/// Having been called, it lets [`LocalRunner`](crate::LocalRunner) start this
/// very program again as the supervisor of its commands. A program that never
/// calls it is never started again; see
/// [`LocalConfig::supervisor`](crate::LocalConfig::supervisor).
///
/// ```
/// haft_ext_runner_local::supervise_if_asked();
/// // From here on the program is what it is.
/// ```
pub fn supervise_if_asked() {
    ANSWERS.store(true, Ordering::Release);
    #[cfg(target_os = "linux")]
    if std::env::args_os()
        .nth(1)
        .is_some_and(|argument| argument == ARGUMENT)
    {
        std::process::exit(watch::supervise());
    }
}

/// Whether [`supervise_if_asked`] was called in this process.
pub(crate) fn answers() -> bool {
    ANSWERS.load(Ordering::Acquire)
}
