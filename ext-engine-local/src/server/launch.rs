//! Starting a server and waiting until it answers.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use haft_api::{Error, ErrorKind, Result};
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{ChildStdin, ChildStdout, Command};
use uuid::Uuid;

use crate::process::{ChildGroup, Tail};
use crate::provision::{ServerProgram, python_command};

const STARTER: &str = include_str!("starter.py");
#[cfg(unix)]
const LIFELINE: &str = include_str!("lifeline.sh");

/// How often a starting server is asked whether it is ready.
const HEALTH_INTERVAL: Duration = Duration::from_millis(50);
/// How often another port is tried where somebody else took the one chosen.
const PORT_TRIES: usize = 3;

/// What a server is started with. Equal settings share one server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ServerSettings {
    pub(crate) program: ServerProgram,
    /// The weights, an absolute path.
    pub(crate) model: PathBuf,
    pub(crate) threads: u32,
    pub(crate) context_tokens: u32,
}

/// A server that has just become ready.
pub(crate) struct Launched {
    pub(crate) group: ChildGroup,
    /// The lifeline: the server dies when this is closed.
    pub(crate) lifeline: ChildStdin,
    pub(crate) port: u16,
    pub(crate) key: String,
    pub(crate) stderr: Tail,
}

/// Starts a server and waits until it has loaded its model.
///
/// # Errors
/// [`ErrorKind::Unavailable`] if it ends instead, [`ErrorKind::Timeout`] if it
/// takes too long; each with the last lines that it wrote.
pub(crate) async fn launch(settings: &ServerSettings, patience: Duration) -> Result<Launched> {
    let mut tries = 0;
    loop {
        tries += 1;
        let failure = match start(settings, patience).await {
            Ok(launched) => return Ok(launched),
            Err(failure) => failure,
        };
        if !failure.port_taken || tries == PORT_TRIES {
            return Err(failure
                .error
                .operation("start the model server")
                .context("model", settings.model.display()));
        }
    }
}

struct Failure {
    error: Error,
    port_taken: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            error,
            port_taken: false,
        }
    }
}

async fn start(settings: &ServerSettings, patience: Duration) -> Result<Launched, Failure> {
    // Version 4: 122 bits from the system's random source.
    let key = Uuid::new_v4().simple().to_string();
    let (mut command, mut port) = match &settings.program {
        ServerProgram::Python(python) => {
            let mut command = python_command(python);
            command
                .args(["-c", STARTER])
                .env("OMP_WAIT_POLICY", "PASSIVE");
            (command, None)
        }
        ServerProgram::Native(program) => {
            let port = free_port()?;
            (native_command(program, settings, port, &key)?, Some(port))
        }
    };
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut group = ChildGroup::spawn(&mut command)?;
    let stderr = Tail::default();
    if let Some(stream) = group.child.stderr.take() {
        tokio::spawn(stderr.clone().read(stream));
    }
    let missing = || Error::new(ErrorKind::Unexpected, "a child process has no pipe");
    let mut lifeline = group.child.stdin.take().ok_or_else(missing)?;
    let stdout = group.child.stdout.take().ok_or_else(missing)?;
    let python = port.is_none();
    let ready = async {
        if python {
            send_settings(&mut lifeline, settings, &key).await;
        }
        let mut stdout = BufReader::new(stdout);
        if python {
            port = Some(announced_port(&mut stdout).await?);
        }
        // A full pipe would block the server.
        tokio::spawn(Tail::default().read(stdout));
        let port = port?;
        while !is_healthy(port, &key).await {
            tokio::time::sleep(HEALTH_INTERVAL).await;
        }
        Some(port)
    };
    let outcome = tokio::select! {
        // First of all: a stranger may answer at the port that the server wanted.
        biased;
        status = group.child.wait() => Err(match status {
            Ok(status) => format!("it ended with {status}"),
            Err(e) => format!("it can't be waited for: {e}"),
        }),
        ready = tokio::time::timeout(patience, ready) => match ready {
            Ok(Some(port)) => Ok(port),
            // Standard output ended without the line; the process is ending.
            Ok(None) => Err(match tokio::time::timeout(patience, group.child.wait()).await {
                Ok(Ok(status)) => format!("it ended with {status}"),
                _ => "it closed its output".to_owned(),
            }),
            Err(_) => {
                let message = format!(
                    "the model server wasn't ready after {} s: use a smaller model, \
                     or raise `start_timeout_seconds`",
                    patience.as_secs()
                );
                let error = Error::new(ErrorKind::Timeout, message);
                return Err(with_output(error, &stderr).into());
            }
        },
    };
    match outcome {
        Ok(port) => Ok(Launched {
            group,
            lifeline,
            port,
            key,
            stderr,
        }),
        Err(why) => {
            settle(&stderr).await;
            let text = stderr.text().to_lowercase();
            let port_taken = !python
                && (text.contains("address already in use") || text.contains("couldn't bind"));
            let message = format!("the model server didn't start: {why}");
            // The same model will fail in the same way.
            let error = Error::new(ErrorKind::Unavailable, message).permanent();
            Err(Failure {
                error: with_output(error, &stderr),
                port_taken,
            })
        }
    }
}

