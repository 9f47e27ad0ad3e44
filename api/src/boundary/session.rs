//! Runner sessions over the boundary, in either direction: a plug-in's own for
//! the host, the host's for a plug-in's tool.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::link::{Remote, is_unimplemented};
use super::message::{Message, MessageRef};
use super::server::{Reply, Request, Served};
use super::wire::{
    ChunkData, ListDirArgs, Nothing, PathArgs, PortArgs, ProcessArgs, ReadFileArgs, ReadFileData,
    ReadProcessArgs, ReadProcessData, ResizeArgs, SessionData, SignalArgs, StartArgs, StdinArgs,
    WriteFileArgs,
};
use crate::error::{Error, ErrorKind, Result};
use crate::id::ProcessId;
use crate::runner::{
    FileData, FileMetadata, ListOptions, Listing, ProcessChunk, ProcessRead, ProcessSpec, PtySize,
    ReadOptions, RemoteRunnerSession, RunnerCapabilities, SessionState, Signal, WriteOptions,
};

/// A session of the other side.
pub struct SessionProxy {
    remote: Arc<Remote>,
    /// As it was last known: what is answered once the other side is gone.
    state: Mutex<SessionState>,
    capabilities: RunnerCapabilities,
    workspace: String,
}

impl SessionProxy {
    /// The session behind that object.
    pub fn new(remote: Arc<Remote>, data: SessionData) -> Self {
        Self {
            remote,
            state: Mutex::new(data.state),
            capabilities: data.capabilities,
            workspace: data.workspace,
        }
    }
}

/// A method that the other side doesn't know is one that it doesn't support.
fn supported<T>(result: Result<T>, what: &str) -> Result<T> {
    result.map_err(|error| {
        if is_unimplemented(&error) {
            let message = format!("this runner does not support {what}");
            Error::new(ErrorKind::Unsupported, message).source(error)
        } else {
            error
        }
    })
}

#[async_trait]
impl RemoteRunnerSession for SessionProxy {
    fn state(&self) -> SessionState {
        let now: Result<SessionState> = self.remote.now("state", &Nothing {});
        let mut known = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(now) = now {
            *known = now;
        }
        known.clone()
    }

    fn capabilities(&self) -> RunnerCapabilities {
        self.capabilities
    }

    fn workspace(&self) -> &str {
        &self.workspace
    }

