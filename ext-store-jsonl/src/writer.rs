//! A thread's writer, on the async side.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use haft_api::{
    Appended, Durability, Error, ErrorKind, MetadataPatch, NewRecord, Result, ThreadId,
    ThreadMetadata, ThreadWriter, async_trait,
};

use crate::blocking::blocking;
use crate::thread_log::ThreadLog;

/// Appends to a thread's log.
pub(crate) struct JsonlWriter {
    thread: ThreadId,
    shared: Arc<Shared>,
}

/// What a call that was given up may still hold.
struct Shared {
    log: Mutex<ThreadLog>,
    next_seq: AtomicU64,
}

impl Shared {
    /// The log, for one operation. If an earlier one panicked, nobody knows what
    /// state it left.
    fn lock(&self) -> Result<MutexGuard<'_, ThreadLog>> {
        self.log.lock().map_err(|_| {
            Error::new(
                ErrorKind::Unexpected,
                "an earlier operation of this writer panicked; open the thread again",
            )
        })
    }

    fn run<T>(
        &self,
        log: &mut ThreadLog,
        work: impl FnOnce(&mut ThreadLog) -> Result<T>,
    ) -> Result<T> {
        let outcome = work(log);
        self.next_seq.store(log.next_seq(), Ordering::Release);
        outcome
    }
}

/// Keeps a call that was given up before it began from happening after all: its
/// records would turn up behind those of the next call.
struct GiveUpOnDrop(Arc<AtomicBool>);

impl Drop for GiveUpOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl JsonlWriter {
    pub(crate) fn new(log: ThreadLog) -> Self {
        let next_seq = AtomicU64::new(log.next_seq());
        let thread = log.metadata().id.clone();
        Self {
            thread,
            shared: Arc::new(Shared {
                log: Mutex::new(log),
                next_seq,
            }),
        }
    }

    /// Does something with the log off the async workers: whole or, if the
    /// future is dropped before it began, not at all.
    async fn work<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut ThreadLog) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let given_up = Arc::new(AtomicBool::new(false));
        let _guard = GiveUpOnDrop(Arc::clone(&given_up));
        let shared = Arc::clone(&self.shared);
        let outcome = blocking(move || {
            let mut log = shared.lock()?;
            if given_up.load(Ordering::Acquire) {
                return Err(Error::new(ErrorKind::Cancelled, "given up before it began"));
            }
            shared.run(&mut log, work)
        });
        outcome.await.map_err(|e| e.operation(operation))
    }
}

#[async_trait]
impl ThreadWriter for JsonlWriter {
    fn thread(&self) -> &ThreadId {
        &self.thread
    }

    fn next_seq(&self) -> u64 {
        self.shared.next_seq.load(Ordering::Acquire)
    }

    async fn append(&mut self, group: Vec<NewRecord>, durability: Durability) -> Result<Appended> {
        // A write of a few microseconds isn't worth the way to another thread.
        // The log is locked only if an earlier call was given up and is still
        // at it.
        if let Ok(mut log) = self.shared.log.try_lock()
            && log.is_quick(&group, durability)
        {
            let outcome = self
                .shared
                .run(&mut log, |log| log.append(&group, durability));
            return outcome.map_err(|e| e.operation("append"));
        }
        self.work("append", move |log| log.append(&group, durability))
            .await
    }

    async fn patch_metadata(&mut self, patch: MetadataPatch) -> Result<ThreadMetadata> {
        self.work("patch_metadata", move |log| log.patch(&patch))
            .await
    }

    async fn close(self: Box<Self>) -> Result<()> {
        let outcome = self.work("close", ThreadLog::close).await;
        let shared = Arc::clone(&self.shared);
        drop(self);
        // Letting go writes to the index and frees the lock: file work, too.
        blocking(move || {
            drop(shared);
            Ok(())
        })
        .await?;
        outcome
    }
}
