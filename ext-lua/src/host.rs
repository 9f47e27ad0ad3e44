//! The host: one state for all its scripts, made when it is first needed and
//! made anew when it had to be given up.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haft_api::{Error, ErrorKind, ExtensionId, Result};
use tokio::sync::oneshot;

use haft_script_host::{Level, LogSink, StderrLog};

use crate::config::Settings;
use crate::worker::{self, Memory, Message, Setup, Snapshot, Subscribed, Worker};

/// Runs the tools and commands of Lua extensions.
///
/// Making one does no I/O: the state's thread starts, and the scripts load, with
/// the first event, or when tools are first asked for. Clones are the same host.
#[derive(Clone)]
pub struct LuaHost {
    inner: Arc<Inner>,
}

struct Inner {
    id: ExtensionId,
    settings: Arc<Settings>,
    log: Arc<dyn LogSink>,
    current: Mutex<Option<Arc<Worker>>>,
    subscribed: Arc<Subscribed>,
    /// States that were given up and still run.
    given_up: Arc<AtomicUsize>,
    /// Extensions that a state had to be given up for while they loaded.
    blamed: Mutex<BTreeMap<PathBuf, String>>,
    numbers: AtomicU64,
    #[cfg(feature = "reload")]
    watch: Mutex<Option<haft_script_host::Watch>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(worker) = lock(&self.current).take() {
            // What still runs there ends by itself, and nothing is started anew.
            worker.pulse.give_up();
            self.given_up.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for LuaHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LuaHost")
            .field("settings", &self.inner.settings)
            .finish_non_exhaustive()
    }
}

impl LuaHost {
    /// A host with these settings, whose scripts' messages go to standard error.
    ///
    /// # Errors
    /// Never for reasons a caller could change.
    pub fn new(settings: Settings) -> Result<Self> {
        Self::with_log(settings, Arc::new(StderrLog::new("lua")))
    }