    async fn read_file(&self, path: &str, options: ReadOptions) -> Result<FileData> {
        let path = path.to_owned();
        let arguments = ReadFileArgs { path, options };
        let decode = |message: MessageRef<'_>| {
            let ReadFileData { metadata } = message.read()?;
            let bytes = message.blob.to_vec();
            Ok(FileData { bytes, metadata })
        };
        self.remote
            .call("read_file", &arguments)
            .reply_with(decode)
            .await
    }

    async fn write_file(
        &self,
        path: &str,
        bytes: Vec<u8>,
        options: WriteOptions,
    ) -> Result<FileMetadata> {
        let path = path.to_owned();
        let arguments = WriteFileArgs { path, options };
        let call = self
            .remote
            .call_with("write_file", &arguments, &bytes, Vec::new());
        drop(bytes);
        call.reply().await
    }

    async fn metadata(&self, path: &str) -> Result<FileMetadata> {
        let path = path.to_owned();
        self.remote
            .call("metadata", &PathArgs { path })
            .reply()
            .await
    }

    async fn list(&self, path: &str, options: ListOptions) -> Result<Listing> {
        let path = path.to_owned();
        let arguments = ListDirArgs { path, options };
        self.remote.call("list", &arguments).reply().await
    }

    async fn remove(&self, path: &str) -> Result<()> {
        let path = path.to_owned();
        self.remote.call("remove", &PathArgs { path }).done().await
    }

    async fn make_dir(&self, path: &str) -> Result<()> {
        let path = path.to_owned();
        self.remote
            .call("make_dir", &PathArgs { path })
            .done()
            .await
    }

    async fn start_process(&self, spec: ProcessSpec) -> Result<()> {
        let call = self.remote.call("start_process", &StartArgs { spec });
        supported(call.done().await, "processes")
    }

    async fn read_process(
        &self,
        process: &ProcessId,
        after: Option<u64>,
        max_bytes: usize,
        wait_ms: u64,
    ) -> Result<ProcessRead> {
        let arguments = ReadProcessArgs {
            process: process.clone(),
            after,
            max_bytes,
            wait_ms,
        };
        let call = self.remote.call("read_process", &arguments);
        supported(call.reply_with(read_chunks).await, "processes")
    }

    async fn write_stdin(&self, process: &ProcessId, bytes: Option<Vec<u8>>) -> Result<()> {
        let arguments = StdinArgs {
            process: process.clone(),
            close: bytes.is_none(),
        };
        let bytes = bytes.unwrap_or_default();
        let call = self
            .remote
            .call_with("write_stdin", &arguments, &bytes, Vec::new());
        supported(call.done().await, "standard input")
    }

    async fn signal(&self, process: &ProcessId, signal: Signal) -> Result<()> {
        let process = process.clone();
        let call = self.remote.call("signal", &SignalArgs { process, signal });
        supported(call.done().await, "signals")
    }

    async fn resize_pty(&self, process: &ProcessId, size: PtySize) -> Result<()> {
        let process = process.clone();
        let call = self
            .remote
            .call("resize_pty", &ResizeArgs { process, size });
        supported(call.done().await, "pseudo terminals")
    }

    fn release_process(&self, process: &ProcessId) {
        let process = process.clone();
        // It can't fail, and whoever is gone has released everything.
        let call = self
            .remote
            .call("release_process", &ProcessArgs { process });
        call.done_now().ok();
    }

    async fn pause(&self) -> Result<SessionState> {
        let call = self.remote.call("pause", &Nothing {});
        supported(call.reply().await, "pausing")
    }

    async fn detach(&self) -> Result<SessionState> {
        let call = self.remote.call("detach", &Nothing {});
        supported(call.reply().await, "detaching")
    }

    async fn snapshot(&self) -> Result<String> {
        let call = self.remote.call("snapshot", &Nothing {});
        supported(call.reply().await, "snapshots")
    }

    async fn port(&self, port: u16) -> Result<String> {
        let call = self.remote.call("port", &PortArgs { port });
        supported(call.reply().await, "port previews")
    }

    async fn close(&self) -> Result<()> {
        self.remote.call("close", &Nothing {}).done().await
    }
}

fn read_chunks(message: MessageRef<'_>) -> Result<ProcessRead> {
    let data: ReadProcessData = message.read()?;
    let mut rest = message.blob;
    let mut read = ProcessRead::default();
    for ChunkData { seq, channel, len } in data.chunks {
        let (bytes, others) = rest.split_at_checked(len).ok_or_else(|| {
            Error::new(
                ErrorKind::Corrupt,
                "the output's bytes are fewer than its pieces say",
            )
        })?;
        rest = others;
        let bytes = bytes.to_vec();
        read.chunks.push(ProcessChunk {
            seq,
            channel,
            bytes,
        });
    }
    if !rest.is_empty() {
        return Err(Error::new(
            ErrorKind::Corrupt,
            "the output's bytes are more than its pieces say",
        ));
    }
    read.skipped_bytes = data.skipped_bytes;
    read.ending = data.ending;
    read.closed = data.closed;
    read.leftovers = data.leftovers;
    Ok(read)
}

