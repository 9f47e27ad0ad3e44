//! Stores and writers.

use std::sync::{Arc, Mutex, PoisonError};

use crate::boundary::message::Message;
use crate::boundary::server::{Giver, Reply, Request, Served};
use crate::boundary::wire::{
    AppendArgs, AppendData, CreateThreadArgs, OpenArgs, PatchArgs, PatchData, ReadArgs, StoreData,
    ThreadArgs, WriterData,
};
use crate::error::{Error, ErrorKind, Result};
use crate::store::{ListThreads, ThreadStore, ThreadStoreFactory, ThreadWriter};

pub(super) struct ServedFactory(pub(super) Arc<dyn ThreadStoreFactory>);

impl Served for ServedFactory {
    fn call(self: Arc<Self>, request: Request<'_>) -> Result<Reply> {
        if request.method != "open" {
            return Ok(Reply::Unimplemented);
        }
        let OpenArgs { options } = request.read()?;
        let giver = request.giver();
        Ok(Reply::later(async move {
            let store = self.0.open(options).await?;
            let capabilities = store.capabilities();
            let object = giver.give(Arc::new(ServedStore(store)));
            Message::json(&StoreData {
                object,
                capabilities,
            })
        }))
    }
}

struct ServedStore(Arc<dyn ThreadStore>);

fn give_writer(giver: &Giver, writer: Box<dyn ThreadWriter>) -> Result<Message> {
    let (thread, next_seq) = (writer.thread().clone(), writer.next_seq());
    let object = giver.give(Arc::new(ServedWriter(Mutex::new(Some(writer)))));
    Message::json(&WriterData {
        object,
        thread,
        next_seq,
    })
}

impl Served for ServedStore {
    fn call(self: Arc<Self>, request: Request<'_>) -> Result<Reply> {
        let giver = request.giver();
        let store = Arc::clone(&self.0);
        Ok(match request.method {
            "create" => {
                let CreateThreadArgs { thread } = request.read()?;
                Reply::later(async move { give_writer(&giver, store.create(thread).await?) })
            }
            "open_writer" => {
                let ThreadArgs { thread } = request.read()?;
                Reply::later(async move { give_writer(&giver, store.open_writer(&thread).await?) })
            }
            "read" => {
                let ReadArgs { thread, range } = request.read()?;
                Reply::later(async move { Message::json(&store.read(&thread, range).await?) })
            }
            "metadata" => {
                let ThreadArgs { thread } = request.read()?;
                Reply::later(async move { Message::json(&store.metadata(&thread).await?) })
            }
            "list" => {
                let threads: ListThreads = request.read()?;
                Reply::later(async move { Message::json(&store.list(threads).await?) })
            }
            "delete" => {
                let ThreadArgs { thread } = request.read()?;
                Reply::later(async move { Message::json(&store.delete(&thread).await?) })
            }
            "check" => {
                let ThreadArgs { thread } = request.read()?;
                Reply::later(async move { Message::json(&store.check(&thread).await?) })
            }
            _ => Reply::Unimplemented,
        })
    }
}

/// A writer; it is taken out while a call of it is under way, and closed for
/// good by `close`.
struct ServedWriter(Mutex<Option<Box<dyn ThreadWriter>>>);

/// Puts the writer back, also when the call is cancelled.
struct Taken {
    owner: Arc<ServedWriter>,
    writer: Option<Box<dyn ThreadWriter>>,
}

impl ServedWriter {
    fn take(self: &Arc<Self>) -> Result<Taken> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let writer = slot.take().ok_or_else(|| {
            Error::new(
                ErrorKind::Busy,
                "the writer is in use by another call, or closed",
            )
        })?;
        Ok(Taken {
            owner: Arc::clone(self),
            writer: Some(writer),
        })
    }
}

impl Taken {
    fn writer(&mut self) -> &mut dyn ThreadWriter {
        let writer = self.writer.as_mut();
        &mut **writer.expect("the writer is only moved out when this is dropped or closed")
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take() {
            let mut slot = self.owner.0.lock().unwrap_or_else(PoisonError::into_inner);
            *slot = Some(writer);
        }
    }
}

impl Served for ServedWriter {
    fn call(self: Arc<Self>, request: Request<'_>) -> Result<Reply> {
        Ok(match request.method {
            "next_seq" => Reply::value(&self.take()?.writer().next_seq())?,
            "append" => {
                let AppendArgs { group, durability } = request.read()?;
                Reply::later(async move {
                    let mut taken = self.take()?;
                    let appended = taken.writer().append(group, durability).await?;
                    let next_seq = taken.writer().next_seq();
                    Message::json(&AppendData { appended, next_seq })
                })
            }
            "patch_metadata" => {
                let PatchArgs { patch } = request.read()?;
                Reply::later(async move {
                    let mut taken = self.take()?;
                    let metadata = taken.writer().patch_metadata(patch).await?;
                    let next_seq = taken.writer().next_seq();
                    Message::json(&PatchData { metadata, next_seq })
                })
            }
            "close" => Reply::later(async move {
                let writer = self.take()?.writer.take();
                if let Some(writer) = writer {
                    writer.close().await?;
                }
                Ok(Message::empty())
            }),
            _ => Reply::Unimplemented,
        })
    }
}
