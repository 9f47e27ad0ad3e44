//! One connection to the far side, shared by several channels.

use std::collections::HashMap;
use std::io;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use haft_api::{Error, ErrorKind, Result};
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::sync::Semaphore;

use crate::client;
use crate::config::SshConfig;
use crate::wire::{Answer, Lane, Request};

/// Channels at a time besides the one that watches. A server allows ten by
/// default.
const WORKERS: usize = 4;
const FEEDERS: usize = 3;

/// What a channel is used for: what may wait for long mustn't hold up the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Files, starts, output: ends soon.
    Work,
    /// Standard input of a process: may wait until the process reads.
    Feed,
    /// Waiting for news.
    Watch,
}

/// Why an answer didn't come.
#[derive(Debug)]
pub(crate) enum Failed {
    /// Nothing was asked.
    NotAsked(Error),
    /// The connection was cut after the question.
    Cut(io::Error),
}

/// An authenticated connection.
#[derive(Debug)]
pub(crate) struct Connection {
    config: SshConfig,
    host: String,
    workers: Semaphore,
    feeders: Semaphore,
    watcher: Semaphore,
    free: Mutex<Vec<Lane>>,
    /// The channel of the client that holds the connection. It watches.
    master: Mutex<Option<Lane>>,
    dead: AtomicBool,
    /// Ports over there that are passed on, with those here.
    ports: tokio::sync::Mutex<HashMap<u16, u16>>,
    folder: TempDir,
}

