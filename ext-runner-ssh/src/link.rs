//! The way to the far side, made anew when it was cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haft_api::{Error, ErrorKind, Result};
use tokio::time::Instant;

use crate::config::SshConfig;
use crate::connection::{Connection, Failed, Use};
use crate::wire::{Answer, Request};

/// What is asked over a link.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) channel: Use,
    pub(crate) request: Request,
    /// Whether asking again does no harm when nobody knows what came of it.
    pub(crate) again: bool,
    /// Most bytes of an answer.
    pub(crate) most: usize,
}

impl Call {
    /// A question that may be asked again.
    pub(crate) fn new(line: String) -> Self {
        Self {
            channel: Use::Work,
            request: Request {
                line,
                body: Vec::new(),
            },
            again: true,
            most: 64 * 1024 * 1024,
        }
    }

    pub(crate) fn body(mut self, body: Vec<u8>) -> Self {
        self.request.body = body;
        self
    }

    pub(crate) fn on(mut self, channel: Use) -> Self {
        self.channel = channel;
        self
    }

    pub(crate) fn once(mut self) -> Self {
        self.again = false;
        self
    }

    pub(crate) fn most(mut self, bytes: u64) -> Self {
        self.most = usize::try_from(bytes).unwrap_or(usize::MAX);
        self
    }
}

/// The one link of a provider.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) config: SshConfig,
    current: tokio::sync::Mutex<Option<Arc<Connection>>>,
    /// It was there once: then a failure may pass.
    was_up: AtomicBool,
}

impl Link {
    pub(crate) fn new(config: SshConfig) -> Self {
        Self {
            config,
            current: tokio::sync::Mutex::new(None),
            was_up: AtomicBool::new(false),
        }
    }

    /// The connection, made if need be.
    pub(crate) async fn connection(&self) -> Result<Arc<Connection>> {
        let end = Instant::now() + Duration::from_millis(self.config.reconnect_ms);
        let mut pause = Duration::from_millis(100);
        let mut current = self.current.lock().await;
        if let Some(connection) = current.as_ref().filter(|c| !c.is_dead()) {
            return Ok(Arc::clone(connection));
        }
        *current = None;
        loop {
            match Connection::open(&self.config).await {
                Ok(connection) => {
                    let connection = Arc::new(connection);
                    *current = Some(Arc::clone(&connection));
                    self.was_up.store(true, Ordering::Release);
                    return Ok(connection);
                }
                Err(e) => {
                    let may_pass = e.is_temporary() && self.was_up.load(Ordering::Acquire);
                    if !may_pass || Instant::now() + pause > end {
                        return Err(e);
                    }
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(2));
        }
    }

    /// A port of this machine from which one over there is reached; another one once
    /// the connection was made anew.
    pub(crate) async fn port(&self, there: u16) -> Result<u16> {
        // That the connection is gone may show only now: any question finds out.
        let line = "hello".to_owned();
        self.ask_here(Call::new(line)).await?;
        self.connection().await?.port(there).await
    }

    /// Asks, and sees it through even if the caller is dropped: a channel is of
    /// no use in the middle of an answer.
    pub(crate) async fn ask(self: &Arc<Self>, call: Call) -> Result<Answer> {
        let link = Arc::clone(self);
        let task = tokio::spawn(async move { link.ask_here(call).await });
        task.await
            .unwrap_or_else(|e| Err(Error::new(ErrorKind::Unexpected, e.to_string())))
    }

    async fn ask_here(&self, call: Call) -> Result<Answer> {
        let mut tries = 4;
        loop {
            tries -= 1;
            let connection = self.connection().await?;
            let answer = connection.ask(call.channel, &call.request, call.most).await;
            let error = match answer {
                Ok(answer) => return Ok(answer),
                Err(Failed::NotAsked(e)) => e,
                Err(Failed::Cut(e)) => {
                    let error = Error::new(
                        ErrorKind::Unavailable,
                        format!("the connection to {} was cut", self.config.place()),
                    )
                    .source(e);
                    if !call.again {
                        return Err(error
                            .permanent()
                            .context("outcome", "unknown: it may have been done"));
                    }
                    error
                }
            };
            if tries == 0 || !error.is_temporary() {
                return Err(error);
            }
        }
    }
}
