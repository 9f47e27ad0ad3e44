//! The thread's log: read once, written in groups, told of in events.

use std::sync::Arc;

use haft_api::{
    Diagnostic, Durability, Error, Event, EventBody, Item, MetadataPatch, ReadRange, Record,
    Result, ThreadId, ThreadMetadata, ThreadWriter, TurnId,
};

use super::fold::Folded;
use super::history::Place;
use super::records::{Parsed, ThreadRecord};
use super::{Inner, ThreadItem, ThreadItems};
use crate::events::Unnumbered;
use crate::guard;
use crate::runtime::Shared;

const STORE: &str = "thread store";

/// What is known of a thread, and the way to add to it.
pub(crate) struct Log {
    pub(crate) folded: Folded,
    metadata: ThreadMetadata,
    /// Held from the first write until the thread is closed.
    writer: Option<Box<dyn ThreadWriter>>,
}

impl Log {
    /// Reads a thread.
    pub(crate) async fn read(shared: &Shared, id: &ThreadId) -> Result<Self> {
        let metadata = guard::future(STORE, shared.store.metadata(id)).await?;
        let mut folded = Folded::new();
        let mut diagnostics = Vec::new();
        let report = |diagnostic| diagnostics.push(diagnostic);
        read_all(shared, id, |record| folded.read(record), report).await?;
        folded.diagnostics.extend(diagnostics);
        Ok(Self {
            folded,
            metadata,
            writer: None,
        })
    }

    /// A thread that was just created.
    pub(crate) async fn created(
        shared: &Shared,
        id: &ThreadId,
        writer: Box<dyn ThreadWriter>,
    ) -> Result<Self> {
        let mut log = Self::read(shared, id).await?;
        log.writer = Some(writer);
        Ok(log)
    }

    pub(crate) fn metadata(&self) -> &ThreadMetadata {
        &self.metadata
    }

    pub(crate) fn next_event(&self) -> u64 {
        self.folded.next_event
    }

    /// The writer, taken now if it wasn't yet. What others wrote since this
    /// thread was read is read first.
    async fn writer(&mut self, shared: &Shared) -> Result<&mut Box<dyn ThreadWriter>> {
        if self.writer.is_none() {
            let id = self.metadata.id.clone();
            let writer = guard::future(STORE, shared.store.open_writer(&id)).await?;
            if writer.next_seq() != self.folded.next_seq {
                let fresh = Self::read(shared, &id).await?;
                self.folded = fresh.folded;
                self.metadata = fresh.metadata;
            }
            self.writer = Some(writer);
        }
        self.writer
            .as_mut()
            .ok_or_else(|| Error::new(haft_api::ErrorKind::Unexpected, "the writer is gone"))
    }

    pub(crate) fn items(&self, before: Option<u64>, limit: usize) -> ThreadItems {
        let before = before.unwrap_or(u64::MAX);
        let settled = self
            .folded
            .history
            .placed()
            .map(|(item, place)| (Arc::clone(item), place.clone()));
        let left = if self.is_live() {
            Vec::new()
        } else {
            self.left_open()
        };
        let mut items: Vec<_> = settled
            .chain(left)
            .rev()
            .filter(|(_, place)| place.seq < before)
            .take(limit)
            .map(|(item, place)| ThreadItem {
                seq: place.seq,
                turn: place.turn,
                item,
            })
            .collect();
        items.reverse();
        ThreadItems {
            items,
            diagnostics: self.folded.diagnostics.clone(),
            usage: self.folded.usage,
            models: self.folded.model_usage(),
        }
    }

    /// The results of a round that a crash cut off, as they will be once the
    /// thread is continued: those that are there and those that are made up.
    fn left_open(&self) -> Vec<(Arc<Item>, Place)> {
        let Some(unfinished) = &self.folded.unfinished else {
            return Vec::new();
        };
        let turn = Some(unfinished.turn.clone());
        let lost = Place {
            seq: self.folded.next_seq,
            turn,
        };
        let open = self.folded.history.open_round();
        open.map(|(call, result)| {
            result
                .cloned()
                .unwrap_or_else(|| (unfinished.lost_result(call), lost.clone()))
        })
        .collect()
    }

    /// Whether the unfinished turn, if there is one, is this process's own.
    fn is_live(&self) -> bool {
        self.writer.is_some()
    }
}

impl Inner {
    /// Runs something that writes in a task of its own. Whoever waits may go
    /// away: the write, and what is told of it, happen together all the same.
    pub(crate) async fn undisturbed<T, F>(
        self: &Arc<Self>,
        run: impl FnOnce(Arc<Self>) -> F,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let joined = tokio::spawn(run(Arc::clone(self))).await;
        joined.unwrap_or_else(|error| {
            Err(
                Error::new(haft_api::ErrorKind::Unexpected, error.to_string())
                    .context("thread", &self.id),
            )
        })
    }

