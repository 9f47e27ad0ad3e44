//! One channel of a connection: a shell on the far side that answers requests.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use haft_api::ErrorKind;
use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// What the far side begins with.
const TREE: &str = include_str!("far/tree.sh");
const HELPER: &str = include_str!("far/helper.sh");
const SUPERVISE: &str = include_str!("far/supervise.sh");

/// The login shell's part, in words that every such shell understands.
const BOOTSTRAP: &str = r#"exec /bin/sh -c 'IFS= read -r line; eval "$line"'"#;
/// Reads the helper, line by line, and becomes it.
const LOADER: &str = "NL=$(printf '\\n.'); NL=${NL%.}; script=; \
    while IFS= read -r line && [ \"$line\" != '#end' ]; do script=$script$line$NL; done; \
    eval \"$script\"";

/// The answer's trailer in its longest form.
const TRAILER_BYTES: usize = 64;
/// How long a request may take that has no reason to take long.
const PATIENCE: Duration = Duration::from_secs(300);

/// The supervisor's script.
pub(crate) fn supervisor() -> Vec<u8> {
    format!("{TREE}{SUPERVISE}").into_bytes()
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) body: Vec<u8>,
    pub(crate) code: u8,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).trim_end().to_owned()
    }

    /// What a failed command's code means.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self.code {
            3 => ErrorKind::NotFound,
            4 => ErrorKind::Denied,
            5 => ErrorKind::AlreadyExists,
            6 => ErrorKind::InvalidInput,
            7 => ErrorKind::Busy,
            8 => ErrorKind::Unavailable,
            _ => ErrorKind::Unexpected,
        }
    }
}

/// What is asked for: a line for the far side's shell, and bytes after it.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) line: String,
    pub(crate) body: Vec<u8>,
}

/// A running helper.
#[derive(Debug)]
pub(crate) struct Lane {
    child: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
}

impl Lane {
    /// Starts a helper by this client's command line. Dropping the lane ends the
    /// client, and with it the helper.
    pub(crate) fn start(mut command: Command) -> io::Result<Self> {
        let mut child = command
            .arg(BOOTSTRAP)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let piped = || io::Error::other("a pipe of the client is missing");
        let stdin = child.stdin.take().ok_or_else(piped)?;
        let stdout = child.stdout.take().ok_or_else(piped)?;
        Ok(Self {
            child,
            stdin,
            stdout,
        })
    }

    /// The client's standard error, if it was asked for.
    pub(crate) fn take_stderr(&mut self) -> Option<tokio::process::ChildStderr> {
        self.child.stderr.take()
    }

    /// Loads the helper, and asks it whether it can work.
    pub(crate) async fn load(&mut self, state_folder: Option<&str>) -> io::Result<Answer> {
        let folder = crate::quote::quote_lines(state_folder.unwrap_or_default());
        let script = format!("{LOADER}\nSTATE={folder}\n{TREE}{HELPER}#end\n");
        // The loader takes the place of the shell, so `eval` ends with the loop.
        self.stdin.write_all(script.as_bytes()).await?;
        let hello = Request {
            line: "hello".to_owned(),
            body: Vec::new(),
        };
        self.ask(&hello, 64 * 1024).await
    }

    /// Asks one thing. After an error the lane is of no use any more.
    pub(crate) async fn ask(&mut self, request: &Request, most: usize) -> io::Result<Answer> {
        let nonce = uuid::Uuid::new_v4().simple().to_string();
        let head = format!("{nonce} {}\n", request.line);
        let (stdin, stdout) = (&mut self.stdin, &mut self.stdout);
        let asking = async {
            stdin.write_all(head.as_bytes()).await?;
            stdin.write_all(&request.body).await?;
            stdin.flush().await
        };
        let answering = read_answer(stdout, &nonce, most);
        let both = async {
            let (asked, answered) = tokio::join!(asking, answering);
            asked.and(answered)
        };
        match tokio::time::timeout(PATIENCE, both).await {
            Ok(outcome) => outcome,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

async fn read_answer(stdout: &mut ChildStdout, nonce: &str, most: usize) -> io::Result<Answer> {
    let mark = format!("\n{nonce} ");
    let mut bytes = Vec::new();
    let mut searched = 0;
    loop {
        bytes.reserve(64 * 1024);
        if stdout.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(at) = memmem::find(&bytes[searched..], mark.as_bytes()) {
            let (at, end) = (searched + at, searched + at + mark.len());
            if let Some(code) = bytes[end..].strip_suffix(b"\n") {
                let code = std::str::from_utf8(code).ok().and_then(|c| c.parse().ok());
                let code = code.ok_or(io::ErrorKind::InvalidData)?;
                bytes.truncate(at);
                return Ok(Answer { body: bytes, code });
            }
            searched = at;
        } else {
            searched = bytes.len().saturating_sub(mark.len());
        }
        if bytes.len() > most.saturating_add(TRAILER_BYTES) {
            return Err(io::Error::other("the answer is longer than it may be"));
        }
    }
}
