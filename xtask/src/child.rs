//! Running a program and reading what it prints, as it prints it.

use std::io::{BufRead, BufReader, pipe};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::Result;

/// How long to wait for more output once the program itself has ended.
const GRACE: Duration = Duration::from_secs(1);

/// What the program does.
pub(crate) enum Event<'a> {
    /// It printed a line, to either of its outputs, in the order it did so.
    Line(&'a str),
    /// It has been silent for a moment.
    Silence,
}

/// How it ended.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// True if some process that it started still holds its output open.
    pub(crate) left_processes: bool,
}

/// Runs a program without input to its end.
///
/// # Errors
/// If it can't be started.
pub(crate) fn run(mut command: Command, mut on_event: impl FnMut(Event<'_>)) -> Result<Ended> {
    // One pipe for both outputs, so that their lines stay in order.
    let (reader, writer) = pipe()?;
    command
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .env("CARGO_TERM_COLOR", "never");
    let mut child = command
        .spawn()
        .map_err(|e| format!("cannot run {command:?}: {e}"))?;
    // It holds our copies of the pipe's writing end.
    drop(command);

    let (sender, lines) = channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(reader);
        let mut line = Vec::new();
        while reader
            .read_until(b'\n', &mut line)
            .is_ok_and(|length| length > 0)
        {
            let text = String::from_utf8_lossy(&line);
            if sender
                .send(text.trim_end_matches(['\r', '\n']).to_owned())
                .is_err()
            {
                return;
            }
            line.clear();
        }
    });
    // A process that outlives the program may keep the pipe open for ever, so the
    // pipe's end alone can't tell that the program has ended.
    let mut ended = None;
    loop {
        match lines.recv_timeout(GRACE) {
            Ok(line) => on_event(Event::Line(&line)),
            Err(RecvTimeoutError::Disconnected) => {
                let status = child.wait()?;
                return Ok(Ended {
                    status,
                    left_processes: false,
                });
            }
            Err(RecvTimeoutError::Timeout) => match ended {
                Some(status) => {
                    return Ok(Ended {
                        status,
                        left_processes: true,
                    });
                }
                None => {
                    on_event(Event::Silence);
                    ended = child.try_wait()?;
                }
            },
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::time::Instant;

    fn shell(script: &str) -> (Ended, Vec<String>) {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let mut lines = Vec::new();
        let ended = run(command, |event| {
            if let Event::Line(line) = event {
                lines.push(line.to_owned());
            }
        });
        (ended.unwrap(), lines)
    }

    #[test]
    fn both_outputs_come_in_order_with_the_status() {
        let (ended, lines) = shell("echo a; echo b >&2; printf '\\377c\\r\\nd'; exit 3");
        assert_eq!(lines, ["a", "b", "\u{fffd}c", "d"]);
        assert_eq!(ended.status.code(), Some(3));
        assert!(!ended.left_processes);
    }

    #[test]
    fn a_process_that_stays_does_not_hold_us() {
        let start = Instant::now();
        let (ended, lines) = shell("sleep 60 & echo $!");
        let pid = &lines[0];
        Command::new("kill").arg(pid).status().unwrap();
        assert!(ended.status.success());
        assert!(ended.left_processes);
        assert!(start.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = run(Command::new("no-such-program"), |_| {})
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("no-such-program"), "{error}");
    }
}
