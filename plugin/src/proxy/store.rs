//! Stores and writers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haft_api::boundary::wire::{
    AppendArgs, AppendData, CreateThreadArgs, Nothing, OpenArgs, PatchArgs, PatchData, ReadArgs,
    StoreData, ThreadArgs, WriterData,
};
use haft_api::boundary::{Call, Remote, is_unimplemented};
use haft_api::{
    Appended, Diagnostic, Durability, ExtensionId, ListThreads, MetadataPatch, NewRecord,
    NewThread, ReadRange, RecordPage, Result, StoreCapabilities, StoreOptions, ThreadId,
    ThreadMetadata, ThreadPage, ThreadStore, ThreadStoreFactory, ThreadWriter, async_trait,
};

/// A kind of store.
pub(crate) struct Factory {
    remote: Remote,
    id: ExtensionId,
}

impl Factory {
    pub(crate) fn new(remote: Remote, id: ExtensionId) -> Self {
        Self { remote, id }
    }
}

#[async_trait]
impl ThreadStoreFactory for Factory {
    fn id(&self) -> &ExtensionId {
        &self.id
    }

    async fn open(&self, options: StoreOptions) -> Result<Arc<dyn ThreadStore>> {
        let call = self.remote.call("open", &OpenArgs { options });
        let StoreData {
            object,
            capabilities,
        } = call.reply().await?;
        Ok(Arc::new(Store {
            remote: Remote::given(Arc::clone(self.remote.link()), object),
            capabilities,
        }))
    }
}

struct Store {
    remote: Remote,
    capabilities: StoreCapabilities,
}

impl Store {
    async fn writer(&self, call: Call) -> Result<Box<dyn ThreadWriter>> {
        let WriterData {
            object,
            thread,
            next_seq,
        } = call.reply().await?;
        Ok(Box::new(Writer {
            remote: Remote::given(Arc::clone(self.remote.link()), object),
            thread,
            next_seq: AtomicU64::new(next_seq),
        }))
    }
}

fn thread_args(thread: &ThreadId) -> ThreadArgs {
    ThreadArgs {
        thread: thread.clone(),
    }
}

#[async_trait]
impl ThreadStore for Store {
    fn capabilities(&self) -> StoreCapabilities {
        self.capabilities
    }

    async fn create(&self, thread: NewThread) -> Result<Box<dyn ThreadWriter>> {
        let call = self.remote.call("create", &CreateThreadArgs { thread });
        self.writer(call).await
    }

    async fn open_writer(&self, thread: &ThreadId) -> Result<Box<dyn ThreadWriter>> {
        let call = self.remote.call("open_writer", &thread_args(thread));
        self.writer(call).await
    }

    async fn read(&self, thread: &ThreadId, range: ReadRange) -> Result<RecordPage> {
        let thread = thread.clone();
        let call = self.remote.call("read", &ReadArgs { thread, range });
        call.reply().await
    }

    async fn metadata(&self, thread: &ThreadId) -> Result<ThreadMetadata> {
        let call = self.remote.call("metadata", &thread_args(thread));
        call.reply().await
    }

    async fn list(&self, request: ListThreads) -> Result<ThreadPage> {
        self.remote.call("list", &request).reply().await
    }

    async fn delete(&self, thread: &ThreadId) -> Result<()> {
        let call = self.remote.call("delete", &thread_args(thread));
        call.done().await
    }

    async fn check(&self, thread: &ThreadId) -> Result<Vec<Diagnostic>> {
        let call = self.remote.call("check", &thread_args(thread));
        match call.reply().await {
            Err(error) if is_unimplemented(&error) => {}
            result => return result,
        }
        // As the trait's own default does.
        let (mut diagnostics, mut seq) = (Vec::new(), 0);
        loop {
            let range = ReadRange::Forward { seq, limit: None };
            let page = self.read(thread, range).await?;
            let next = page.next_after(seq);
            diagnostics.extend(page.diagnostics);
            match next.map_err(|e| e.context("thread", thread))? {
                Some(next) => seq = next,
                None => return Ok(diagnostics),
            }
        }
    }
}

struct Writer {
    remote: Remote,
    thread: ThreadId,
    /// As it was last known: what is answered once the other side is gone.
    next_seq: AtomicU64,
}

#[async_trait]
impl ThreadWriter for Writer {
    fn thread(&self) -> &ThreadId {
        &self.thread
    }

    fn next_seq(&self) -> u64 {
        if let Ok(now) = self.remote.now("next_seq", &Nothing {}) {
            self.next_seq.store(now, Ordering::Relaxed);
        }
        self.next_seq.load(Ordering::Relaxed)
    }

    async fn append(&mut self, group: Vec<NewRecord>, durability: Durability) -> Result<Appended> {
        let call = self
            .remote
            .call("append", &AppendArgs { group, durability });
        let AppendData { appended, next_seq } = call.reply().await?;
        self.next_seq.store(next_seq, Ordering::Relaxed);
        Ok(appended)
    }

    async fn patch_metadata(&mut self, patch: MetadataPatch) -> Result<ThreadMetadata> {
        let call = self.remote.call("patch_metadata", &PatchArgs { patch });
        let PatchData { metadata, next_seq } = call.reply().await?;
        self.next_seq.store(next_seq, Ordering::Relaxed);
        Ok(metadata)
    }

    async fn close(self: Box<Self>) -> Result<()> {
        self.remote.call("close", &Nothing {}).done().await
    }
}
