//! Ctrl-C: the first interrupts, the second leaves at once. So does a polite
//! request to end (SIGTERM).

use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::failure::INTERRUPTED;

/// Listens for the rest of the process's life. Must be made within a runtime
/// that runs its tasks while the main thread is busy.
#[derive(Clone)]
pub(crate) struct Signals {
    /// What the next signal interrupts, if there is anything.
    current: Arc<Mutex<Option<CancellationToken>>>,
}

impl Signals {
    /// Begins to listen.
    pub(crate) fn listen() -> Self {
        let signals = Self {
            current: Arc::default(),
        };
        let heard = signals.clone();
        tokio::spawn(async move {
            let mut incoming = Incoming::new();
            loop {
                incoming.next().await;
                heard.signalled();
            }
        });
        signals
    }

    fn signalled(&self) {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        match &*current {
            Some(token) if !token.is_cancelled() => token.cancel(),
            _ => std::process::exit(INTERRUPTED.into()),
        }
    }

    /// Something begins that the next signal interrupts, until the guard is
    /// dropped. Once it is interrupted, the signal after that ends the process.
    pub(crate) fn interruptible(&self) -> Interruptible {
        let token = CancellationToken::new();
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
        Interruptible {
            signals: self.clone(),
            token,
        }
    }
}

/// See [`Signals::interruptible`].
pub(crate) struct Interruptible {
    signals: Signals,
    token: CancellationToken,
}

impl Interruptible {
    /// Cancelled by the first signal.
    pub(crate) fn token(&self) -> &CancellationToken {
        &self.token
    }
}

impl Drop for Interruptible {
    fn drop(&mut self) {
        *self
            .signals
            .current
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(unix)]
struct Incoming {
    interrupt: Option<tokio::signal::unix::Signal>,
    terminate: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Incoming {
    /// A signal that can't be listened for keeps the system's own way.
    fn new() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        Self {
            interrupt: signal(SignalKind::interrupt()).ok(),
            terminate: signal(SignalKind::terminate()).ok(),
        }
    }

    async fn next(&mut self) {
        async fn of(signal: &mut Option<tokio::signal::unix::Signal>) {
            let heard = match signal {
                Some(signal) => signal.recv().await,
                None => None,
            };
            if heard.is_none() {
                std::future::pending::<()>().await;
            }
        }
        tokio::select! {
            () = of(&mut self.interrupt) => {}
            () = of(&mut self.terminate) => {}
        }
    }
}

#[cfg(not(unix))]
struct Incoming;

#[cfg(not(unix))]
impl Incoming {
    fn new() -> Self {
        Self
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
