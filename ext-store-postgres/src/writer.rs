//! A thread's writer, on the caller's side.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haft_api::{
    Appended, Durability, MetadataPatch, NewRecord, Result, ThreadId, ThreadMetadata, ThreadWriter,
    async_trait,
};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::log::Log;
use crate::worker::Worker;

/// Appends to a thread. Dropping it gives the thread back.
///
/// A call waits for its turn, and is then done on the worker to its end: if its
/// future is dropped before, nothing happens; if later, the next call waits.
pub(crate) struct PostgresWriter {
    thread: ThreadId,
    log: Arc<Mutex<Log>>,
    next_seq: Arc<AtomicU64>,
    worker: Arc<Worker>,
}

impl PostgresWriter {
    pub(crate) fn new(thread: ThreadId, log: Log, worker: Arc<Worker>) -> Self {
        Self {
            thread,
            next_seq: Arc::new(AtomicU64::new(log.next_seq())),
            log: Arc::new(Mutex::new(log)),
            worker,
        }
    }

    async fn turn(&self) -> OwnedMutexGuard<Log> {
        Arc::clone(&self.log).lock_owned().await
    }
}

#[async_trait]
impl ThreadWriter for PostgresWriter {
    fn thread(&self) -> &ThreadId {
        &self.thread
    }

    fn next_seq(&self) -> u64 {
        self.next_seq.load(Ordering::Acquire)
    }

    async fn append(&mut self, group: Vec<NewRecord>, durability: Durability) -> Result<Appended> {
        let mut log = self.turn().await;
        let next_seq = Arc::clone(&self.next_seq);
        let append = async move {
            let outcome = log.append(&group, durability).await;
            next_seq.store(log.next_seq(), Ordering::Release);
            outcome
        };
        let outcome = self.worker.run(append).await;
        outcome.map_err(|e| e.operation("append"))
    }

    async fn patch_metadata(&mut self, patch: MetadataPatch) -> Result<ThreadMetadata> {
        let mut log = self.turn().await;
        let outcome = self
            .worker
            .run(async move { log.patch(&patch).await })
            .await;
        outcome.map_err(|e| e.operation("patch_metadata"))
    }

    async fn close(self: Box<Self>) -> Result<()> {
        let mut log = self.turn().await;
        let outcome = self.worker.run(async move { log.release().await }).await;
        outcome.map_err(|e| e.operation("close"))
    }
}

impl Drop for PostgresWriter {
    fn drop(&mut self) {
        let log = Arc::clone(&self.log);
        self.worker.spawn(async move {
            // Nobody is left who could be told of a failure; the lease runs out.
            log.lock().await.release().await.ok();
        });
    }
}