/// Lets the last lines of a process that has ended arrive.
pub(crate) async fn settle(tail: &Tail) {
    for _ in 0..10 {
        let before = tail.text();
        tokio::time::sleep(Duration::from_millis(20)).await;
        if !before.is_empty() && tail.text() == before {
            return;
        }
    }
}

/// Adds what a server wrote last.
pub(crate) fn with_output(error: Error, stderr: &Tail) -> Error {
    let text = stderr.text();
    if text.is_empty() {
        error
    } else {
        error.context("output", text)
    }
}

#[cfg(unix)]
fn native_command(
    program: &std::path::Path,
    settings: &ServerSettings,
    port: u16,
    key: &str,
) -> Result<Command> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", LIFELINE, "sh"]).arg(program);
    command.arg("--model").arg(&settings.model);
    let threads = settings.threads.to_string();
    // Only options that llama-server has had for years: its version is unknown.
    command
        .args(["--host", "127.0.0.1", "--port", &port.to_string()])
        .args(["--threads", &threads, "--threads-batch", &threads])
        .args(["--ctx-size", &settings.context_tokens.to_string()])
        .args(["--parallel", "1", "--jinja"])
        // The environment, unlike the arguments, is readable by its owner alone.
        .env("LLAMA_API_KEY", key)
        .env("OMP_WAIT_POLICY", "PASSIVE");
    Ok(command)
}

#[cfg(not(unix))]
fn native_command(
    program: &std::path::Path,
    _: &ServerSettings,
    _: u16,
    _: &str,
) -> Result<Command> {
    Err(Error::new(
        ErrorKind::Unsupported,
        "a native llama-server can only be used on Unix",
    )
    .context("program", program.display()))
}

async fn send_settings(lifeline: &mut ChildStdin, settings: &ServerSettings, key: &str) {
    #[derive(Serialize)]
    struct Line<'a> {
        model: std::borrow::Cow<'a, str>,
        key: &'a str,
        context_tokens: u32,
        threads: u32,
    }
    let line = Line {
        model: settings.model.to_string_lossy(),
        key,
        context_tokens: settings.context_tokens,
        threads: settings.threads,
    };
    let mut line = serde_json::to_vec(&line).unwrap_or_default();
    line.push(b'\n');
    // If this fails the process has ended, which is noticed elsewhere.
    let _ = lifeline.write_all(&line).await;
    let _ = lifeline.flush().await;
}

/// The port in the line that the starter prints.
async fn announced_port(stdout: &mut BufReader<ChildStdout>) -> Option<u16> {
    let mut line = String::new();
    loop {
        line.clear();
        if stdout.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        if let Some(address) = line.trim().strip_prefix("listening ") {
            return address
                .rsplit(':')
                .next()?
                .trim_end_matches('/')
                .parse()
                .ok();
        }
    }
}

/// A port that nobody listens on at the moment.
fn free_port() -> Result<u16> {
    std::net::TcpListener::bind(("127.0.0.1", 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|e| Error::io(e, "can't find a free port on 127.0.0.1"))
}

/// Whether the server at this port has loaded its model, and is the one that was
/// started: while it loads it says 503, and a stranger who took the port in the
/// meantime doesn't know the key or doesn't ask for one.
async fn is_healthy(port: u16, key: &str) -> bool {
    const CHECKS: [(&str, bool, u16); 3] = [
        ("/health", false, 200),
        ("/props", false, 401),
        ("/props", true, 200),
    ];
    for (path, with_key, expected) in CHECKS {
        let ask = status(port, path, with_key.then_some(key));
        let answer = tokio::time::timeout(Duration::from_secs(2), ask).await;
        if answer.ok().flatten() != Some(expected) {
            return false;
        }
    }
    true
}

/// The status of a GET request.
pub(crate) async fn status(port: u16, path: &str, key: Option<&str>) -> Option<u16> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let key = key
        .map(|key| format!("Authorization: Bearer {key}\r\n"))
        .unwrap_or_default();
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{key}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut head = [0; 12];
    stream.read_exact(&mut head).await.ok()?;
    let text = std::str::from_utf8(&head).ok()?;
    text.strip_prefix("HTTP/1.")?.get(2..)?.parse().ok()
}