impl Connection {
    /// Connects, logs in and looks whether the far side has what is needed.
    pub(crate) async fn open(config: &SshConfig) -> Result<Self> {
        let host = config.host.clone().ok_or_else(|| {
            Error::new(
                ErrorKind::Unavailable,
                "there is no host: set `host` in `[ext.runner-ssh]`",
            )
            .permanent()
        })?;
        let folder = tempfile::Builder::new()
            .prefix("haft-ssh-")
            .tempdir()
            .map_err(|e| Error::io(e, "the control socket's folder can't be made"))?;
        let mut command = client::command(config, &host, &folder.path().join("c"), true);
        command.stderr(Stdio::piped());
        let mut master = Lane::start(command).map_err(|e| {
            Error::io(
                e,
                "the SSH client can't be started: install it, or set `program`",
            )
            .context("program", config.program.display())
        })?;
        let stderr = master.take_stderr();
        let words = tokio::spawn(async move {
            let mut words = Vec::new();
            if let Some(mut stderr) = stderr {
                // Its first words tell why; the pipe is emptied to its end.
                let mut piece = [0; 4096];
                while let Ok(read @ 1..) = stderr.read(&mut piece).await {
                    if words.len() < 16 * 1024 {
                        words.extend_from_slice(&piece[..read]);
                    }
                }
            }
            String::from_utf8_lossy(&words).into_owned()
        });
        let limit = Duration::from_millis(config.connect_timeout_ms);
        let loaded = tokio::time::timeout(limit, master.load(config.state_folder.as_deref()));
        let hello = match loaded.await {
            Ok(Ok(hello)) => hello,
            Ok(Err(_)) => {
                drop(master);
                return Err(client::explain(config, &words.await.unwrap_or_default()));
            }
            Err(_) => {
                return Err(Error::new(
                    ErrorKind::Timeout,
                    format!("{} didn't answer in time", config.place()),
                )
                .temporary()
                .context("limit_ms", config.connect_timeout_ms));
            }
        };
        usable(config, &hello)?;
        Ok(Self {
            config: config.clone(),
            host,
            workers: Semaphore::new(WORKERS),
            feeders: Semaphore::new(FEEDERS),
            watcher: Semaphore::new(1),
            free: Mutex::default(),
            master: Mutex::new(Some(master)),
            dead: AtomicBool::new(false),
            ports: tokio::sync::Mutex::default(),
            folder,
        })
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    /// Ends it: what is under way fails.
    pub(crate) fn end(&self) {
        self.dead.store(true, Ordering::Release);
        lock(&self.free).clear();
        lock(&self.master).take();
    }

    /// Asks one thing on a channel of its own.
    pub(crate) async fn ask(
        &self,
        channel: Use,
        request: &Request,
        most: usize,
    ) -> Result<Answer, Failed> {
        let limit = match channel {
            Use::Work => &self.workers,
            Use::Feed => &self.feeders,
            Use::Watch => &self.watcher,
        };
        let closed = || Failed::NotAsked(Error::new(ErrorKind::Unavailable, "the link is closed"));
        let _turn = limit.acquire().await.map_err(|_| closed())?;
        let mut lane = self.lane(channel).await.map_err(Failed::NotAsked)?;
        let answer = match lane.ask(request, most).await {
            Ok(answer) => answer,
            Err(e) => {
                self.end();
                return Err(Failed::Cut(e));
            }
        };
        // A process that didn't read all its input leaves some in the channel.
        let clean = channel != Use::Feed || answer.code == 0;
        if clean && !self.is_dead() {
            match channel {
                Use::Watch => *lock(&self.master) = Some(lane),
                _ => lock(&self.free).push(lane),
            }
        }
        Ok(answer)
    }

    /// A port of this machine from which a port over there is reached, for as long as
    /// this connection lasts. Nobody needs to listen there yet.
    pub(crate) async fn port(&self, there: u16) -> Result<u16> {
        let mut ports = self.ports.lock().await;
        if let Some(here) = ports.get(&there) {
            return Ok(*here);
        }
        let fail = |e: io::Error| {
            Error::io(e, "a port of this machine can't be passed on")
                .context("host", self.config.place())
                .context("port", there)
        };
        // Free a moment ago; the client says if it isn't any more.
        let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr());
        let here = free.map_err(fail)?.port();
        let socket = self.folder.path().join("c");
        let mut command = client::forward(&self.config, &self.host, &socket, (here, there));
        command.stdin(Stdio::null()).kill_on_drop(true);
        let limit = Duration::from_millis(self.config.connect_timeout_ms);
        let asked = tokio::time::timeout(limit, command.output()).await;
        let output = asked
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(fail)?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(Error::new(
                ErrorKind::Unavailable,
                "the SSH client doesn't pass the port on; the server may not allow it",
            )
            .context("host", self.config.place())
            .context("port", there)
            .context("ssh", words.trim()));
        }
        ports.insert(there, here);
        Ok(here)
    }

    async fn lane(&self, channel: Use) -> Result<Lane> {
        let free = match channel {
            Use::Watch => lock(&self.master).take(),
            _ => lock(&self.free).pop(),
        };
        if let Some(lane) = free {
            return Ok(lane);
        }
        let socket = self.folder.path().join("c");
        let mut command = client::command(&self.config, &self.host, &socket, false);
        command.stderr(Stdio::null());
        let fail = |e| {
            self.end();
            Error::io(e, format!("{} doesn't open a channel", self.config.place())).temporary()
        };
        let mut lane = Lane::start(command).map_err(fail)?;
        let limit = Duration::from_millis(self.config.connect_timeout_ms);
        let loading = lane.load(self.config.state_folder.as_deref());
        let hello = match tokio::time::timeout(limit, loading).await {
            Ok(hello) => hello.map_err(fail)?,
            Err(_) => return Err(fail(io::ErrorKind::TimedOut.into())),
        };
        usable(&self.config, &hello)?;
        Ok(lane)
    }
}

/// Whether sessions can be had on the far side.
fn usable(config: &SshConfig, hello: &Answer) -> Result<()> {
    match hello.code {
        0 => Ok(()),
        6 => Err(Error::new(
            ErrorKind::Unsupported,
            format!("{} lacks what a runner needs there", config.place()),
        )
        .context("missing", hello.text())),
        _ => Err(Error::new(
            hello.kind(),
            "the folder for sessions can't be made on the far side: set `state_folder`",
        )
        .context("host", config.place())
        .context("folder", hello.text())),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Every change under these locks is a whole one.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
