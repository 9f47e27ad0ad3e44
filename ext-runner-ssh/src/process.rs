//! One process on the far side, as far as it is known here.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haft_api::{Ending, Error, ErrorData, ProcessChunk, ProcessId, ProcessRead, Result};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::ending::Ended;
use crate::link::{Call, Link};
use crate::output::{Output, Piece};
use crate::quote::quote;

/// Longer waits are cut to this; the caller asks again.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// A process and what is known of it.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) id: ProcessId,
    /// Its folder beneath that of all sessions.
    pub(crate) path: String,
    state: Mutex<State>,
    changed: Notify,
    /// One reader fetches at a time.
    fetching: tokio::sync::Mutex<()>,
    /// Held while it starts: nobody releases what isn't there yet.
    pub(crate) starting: tokio::sync::Mutex<()>,
    pub(crate) released: AtomicBool,
}

#[derive(Debug)]
struct State {
    output: Output,
    ended: Option<Ended>,
    /// The far side can't be reached.
    trouble: Option<ErrorData>,
}

impl Process {
    pub(crate) fn new(id: ProcessId, path: String, output: Output) -> Self {
        Self {
            id,
            path,
            state: Mutex::new(State {
                output,
                ended: None,
                trouble: None,
            }),
            changed: Notify::new(),
            fetching: tokio::sync::Mutex::default(),
            starting: tokio::sync::Mutex::default(),
            released: AtomicBool::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change under this lock is a whole one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its name in its session's folder.
    pub(crate) fn name(&self) -> String {
        name(&self.id)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.state().ended.is_some()
    }

    /// Nobody needs news of it any more.
    pub(crate) fn is_settled(&self) -> bool {
        self.has_ended() || self.released.load(Ordering::Acquire)
    }

    pub(crate) fn grown(&self, sizes: [u64; 2]) {
        let mut state = self.state();
        let more = state.output.grown(sizes);
        let was_in_trouble = state.trouble.take().is_some();
        drop(state);
        if more || was_in_trouble {
            self.changed.notify_waiters();
        }
    }

    pub(crate) fn ended(&self, ended: Ended) {
        let mut state = self.state();
        state.output.grown(ended.sizes);
        state.trouble = None;
        state.ended.get_or_insert(ended);
        drop(state);
        self.changed.notify_waiters();
    }

    pub(crate) fn lost(&self, reason: &str) {
        self.ended(Ended {
            ending: Ending::Unknown {
                reason: reason.to_owned(),
            },
            sizes: [0, 0],
            leftovers: Vec::new(),
        });
    }

    pub(crate) fn in_trouble(&self, error: &Error) {
        self.state().trouble = Some(error.to_data());
        self.changed.notify_waiters();
    }

    pub(crate) async fn read(
        &self,
        link: &Arc<Link>,
        session: &str,
        after: Option<u64>,
        max_bytes: usize,
        wait: Duration,
    ) -> Result<ProcessRead> {
        let end = Instant::now() + wait.min(LONGEST_WAIT);
        let known_to_have_ended = self.has_ended();
        loop {
            // Before looking, so that no change falls between.
            let changed = self.changed.notified();
            let fetch = self.fetching.lock().await;
            let pieces = self.state().output.after(after, max_bytes);
            if !pieces.is_empty() {
                return self.fetch(link, session, pieces).await;
            }
            drop(fetch);
            let (read, trouble) = {
                let mut state = self.state();
                (read(&state, after, Vec::new()), state.trouble.take())
            };
            if let Some(trouble) = trouble {
                return Err(Error::from(trouble).context("process", &self.id).context(
                    "command",
                    "goes on over there, and can be read again from where one was",
                ));
            }
            let news = read.ending.is_some() && !known_to_have_ended;
            if read.closed || news || tokio::time::timeout_at(end, changed).await.is_err() {
                return Ok(read);
            }
        }
    }

    async fn fetch(
        &self,
        link: &Arc<Link>,
        session: &str,
        pieces: Vec<Piece>,
    ) -> Result<ProcessRead> {
        let marks = self.state().output.take_unmarked();
        let mut line = format!(
            "{session}; process_output {} {}",
            quote(&self.name()),
            quote(&marks.join("\n"))
        );
        let mut total = 0;
        for piece in &pieces {
            line += &format!(" {} {} {}", piece.file(), piece.offset, piece.bytes);
            total += piece.bytes;
        }
        let call = Call::new(line).most(total.saturating_add(64 * 1024));
        let answer = match link.ask(call).await {
            Ok(answer) if answer.code == 0 && answer.body.len() as u64 == total => answer,
            Ok(answer) => {
                self.state().output.put_back(marks);
                let kind = match answer.code {
                    0 => haft_api::ErrorKind::Corrupt,
                    _ => answer.kind(),
                };
                let message = "the process's output can't be read on the far side";
                return Err(Error::new(kind, message).context("process", &self.id));
            }
            Err(e) => {
                self.state().output.put_back(marks);
                return Err(e.context("process", &self.id));
            }
        };
        let mut bytes = answer.body.into_iter();
        let chunks: Vec<ProcessChunk> = pieces
            .iter()
            .map(|piece| ProcessChunk {
                seq: piece.seq,
                channel: piece.channel,
                bytes: bytes
                    .by_ref()
                    .take(usize::try_from(piece.bytes).unwrap_or(usize::MAX))
                    .collect(),
            })
            .collect();
        let last = chunks.last().map(|chunk| chunk.seq);
        Ok(read(&self.state(), last, chunks))
    }
}

/// A read that leaves the reader at this number.
fn read(state: &State, last: Option<u64>, chunks: Vec<ProcessChunk>) -> ProcessRead {
    let mut read = ProcessRead::default();
    read.chunks = chunks;
    if let Some(ended) = &state.ended {
        read.ending = Some(ended.ending.clone());
        read.leftovers = ended.leftovers.clone();
        read.closed = state.output.ends_with(last);
    }
    read
}

/// The name of a process's folder: an id may be `..`.
pub(crate) fn name(id: &ProcessId) -> String {
    format!("p-{id}")
}