fn write_chunks(read: ProcessRead) -> Result<Message> {
    let mut blob = Vec::with_capacity(read.chunks.iter().map(|chunk| chunk.bytes.len()).sum());
    let mut chunks = Vec::with_capacity(read.chunks.len());
    for chunk in read.chunks {
        blob.extend_from_slice(&chunk.bytes);
        chunks.push(ChunkData {
            seq: chunk.seq,
            channel: chunk.channel,
            len: chunk.bytes.len(),
        });
    }
    let data = ReadProcessData {
        chunks,
        skipped_bytes: read.skipped_bytes,
        ending: read.ending,
        closed: read.closed,
        leftovers: read.leftovers,
    };
    Message::with_blob(&data, blob)
}

/// A session of one's own, for the other side.
pub struct ServedSession(pub Arc<dyn RemoteRunnerSession>);

impl ServedSession {
    /// What is said of the session beside its object's number.
    pub fn describe(session: &dyn RemoteRunnerSession, object: u64) -> SessionData {
        SessionData {
            object,
            state: session.state(),
            capabilities: session.capabilities(),
            workspace: session.workspace().to_owned(),
        }
    }
}

impl Served for ServedSession {
    fn call(self: Arc<Self>, request: Request<'_>) -> Result<Reply> {
        let session = Arc::clone(&self.0);
        Ok(match request.method {
            "state" => Reply::value(&session.state())?,
            "read_file" => {
                let ReadFileArgs { path, options } = request.read()?;
                Reply::later(async move {
                    let FileData { bytes, metadata } = session.read_file(&path, options).await?;
                    Message::with_blob(&ReadFileData { metadata }, bytes)
                })
            }
            "write_file" => {
                let WriteFileArgs { path, options } = request.read()?;
                let bytes = request.blob().to_vec();
                Reply::later(async move {
                    Message::json(&session.write_file(&path, bytes, options).await?)
                })
            }
            "metadata" => {
                let PathArgs { path } = request.read()?;
                Reply::later(async move { Message::json(&session.metadata(&path).await?) })
            }
            "list" => {
                let ListDirArgs { path, options } = request.read()?;
                Reply::later(async move { Message::json(&session.list(&path, options).await?) })
            }
            "remove" => {
                let PathArgs { path } = request.read()?;
                Reply::later(async move { Message::json(&session.remove(&path).await?) })
            }
            "make_dir" => {
                let PathArgs { path } = request.read()?;
                Reply::later(async move { Message::json(&session.make_dir(&path).await?) })
            }
            "start_process" => {
                let StartArgs { spec } = request.read()?;
                Reply::later(async move { Message::json(&session.start_process(spec).await?) })
            }
            "read_process" => {
                let ReadProcessArgs {
                    process,
                    after,
                    max_bytes,
                    wait_ms,
                } = request.read()?;
                Reply::later(async move {
                    let read = session.read_process(&process, after, max_bytes, wait_ms);
                    write_chunks(read.await?)
                })
            }
            "write_stdin" => {
                let StdinArgs { process, close } = request.read()?;
                let bytes = (!close).then(|| request.blob().to_vec());
                Reply::later(
                    async move { Message::json(&session.write_stdin(&process, bytes).await?) },
                )
            }
            "signal" => {
                let SignalArgs { process, signal } = request.read()?;
                Reply::later(async move { Message::json(&session.signal(&process, signal).await?) })
            }
            "resize_pty" => {
                let ResizeArgs { process, size } = request.read()?;
                Reply::later(
                    async move { Message::json(&session.resize_pty(&process, size).await?) },
                )
            }
            "release_process" => {
                let ProcessArgs { process } = request.read()?;
                session.release_process(&process);
                Reply::nothing()
            }
            "pause" => Reply::later(async move { Message::json(&session.pause().await?) }),
            "detach" => Reply::later(async move { Message::json(&session.detach().await?) }),
            "snapshot" => Reply::later(async move { Message::json(&session.snapshot().await?) }),
            "port" => {
                let PortArgs { port } = request.read()?;
                Reply::later(async move { Message::json(&session.port(port).await?) })
            }
            "close" => Reply::later(async move { Message::json(&session.close().await?) }),
            _ => Reply::Unimplemented,
        })
    }
}
