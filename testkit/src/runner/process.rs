//! Processes of a sandbox in memory.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft_api::{Ending, Error, ErrorKind, OutputChannel, ProcessChunk, ProcessRead, Result};
use tokio::sync::{mpsc, watch};

use crate::lock::lock;

/// Pieces of output, and how it ended.
struct State {
    chunks: VecDeque<ProcessChunk>,
    kept: usize,
    next_seq: u64,
    /// Bytes that were thrown away since the reader's last place.
    skipped: u64,
    ending: Option<Ending>,
    stdin: Option<mpsc::UnboundedSender<Vec<u8>>>,
}

/// One process.
pub(super) struct Process {
    state: Mutex<State>,
    changed: watch::Sender<()>,
    /// Set to end it.
    told: watch::Sender<bool>,
    most_kept: usize,
}

impl Process {
    pub(super) fn new(stdin: Option<mpsc::UnboundedSender<Vec<u8>>>, most_kept: usize) -> Self {
        Self {
            state: Mutex::new(State {
                chunks: VecDeque::new(),
                kept: 0,
                next_seq: 0,
                skipped: 0,
                ending: None,
                stdin,
            }),
            changed: watch::Sender::new(()),
            told: watch::Sender::new(false),
            most_kept,
        }
    }

    /// Takes some output.
    pub(super) fn write(&self, channel: OutputChannel, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let mut state = lock(&self.state);
        if state.ending.is_some() {
            return;
        }
        let seq = state.next_seq;
        state.next_seq += 1;
        state.kept += bytes.len();
        state.chunks.push_back(ProcessChunk {
            seq,
            channel,
            bytes: bytes.to_vec(),
        });
        while state.kept > self.most_kept {
            let Some(oldest) = state.chunks.pop_front() else {
                break;
            };
            state.kept -= oldest.bytes.len();
            state.skipped += oldest.bytes.len() as u64;
        }
        drop(state);
        self.changed.send_replace(());
    }

    /// Runs to the end of `program`, to the time limit, or until it is told.
    pub(super) async fn run(
        self: Arc<Self>,
        program: impl Future<Output = i32> + Send,
        limit: Option<Duration>,
    ) {
        let mut told = self.told.subscribe();
        let ended = async {
            let told = async { told.wait_for(|told| *told).await.map(drop) };
            let program = Box::pin(program);
            match futures::future::select(Box::pin(told), program).await {
                futures::future::Either::Left(_) => Ending::Cancelled,
                futures::future::Either::Right((code, _)) => Ending::Exited { code },
            }
        };
        let ending = match limit {
            None => ended.await,
            Some(limit) => tokio::time::timeout(limit, ended)
                .await
                .unwrap_or(Ending::TimedOut),
        };
        {
            let mut state = lock(&self.state);
            state.ending = Some(ending);
            state.stdin = None;
        }
        self.changed.send_replace(());
    }

    /// Ends it.
    pub(super) fn kill(&self) {
        self.told.send_replace(true);
    }

    pub(super) fn write_stdin(&self, bytes: Option<Vec<u8>>) -> Result<()> {
        let mut state = lock(&self.state);
        let Some(bytes) = bytes else {
            state.stdin = None;
            return Ok(());
        };
        let sent = state
            .stdin
            .as_ref()
            .is_some_and(|to| to.send(bytes).is_ok());
        if sent {
            Ok(())
        } else {
            Err(Error::new(
                ErrorKind::Unavailable,
                "the process doesn't read its input any more",
            ))
        }
    }

    /// What there is after a number; what a reader has left behind is let go.
    fn take(&self, after: Option<u64>, max_bytes: usize) -> Option<ProcessRead> {
        let mut state = lock(&self.state);
        if let Some(after) = after {
            while state.chunks.front().is_some_and(|chunk| chunk.seq <= after) {
                if let Some(read) = state.chunks.pop_front() {
                    state.kept -= read.bytes.len();
                    // Whatever was thrown away before it was reported by then.
                    state.skipped = 0;
                }
            }
        }
        let mut read = ProcessRead::default();
        let mut bytes = 0;
        for chunk in &state.chunks {
            if !read.chunks.is_empty() && bytes + chunk.bytes.len() > max_bytes {
                break;
            }
            bytes += chunk.bytes.len();
            read.chunks.push(chunk.clone());
        }
        read.skipped_bytes = state.skipped;
        read.ending = state.ending.clone();
        read.closed = state.ending.is_some() && read.chunks.len() == state.chunks.len();
        (!read.chunks.is_empty() || read.ending.is_some()).then_some(read)
    }

    pub(super) async fn read(
        &self,
        after: Option<u64>,
        max_bytes: usize,
        wait: Duration,
    ) -> ProcessRead {
        let mut changed = self.changed.subscribe();
        let reading = async {
            loop {
                changed.mark_unchanged();
                if let Some(read) = self.take(after, max_bytes) {
                    return read;
                }
                // Can't fail: the sender lives as long as `self`.
                changed.changed().await.ok();
            }
        };
        tokio::time::timeout(wait, reading)
            .await
            .unwrap_or_default()
    }
}
