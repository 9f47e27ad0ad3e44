//! Child processes that don't outlive whoever started them.

use std::collections::VecDeque;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use haft_api::{Error, Result};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};

/// Lines of a program's output that are kept.
const TAIL_LINES: usize = 20;
/// Bytes of each of those lines.
const LINE_BYTES: usize = 500;

/// The last lines that a program wrote. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Tail(Arc<Mutex<VecDeque<String>>>);

impl Tail {
    /// Reads a stream to its end and keeps its last lines, the beginning of each.
    pub(crate) async fn read(self, mut stream: impl AsyncRead + Unpin) {
        let mut chunk = [0; 4096];
        let mut line = Vec::new();
        while let Ok(read @ 1..) = stream.read(&mut chunk).await {
            for &byte in &chunk[..read] {
                if byte == b'\n' {
                    self.push(&line);
                    line.clear();
                } else if line.len() < LINE_BYTES {
                    line.push(byte);
                }
            }
        }
        self.push(&line);
    }

    fn push(&self, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end();
        if line.is_empty() {
            return;
        }
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == TAIL_LINES {
            lines.pop_front();
        }
        lines.push_back(line.to_owned());
    }

    /// The lines, joined.
    pub(crate) fn text(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// A child in a process group of its own, which is killed whole when this is
/// dropped before the child has ended.
pub(crate) struct ChildGroup {
    pub(crate) child: Child,
}

impl ChildGroup {
    /// Starts a program.
    ///
    /// # Errors
    /// If it can't be started.
    pub(crate) fn spawn(command: &mut Command) -> Result<Self> {
        #[cfg(unix)]
        command.process_group(0);
        let child = command.kill_on_drop(true).spawn().map_err(|e| {
            let program = command
                .as_std()
                .get_program()
                .to_string_lossy()
                .into_owned();
            Error::io(e, "can't start a program").context("program", program)
        })?;
        Ok(Self { child })
    }
}

impl Drop for ChildGroup {
    fn drop(&mut self) {
        // The id is gone once the child was waited for, so this can't hit a
        // stranger who was given the same number.
        #[cfg(unix)]
        if let Some(pid) = self.child.id().and_then(|id| i32::try_from(id).ok())
            && let Some(pid) = rustix::process::Pid::from_raw(pid)
        {
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
    }
}

/// What a program that ran to its end left.
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Tail,
    pub(crate) stderr: Tail,
}

impl Finished {
    /// The end of what it wrote.
    pub(crate) fn output(&self) -> String {
        let (out, err) = (self.stdout.text(), self.stderr.text());
        if err.is_empty() { out } else { err }
    }
}

/// Runs a program to its end. Dropping the future kills it and its children.
///
/// # Errors
/// If it can't be started.
pub(crate) async fn run(command: &mut Command) -> Result<Finished> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut group = ChildGroup::spawn(command)?;
    let (stdout, stderr) = (Tail::default(), Tail::default());
    let out = group
        .child
        .stdout
        .take()
        .map(|stream| stdout.clone().read(stream));
    let err = group
        .child
        .stderr
        .take()
        .map(|stream| stderr.clone().read(stream));
    let drain = async {
        tokio::join!(
            async {
                if let Some(out) = out {
                    out.await;
                }
            },
            async {
                if let Some(err) = err {
                    err.await;
                }
            }
        );
    };
    let (status, ()) = tokio::join!(group.child.wait(), drain);
    let status = status.map_err(|e| Error::io(e, "can't wait for a program"))?;
    Ok(Finished {
        status,
        stdout,
        stderr,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_tail_is_bounded_whatever_a_program_writes() {
        let tail = Tail::default();
        let endless = vec![b'x'; 100_000];
        let lines: String = (0..50).map(|n| format!("line {n}\r\n\n")).collect();
        let bytes = [&endless[..], b"\n", lines.as_bytes(), b"no \xff end"].concat();
        tail.clone().read(&bytes[..]).await;
        let text = tail.text();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), TAIL_LINES);
        assert_eq!(lines[0], "line 31");
        assert_eq!(lines[TAIL_LINES - 1], "no \u{fffd} end");
        let long = Tail::default();
        long.clone().read(&endless[..]).await;
        assert_eq!(long.text().len(), LINE_BYTES);
    }
}
