//! Ctrl-C: the first interrupts, the second leaves at once. So does a polite
//! request to end (SIGTERM).

use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::failure::INTERRUPTED;

/// Listens for the rest of the process's life.
#[derive(Clone)]
pub(crate) struct Signals {
    /// What the next signal interrupts, if there is anything.
    current: Arc<Mutex<Option<CancellationToken>>>,
    last_resort: LastResort,
}

impl Signals {
    /// Begins to listen. Must be called within a tokio runtime.
    pub(crate) fn listen() -> Self {
        let signals = Self {
            current: Arc::default(),
            last_resort: LastResort::new(),
        };
        let heard = Arc::clone(&signals.current);
        tokio::spawn(async move {
            let mut incoming = Incoming::new();
            loop {
                incoming.next().await;
                let current = heard.lock().unwrap_or_else(PoisonError::into_inner);
                match &*current {
                    Some(token) if !token.is_cancelled() => token.cancel(),
                    _ => std::process::exit(INTERRUPTED.into()),
                }
            }
        });
        signals
    }

    /// Something begins that the next signal interrupts, until the guard is
    /// dropped. Once it is interrupted, the signal after that ends the process.
    pub(crate) fn interruptible(&self) -> Interruptible {
        let token = CancellationToken::new();
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
        self.last_resort.disarm();
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
        self.signals.last_resort.arm();
        *self
            .signals
            .current
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(unix)]
mod unix {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::flag;
    use tokio::signal::unix::{Signal, SignalKind, signal};

    use crate::failure::INTERRUPTED;

    /// Ends the process in the signal handler itself, whatever its threads hang
    /// on, if it is armed. Every signal arms it.
    #[derive(Clone)]
    pub(super) struct LastResort(Arc<AtomicBool>);

    impl LastResort {
        pub(super) fn new() -> Self {
            let armed = Arc::new(AtomicBool::new(true));
            for number in [SIGINT, SIGTERM] {
                // In this order: the handlers run in the order of registration.
                // A signal that can't be handled keeps the system's own way.
                flag::register_conditional_shutdown(number, INTERRUPTED.into(), Arc::clone(&armed))
                    .and_then(|_| flag::register(number, Arc::clone(&armed)))
                    .ok();
            }
            Self(armed)
        }

        pub(super) fn arm(&self) {
            self.0.store(true, Ordering::SeqCst);
        }

        pub(super) fn disarm(&self) {
            self.0.store(false, Ordering::SeqCst);
        }
    }

    pub(super) struct Incoming {
        interrupt: Option<Signal>,
        terminate: Option<Signal>,
    }

    impl Incoming {
        pub(super) fn new() -> Self {
            Self {
                interrupt: signal(SignalKind::interrupt()).ok(),
                terminate: signal(SignalKind::terminate()).ok(),
            }
        }

        pub(super) async fn next(&mut self) {
            async fn of(signal: &mut Option<Signal>) {
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
}

#[cfg(not(unix))]
mod elsewhere {
    /// There is none: a second Ctrl-C is heard like the first.
    #[derive(Clone)]
    pub(super) struct LastResort;

    impl LastResort {
        pub(super) fn new() -> Self {
            Self
        }

        pub(super) fn arm(&self) {}

        pub(super) fn disarm(&self) {}
    }

    pub(super) struct Incoming;

    impl Incoming {
        pub(super) fn new() -> Self {
            Self
        }

        pub(super) async fn next(&mut self) {
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

#[cfg(not(unix))]
use elsewhere::{Incoming, LastResort};
#[cfg(unix)]
use unix::{Incoming, LastResort};
