//! The processes between the host and a session's commands, which confine them,
//! and see to it that nothing a command started outlives it.
//!
//! The host starts its own program again, once a session, with a private first
//! argument. That process, the *keeper*, shuts itself in as far as the machine
//! allows (see `sandbox`), and then forks a *supervisor* for each command. That
//! one makes itself the *subreaper* of what it starts: whatever loses its parent,
//! by a double fork or `setsid`, becomes its child, not init's. So "no children"
//! means "nothing left", and killing until there are none is final. The host
//! holds one end of a socket, the supervisor the other: when the host dies,
//! however, the kernel closes that end, and the supervisor ends all. (The
//! kernel's parent-death signal would follow the host's *thread* that started the
//! supervisor, and runtimes let threads come and go.) Whatever a supervisor that
//! was itself killed leaves behind falls to the keeper, and is killed there. Where
//! this code is in a shared object, the program isn't its own, and the keeper comes
//! about in another way (see `loaded`).

#[cfg(target_os = "linux")]
mod fork;
#[cfg(target_os = "linux")]
mod inherited;
#[cfg(target_os = "linux")]
mod keeper;
#[cfg(target_os = "linux")]
mod launch;
#[cfg(target_os = "linux")]
mod loaded;
#[cfg(target_os = "linux")]
mod program;
#[cfg(target_os = "linux")]
mod watch;
#[cfg(target_os = "linux")]
mod wire;

#[cfg(target_os = "linux")]
pub(crate) use fork::{Fork, fork};
#[cfg(target_os = "linux")]
pub(crate) use program::Program;
#[cfg(target_os = "linux")]
pub(crate) use wire::{Launch, Met, Report, Status, send_descriptors, send_launch};

use std::sync::atomic::{AtomicBool, Ordering};

/// The private first argument.
#[cfg(target_os = "linux")]
pub(crate) const ARGUMENT: &str = "__haft-supervise";

/// Whether this program answers to [`ARGUMENT`]. A fact about the binary, not a
/// setting: it can only ever become true.
static ANSWERS: AtomicBool = AtomicBool::new(false);

/// Becomes the keeper of a session's commands, and never returns, if the program was started as one;
/// otherwise returns at once.
///
/// Call it first thing in `main`, before a runtime or any thread is started.
/// Having been called, it lets [`LocalRunner`](crate::LocalRunner) start this
/// very program again to look after its commands. A program that never
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
        std::process::exit(keeper::keep());
    }
}

/// Whether [`supervise_if_asked`] was called in this process.
#[cfg(target_os = "linux")]
pub(crate) fn answers() -> bool {
    ANSWERS.load(Ordering::Acquire)
}