    /// Appends a group, takes it into the history, and tells of it.
    ///
    /// # Errors
    /// What the store fails with, or that the history couldn't take an item:
    /// nothing was written then.
    ///
    /// Must run to its end: see [`undisturbed`](Self::undisturbed).
    pub(crate) async fn append(
        &self,
        log: &mut Log,
        turn: Option<&TurnId>,
        records: &[ThreadRecord],
        durability: Durability,
    ) -> Result<()> {
        let name = |error: Error| error.context("thread", &self.id);
        let items = records
            .iter()
            .flat_map(ThreadRecord::items)
            .map(|item| &**item);
        log.folded.history.check(items).map_err(name)?;
        log.writer(&self.shared).await.map_err(name)?;
        self.hub.go_on_from(log.folded.next_event);
        let pending = self.hub.begin_append();
        let mut next_event = pending.first_seq();
        let mut group = Vec::with_capacity(records.len());
        let mut events = Vec::new();
        for record in records {
            group.push(record.encode(next_event, turn).map_err(name)?);
            let bodies = record.events();
            next_event += bodies.len() as u64;
            events.extend(bodies.into_iter().map(|body| Unnumbered {
                turn: turn.cloned(),
                body,
            }));
        }
        let writer = log.writer(&self.shared).await.map_err(name)?;
        let appended = guard::future(STORE, writer.append(group, durability))
            .await
            .map_err(|error| name(error.operation("append")))?;
        for (seq, record) in (appended.first_seq..).zip(records) {
            log.folded.apply(record, turn, seq).map_err(name)?;
        }
        log.folded.next_seq = appended.first_seq + records.len() as u64;
        log.folded.next_event = next_event;
        log.folded.diagnostics.extend(appended.diagnostics);
        log.metadata.updated_ms = appended.time_ms;
        log.metadata.next_seq = log.folded.next_seq;
        pending.commit(events);
        Ok(())
    }

    pub(crate) async fn patch_metadata(
        self: &Arc<Self>,
        patch: MetadataPatch,
    ) -> Result<ThreadMetadata> {
        self.undisturbed(|thread| async move { thread.patch(patch).await })
            .await
    }

    async fn patch(&self, patch: MetadataPatch) -> Result<ThreadMetadata> {
        let name = |error: Error| error.context("thread", &self.id);
        let mut fields: Vec<String> = patch.extra.keys().cloned().collect();
        fields.extend(patch.title.as_ref().map(|_| "title".to_owned()));
        fields.extend(patch.archived.map(|_| "archived".to_owned()));
        let mut log = self.log.lock().await;
        let writer = log.writer(&self.shared).await.map_err(name)?;
        let metadata = guard::future(STORE, writer.patch_metadata(patch))
            .await
            .map_err(name)?;
        log.folded.next_seq = metadata.next_seq;
        log.metadata = metadata.clone();
        drop(log);
        self.hub.publish(None, EventBody::ThreadUpdated { fields });
        Ok(metadata)
    }
}

async fn read_all(
    shared: &Shared,
    id: &ThreadId,
    mut take: impl FnMut(&Record),
    mut report: impl FnMut(Diagnostic),
) -> Result<()> {
    let mut seq = 0;
    loop {
        let range = ReadRange::Forward { seq, limit: None };
        let page = guard::future(STORE, shared.store.read(id, range)).await?;
        let next = page.next_after(seq);
        page.records.iter().for_each(&mut take);
        page.diagnostics.into_iter().for_each(&mut report);
        match next.map_err(|e| e.context("thread", id))? {
            Some(next) => seq = next,
            None => return Ok(()),
        }
    }
}

/// The events that the stored records stand for.
pub(super) async fn stored_events(
    shared: &Shared,
    id: &ThreadId,
    from: u64,
    to: u64,
) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    let parent = guard::future(STORE, shared.store.metadata(id))
        .await?
        .parent;
    let mut take = |record: &Record| {
        let created = EventBody::ThreadCreated {
            parent: parent.as_ref().map(|p| p.thread.clone()),
        };
        let (first, turn, bodies) = match ThreadRecord::decode(record) {
            Ok(Some(Parsed {
                first_event,
                turn,
                record,
            })) => (first_event, turn, record.events()),
            _ if record.seq == 0 => (0, None, vec![created]),
            _ => return,
        };
        for (seq, body) in (first..).zip(bodies) {
            if (from..=to).contains(&seq) {
                events.push(Event::new(
                    seq,
                    id.clone(),
                    turn.clone(),
                    record.time_ms,
                    body,
                ));
            }
        }
    };
    read_all(shared, id, &mut take, |_| ()).await?;
    Ok(events)
}