    /// A host whose scripts' messages go there.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_log(settings: Settings, log: Arc<dyn LogSink>) -> Result<Self> {
        Ok(Self {
            inner: Arc::new(Inner {
                id: worker::id()?,
                settings: Arc::new(settings),
                log,
                current: Mutex::default(),
                subscribed: Arc::default(),
                given_up: Arc::default(),
                blamed: Mutex::default(),
                numbers: AtomicU64::new(0),
                #[cfg(feature = "reload")]
                watch: Mutex::default(),
            }),
        })
    }

    pub(crate) fn id(&self) -> &ExtensionId {
        &self.inner.id
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    pub(crate) fn log(&self, level: Level, message: &str) {
        self.inner.log.log("host", level, message);
    }

    /// A number for a call. Odd ones are left to the state's own tasks.
    pub(crate) fn next_number(&self) -> u64 {
        self.inner.numbers.fetch_add(2, Ordering::Relaxed)
    }

    /// The state's thread, started if there is none.
    fn worker(&self) -> Result<Arc<Worker>> {
        let mut current = lock(&self.inner.current);
        if let Some(worker) = current
            .as_ref()
            .filter(|worker| !worker.lost.is_cancelled())
        {
            return Ok(Arc::clone(worker));
        }
        let stuck = self.inner.given_up.load(Ordering::Relaxed);
        if stuck >= self.inner.settings.limits.given_up {
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!(
                    "{stuck} states of the script host are stuck in code that can't be \
                     interrupted; no more are started until one of them ends"
                ),
            )
            .permanent());
        }
        let left_out = lock(&self.inner.blamed)
            .iter()
            .map(|(path, why)| (path.clone(), why.clone()))
            .collect();
        let worker = Worker::start(Setup {
            settings: Arc::clone(&self.inner.settings),
            log: Arc::clone(&self.inner.log),
            subscribed: Arc::clone(&self.inner.subscribed),
            left_out,
            given_up: Arc::clone(&self.inner.given_up),
        })?;
        *current = Some(Arc::clone(&worker));
        drop(current);
        #[cfg(feature = "reload")]
        self.watch();
        Ok(worker)
    }

    #[cfg(feature = "reload")]
    fn watch(&self) {
        if self.inner.settings.reload == Some(false) {
            return;
        }
        let mut watch = lock(&self.inner.watch);
        if watch.is_none() {
            let inner = Arc::downgrade(&self.inner);
            let reload = move |path: PathBuf| {
                if let Some(inner) = inner.upgrade() {
                    LuaHost { inner }.reload(path);
                }
            };
            match crate::reload::watch(&self.inner.settings, reload) {
                Ok(started) => *watch = Some(started),
                Err(words) => self.log(Level::Warn, &format!("changes aren't noticed: {words}")),
            }
        }
    }

    /// Loads an extension again: a `.lua` file, or a folder. What loads is what
    /// is called from then on; what fails to load leaves everything as it was.
    pub fn reload(&self, path: PathBuf) {
        let mut blamed = lock(&self.inner.blamed);
        blamed.remove(&path);
        blamed.remove(&path.join("init.lua"));
        drop(blamed);
        let current = lock(&self.inner.current).clone();
        if let Some(worker) = current {
            worker.say(Message::Reload(path));
        }
    }

    /// The state with its scripts loaded.
    ///
    /// # Errors
    /// If no state can be had.
    pub(crate) async fn ready(&self) -> Result<(Arc<Worker>, Arc<Snapshot>)> {
        loop {
            let worker = self.worker()?;
            let mut snapshot = worker.snapshot.clone();
            let loaded = tokio::select! {
                biased;
                loaded = snapshot.wait_for(Option::is_some) => match loaded {
                    Ok(snapshot) => snapshot.clone(),
                    Err(_) => None,
                },
                () = self.stuck_loading(&worker) => None,
            };
            match loaded {
                Some(snapshot) => return Ok((worker, snapshot)),
                None if worker.lost.is_cancelled() => {}
                // The thread ended without a word: it panicked.
                None => worker.lost.cancelled().await,
            }
        }
    }

    /// Resolves when an extension hung while it loaded, and the state is given
    /// up.
    async fn stuck_loading(&self, worker: &Arc<Worker>) {
        let limits = &self.inner.settings.limits;
        loop {
            tokio::time::sleep(limits.wedge()).await;
            if worker.pulse.busy_for() > limits.load() + limits.wedge() {
                let why = "it hung while it was loading, in code that can't be interrupted";
                if let Some(path) = worker.pulse.loading() {
                    lock(&self.inner.blamed).insert(path, why.to_owned());
                }
                self.give_up(worker);
                return;
            }
        }
    }

    /// Gives a state up: its thread ends when the code it is stuck in returns.
    pub(crate) fn give_up(&self, worker: &Arc<Worker>) {
        let mut current = lock(&self.inner.current);
        if worker.pulse.is_given_up() {
            return;
        }
        self.inner.given_up.fetch_add(1, Ordering::Relaxed);
        worker.pulse.give_up();
        worker.lost.cancel();
        if current.as_ref().is_some_and(|now| Arc::ptr_eq(now, worker)) {
            *current = None;
        }
        drop(current);
        self.log(
            Level::Error,
            "the state is stuck in code that can't be interrupted; it is given up, and a fresh one \
             loads the extensions again",
        );
    }

    /// What kept extensions and tools out of the state as it is.
    ///
    /// # Errors
    /// If no state can be had.
    pub async fn problems(&self) -> Result<Vec<Error>> {
        let (_, snapshot) = self.ready().await?;
        Ok(snapshot
            .problems
            .iter()
            .map(|problem| problem.clone().into())
            .collect())
    }

    /// The names of the extensions that are loaded.
    ///
    /// # Errors
    /// If no state can be had.
    pub async fn loaded(&self) -> Result<Vec<String>> {
        Ok(self.ready().await?.1.loaded.clone())
    }

    /// What memory the state holds, and about how much of it is whose.
    ///
    /// # Errors
    /// If no state can be had, or it was given up meanwhile.
    pub async fn memory(&self) -> Result<Memory> {
        let (worker, _) = self.ready().await?;
        let (ask, told) = oneshot::channel();
        worker.say(Message::Memory(ask));
        tokio::select! {
            told = told => told.map_err(|_| lost()),
            () = worker.lost.cancelled() => Err(lost()),
        }
    }

    /// Resolves when the state is stuck after this time.
    pub(crate) async fn stuck(&self, worker: &Worker, after: Duration) {
        let wedge = self.inner.settings.limits.wedge();
        tokio::time::sleep(after + wedge).await;
        while worker.pulse.busy_for() < wedge {
            tokio::time::sleep(wedge / 2).await;
        }
    }

    /// The state's thread, if scripts listen to events of this name. One that
    /// still loads its scripts keeps events until it is known who listens.
    ///
    /// # Errors
    /// If no state can be had.
    pub(crate) fn listening(&self, name: &str) -> Result<Option<Arc<Worker>>> {
        let worker = self.worker()?;
        let heard =
            worker.snapshot.borrow().is_none() || lock(&self.inner.subscribed).contains(name);
        Ok(heard.then_some(worker))
    }
}

/// What calls are told whose state was given up.
pub(crate) fn lost() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the script host's state was given up: code of a script that can't be interrupted was \
         stuck; the extensions are loaded again for the next call",
    )
    .permanent()
}

/// Calls that run. Dropping it ends them.
pub(crate) struct Running {
    host: LuaHost,
    worker: Arc<Worker>,
    numbers: Vec<u64>,
    over: Arc<AtomicBool>,
}

impl Running {
    pub(crate) fn new(host: &LuaHost, worker: &Arc<Worker>, numbers: Vec<u64>) -> Self {
        Self {
            host: host.clone(),
            worker: Arc::clone(worker),
            numbers,
            over: Arc::default(),
        }
    }

    /// Becomes true when the calls' caller is gone.
    pub(crate) fn over(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.over)
    }

    pub(crate) fn finish(&mut self) {
        self.numbers.clear();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if self.numbers.is_empty() {
            return;
        }
        let numbers = std::mem::take(&mut self.numbers);
        self.worker.say(Message::Cancel(numbers));
        // The caller is gone; a state that doesn't take the message must not
        // stay the one that the next call goes to.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (host, worker) = (self.host.clone(), Arc::clone(&self.worker));
            runtime.spawn(async move {
                let wedge = host.settings().limits.wedge();
                tokio::time::sleep(wedge).await;
                if worker.pulse.busy_for() >= wedge {
                    host.give_up(&worker);
                }
            });
        }
    }
}
