//! The model servers of a process: started on demand, shared, watched, and dead
//! when the process is dead.

mod launch;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use haft_api::{Error, ErrorKind, Result};
use tokio::sync::{oneshot, watch};

use crate::process::Tail;
use launch::Launched;

pub(crate) use launch::ServerSettings;

/// How long a server that is going down may take to be noticed as such.
const NOTICE: Duration = Duration::from_millis(500);

type Slot = Arc<tokio::sync::Mutex<Option<Arc<Running>>>>;

/// The servers, one per settings. They go down with this.
pub(crate) struct Servers {
    slots: Mutex<HashMap<ServerSettings, Slot>>,
    patience: Duration,
    idle: Option<Duration>,
}

impl Servers {
    /// No servers yet. A starting one may take `patience`; one that nobody has
    /// used for `idle` goes down.
    pub(crate) fn new(patience: Duration, idle: Option<Duration>) -> Self {
        Self {
            slots: Mutex::default(),
            patience,
            idle,
        }
    }

    /// The server of these settings, started if need be. Those who ask for one
    /// that is starting wait for it.
    ///
    /// # Errors
    /// That it doesn't start; the next one who asks tries anew.
    pub(crate) async fn get(&self, settings: &ServerSettings) -> Result<ServerUse> {
        let slot = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(slots.entry(settings.clone()).or_default())
        };
        let mut slot = slot.lock().await;
        if let Some(running) = slot.as_ref()
            && let Some(in_use) = ServerUse::of(running)
        {
            return Ok(in_use);
        }
        *slot = None;
        let launched = launch::launch(settings, self.patience).await?;
        let running = Arc::new(Running::watch(launched, self.idle));
        let in_use = ServerUse::of(&running).ok_or_else(|| running.gone())?;
        *slot = Some(running);
        Ok(in_use)
    }
}

/// A server that is up, or was.
struct Running {
    port: u16,
    key: String,
    stderr: Tail,
    uses: Arc<Mutex<Uses>>,
    /// Why it is no longer up.
    ended: watch::Receiver<Option<String>>,
    /// Dropping it takes the server down.
    _stop: oneshot::Sender<()>,
}

struct Uses {
    count: usize,
    last: Instant,
    /// Set once the server goes down for want of use.
    closing: bool,
}

impl Running {
    fn watch(launched: Launched, idle: Option<Duration>) -> Self {
        let Launched {
            mut group,
            lifeline,
            port,
            key,
            stderr,
        } = launched;
        let uses = Arc::new(Mutex::new(Uses {
            count: 0,
            last: Instant::now(),
            closing: false,
        }));
        let (stop, mut stopped) = oneshot::channel();
        let (end, ended) = watch::channel(None);
        let watched = Arc::clone(&uses);
        tokio::spawn(async move {
            let why = tokio::select! {
                status = group.child.wait() => match status {
                    Ok(status) => format!("it ended with {status}"),
                    Err(e) => format!("it can't be waited for: {e}"),
                },
                _ = &mut stopped => "it was shut down".to_owned(),
                () = unused(&watched, idle) => "it was shut down because nobody used it".to_owned(),
            };
            drop(lifeline);
            drop(group);
            let _ = end.send(Some(why));
        });
        Self {
            port,
            key,
            stderr,
            uses,
            ended,
            _stop: stop,
        }
    }

    fn gone(&self) -> Error {
        let why = self.ended.borrow().clone();
        let why = why.unwrap_or_else(|| "the runtime that watched it is gone".to_owned());
        let message = format!("the model server is gone: {why}; the next request starts it again");
        launch::with_output(Error::new(ErrorKind::Unavailable, message), &self.stderr)
            .operation("ask the model server")
    }

    fn is_up(&self) -> bool {
        self.ended.borrow().is_none() && self.ended.has_changed().is_ok()
    }
}

/// Returns once nobody has used the server for so long.
async fn unused(uses: &Mutex<Uses>, idle: Option<Duration>) {
    let Some(idle) = idle else {
        return std::future::pending().await;
    };
    let mut wait = idle;
    loop {
        tokio::time::sleep(wait).await;
        let mut uses = uses.lock().unwrap_or_else(PoisonError::into_inner);
        let rested = if uses.count > 0 {
            Duration::ZERO
        } else {
            uses.last.elapsed()
        };
        if rested >= idle {
            uses.closing = true;
            return;
        }
        wait = idle - rested;
    }
}

/// A server in use: as long as this is alive it doesn't go down for want of use.
pub(crate) struct ServerUse(Arc<Running>);

impl ServerUse {
    fn of(running: &Arc<Running>) -> Option<Self> {
        if !running.is_up() {
            return None;
        }
        let mut uses = running.uses.lock().unwrap_or_else(PoisonError::into_inner);
        if uses.closing {
            return None;
        }
        uses.count += 1;
        drop(uses);
        Some(Self(Arc::clone(running)))
    }

    /// Where its API is.
    pub(crate) fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.0.port)
    }

    /// The key that its API asks for.
    pub(crate) fn key(&self) -> &str {
        &self.0.key
    }

    /// What a failed request failed of, if the server went down: its end comes
    /// to notice a moment after the broken connection.
    pub(crate) async fn explain(&self, error: Error) -> Error {
        let mut ended = self.0.ended.clone();
        let end = async {
            let _ = ended.wait_for(Option::is_some).await.map(drop);
        };
        if tokio::time::timeout(NOTICE, end).await.is_err() {
            return error;
        }
        launch::settle(&self.0.stderr).await;
        self.0.gone().source(error)
    }
}

impl Drop for ServerUse {
    fn drop(&mut self) {
        let mut uses = self.0.uses.lock().unwrap_or_else(PoisonError::into_inner);
        uses.count -= 1;
        uses.last = Instant::now();
    }
}
