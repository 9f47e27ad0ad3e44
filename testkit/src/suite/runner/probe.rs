//! What the cases let processes do.

use std::time::Duration;

/// Something that a case wants a process to do. A fixture says how its
/// sandboxes do it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Probe {
    /// Print this on standard output and this on standard error, and exit 0.
    Print {
        /// For standard output.
        stdout: String,
        /// For standard error.
        stderr: String,
    },
    /// Print a file, by a path relative to where it was started.
    PrintFile(String),
    /// Print the value of a variable.
    PrintVariable(String),
    /// Print so many bytes `x` as fast as possible.
    Flood(usize),
    /// Copy standard input to standard output until its end.
    Copy,
    /// Exit with this code.
    Exit(i32),
    /// Die of the signal that kills at once.
    KillItself,
    /// Print `begun`, and after that take this long.
    Sleep(Duration),
    /// Make a symbolic link at `path`, relative to where it was started.
    Link {
        /// Where.
        path: String,
        /// Where it leads.
        target: String,
    },
    /// Leave a process behind that writes a file (relative to where it was
    /// started) after a while, and exit 0 at once.
    LeaveBehind {
        /// What the left one writes.
        file: String,
        /// After how long.
        after: Duration,
        /// Whether it makes itself a session of its own before.
        own_session: bool,
    },
    /// Write a file (relative to where it was started) after a while, from a
    /// process that this one has started, and sleep for a minute.
    WriteLater {
        /// What is written.
        file: String,
        /// After how long.
        after: Duration,
    },
}

/// The command that does it where there is a POSIX shell.
///
/// ```
/// use haft_testkit::{Probe, posix_command};
///
/// assert_eq!(posix_command(&Probe::Exit(3)).unwrap(), ["/bin/sh", "-c", "exit 3"]);
/// ```
pub fn posix_command(probe: &Probe) -> Option<Vec<String>> {
    let seconds = |time: &Duration| format!("{:.3}", time.as_secs_f64());
    let line = match probe {
        Probe::Print { stdout, stderr } => {
            format!(
                "printf %s {}; printf %s {} >&2",
                quote(stdout),
                quote(stderr)
            )
        }
        Probe::PrintFile(path) => format!("cat -- {}", quote(path)),
        Probe::PrintVariable(name) => format!("printf %s \"${name}\""),
        Probe::Flood(bytes) => format!("head -c {bytes} /dev/zero | tr '\\0' x"),
        Probe::Copy => "cat".to_owned(),
        Probe::Exit(code) => format!("exit {code}"),
        Probe::KillItself => "kill -9 $$".to_owned(),
        Probe::Sleep(time) => format!("printf begun; sleep {}; exit 0", seconds(time)),
        Probe::Link { path, target } => format!("ln -s -- {} {}", quote(target), quote(path)),
        Probe::LeaveBehind {
            file,
            after,
            own_session,
        } => {
            let later = format!("sleep {}; echo x > {}", seconds(after), quote(file));
            let session = if *own_session { "setsid " } else { "" };
            format!(
                "{session}sh -c {} >/dev/null 2>&1 </dev/null & sleep 0.3; exit 0",
                quote(&later)
            )
        }
        Probe::WriteLater { file, after } => {
            format!(
                "(sleep {}; echo x > {}) & sleep 60",
                seconds(after),
                quote(file)
            )
        }
    };
    Some(["/bin/sh", "-c", &line].map(str::to_owned).into())
}

/// A word of the shell that stands for just this text.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
