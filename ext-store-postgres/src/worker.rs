//! Where the store's work with the database is done.
//!
//! A thread of its own, with a runtime of its own: connections outlive the
//! runtime that a caller happens to be in, leases are renewed however busy the
//! caller is, and what was begun ends although nobody waits for it any more.

use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use haft_api::{Error, ErrorKind, Result, panic_message};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

/// How long the end of the last handle waits for what is under way, most of all
/// for leases to be given back.
const LINGER: Duration = Duration::from_secs(2);

/// The thread, for as long as it lives.
pub(crate) struct Worker {
    handle: Handle,
    tasks: TaskTracker,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    pub(crate) fn start() -> Result<Self> {
        let failed = |e: std::io::Error| {
            Error::io(e, "the thread for the database's connections can't be had")
        };
        let (give, take) = mpsc::sync_channel(1);
        let (stop, stopped) = oneshot::channel::<()>();
        let tasks = TaskTracker::new();
        let tracked = tasks.clone();
        let thread = std::thread::Builder::new()
            .name("haft-postgres".to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build();
                let runtime = match runtime {
                    Ok(runtime) => runtime,
                    Err(error) => {
                        give.send(Err(error)).ok();
                        return;
                    }
                };
                give.send(Ok(runtime.handle().clone())).ok();
                runtime.block_on(async {
                    // Sent, or dropped with the worker: both mean the end.
                    stopped.await.ok();
                    tracked.close();
                    tokio::time::timeout(LINGER, tracked.wait()).await.ok();
                });
                // Names of hosts may still be looked up; nobody waits for that.
                runtime.shutdown_background();
            })
            .map_err(failed)?;
        let handle = match take.recv() {
            Ok(built) => built.map_err(failed)?,
            Err(_) => {
                return Err(Error::new(
                    ErrorKind::Unexpected,
                    "the thread for the database's connections ended at once",
                ));
            }
        };
        Ok(Self {
            handle,
            tasks,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Does something to its end, whether or not anybody waits for it.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(work, &self.handle);
    }

    /// Does something that goes on for as long as the worker lives.
    pub(crate) fn spawn_forever(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(work);
    }

    /// Does something and gives what came of it. If the future is dropped, the
    /// work goes on to its end.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        match self.tasks.spawn_on(work, &self.handle).await {
            Ok(outcome) => outcome,
            Err(error) if error.is_panic() => Err(Error::new(
                ErrorKind::Unexpected,
                format!("it panicked: {}", panic_message(&*error.into_panic())),
            )),
            Err(_) => Err(Error::new(ErrorKind::Cancelled, "the store was closed")),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // It ends within the time to linger. If it panicked, there is
            // nobody left to tell.
            thread.join().ok();
        }
    }
}
