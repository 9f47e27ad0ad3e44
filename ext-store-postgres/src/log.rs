//! A thread's log, open for writing.

mod settle;

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Object;
use haft_api::{
    Appended, Durability, Error, ErrorKind, MetadataPatch, NewRecord, Result, ThreadMetadata,
    unix_ms_now,
};

use crate::config::{DurabilityPolicy, NotifyPolicy};
use crate::database::Database;
use crate::failure::Failure;
use crate::lease::{Lease, Taken, ms};
use crate::metadata::{check_title, extra_text};
use crate::notify::Notifier;
use crate::record::{check_group, checksum};
use settle::Settled;
use tokio::time::Instant;

/// How long to wait between tries to reach the database.
const PAUSE: Duration = Duration::from_millis(100);

/// What every log of a store has in common.
pub(crate) struct Settings {
    pub(crate) durability: DurabilityPolicy,
    pub(crate) notify: NotifyPolicy,
    pub(crate) lease: Duration,
    /// The value of `synchronous_commit` that waits for the disk: the server's
    /// own, unless that is `off`.
    pub(crate) barrier: String,
}

impl Settings {
    /// The value of `synchronous_commit` for a commit that waits, or doesn't.
    pub(crate) fn commit(&self, waits: bool) -> &str {
        if waits { &self.barrier } else { "off" }
    }
}

/// A thread's one writer, on the worker's side.
pub(crate) struct Log {
    database: Arc<Database>,
    settings: Arc<Settings>,
    notifier: Arc<Notifier>,
    lease: Arc<Lease>,
    /// Raised by whoever takes the thread, and by this writer itself to be rid
    /// of a statement whose fate it doesn't know.
    epoch: i64,
    metadata: ThreadMetadata,
    /// Why nothing can be written any more.
    closed: Option<String>,
    /// Whether something was committed that isn't known to be on the disk.
    unsynced: bool,
    /// Whether something was written that others weren't told of.
    untold: bool,
    released: bool,
}

/// Rows of a group, column by column.
struct Rows<'a> {
    kinds: Vec<&'a str>,
    data: Vec<&'a str>,
    crcs: Vec<i32>,
}

/// What came of one try to append.
enum Tried {
    Written {
        time_ms: i64,
    },
    /// The row isn't as the writer left it; nothing was written.
    Fenced,
}

impl Log {
    pub(crate) fn new(
        database: Arc<Database>,
        settings: Arc<Settings>,
        notifier: Arc<Notifier>,
        lease: Arc<Lease>,
        taken: Taken,
    ) -> Self {
        Self {
            database,
            settings,
            notifier,
            lease,
            epoch: taken.epoch,
            metadata: taken.metadata,
            closed: None,
            unsynced: false,
            untold: false,
            released: false,
        }
    }

    pub(crate) fn next_seq(&self) -> u64 {
        self.metadata.next_seq
    }

    /// Appends a group.
    pub(crate) async fn append(
        &mut self,
        group: &[NewRecord],
        wish: Durability,
    ) -> Result<Appended> {
        self.writable()?;
        check_group(group).map_err(|e| self.explain(e))?;
        let sync = self.settings.durability.syncs_append(wish, group);
        let first_seq = self.metadata.next_seq;
        if group.is_empty() && !(sync && self.unsynced) {
            return Ok(Appended::new(first_seq, unix_ms_now()));
        }
        let first = self.first_number()?;
        let rows = Rows {
            kinds: group.iter().map(|record| &*record.kind).collect(),
            data: group.iter().map(|record| record.data.get()).collect(),
            crcs: (first..)
                .zip(group)
                .map(|(seq, record)| checksum(seq, &record.kind, record.data.get()))
                .collect(),
        };
        let time_ms = self.append_rows(first, &rows, sync).await?;
        self.metadata.next_seq += group.len() as u64;
        self.metadata.updated_ms = time_ms;
        self.unsynced = !sync && (self.unsynced || !group.is_empty());
        self.untold |= !group.is_empty();
        if self.settings.notify.tells(sync, group) {
            self.tell();
        }
        Ok(Appended::new(first_seq, time_ms))
    }

    /// Writes rows. Where the connection breaks off, it finds out what became of
    /// them, and writes them anew if they are known not to be there: a server
    /// that is started again within the time for one operation costs no turn.
    async fn append_rows(&mut self, first: i64, rows: &Rows<'_>, sync: bool) -> Result<u64> {
        let deadline = Instant::now() + self.database.timeout();
        loop {
            let failed = match self.try_append(first, rows, sync).await {
                Ok(Tried::Written { time_ms }) => return Ok(time_ms.unsigned_abs()),
                Ok(Tried::Fenced) => return Err(self.find_out_why().await),
                Err(Failure::Refused(error)) => return Err(self.explain(error)),
                Err(Failure::Unreachable(error)) => error,
                Err(Failure::Unknown(error)) => {
                    match self.settle(first, rows.kinds.len(), error).await? {
                        Settled::Written { time_ms } => return Ok(time_ms.unsigned_abs()),
                        Settled::NotWritten(error) => error,
                    }
                }
            };
            if Instant::now() + PAUSE >= deadline {
                return Err(self.explain(failed));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn try_append(&self, first: i64, rows: &Rows<'_>, sync: bool) -> Result<Tried, Failure> {
        // One statement is one transaction and one round trip. The row of the
        // thread is what a taker-over has to change as well: whoever comes
        // second waits, looks again, and finds that it no longer fits.
        let sql = self.database.sql(
            "WITH head AS (
                 UPDATE {s}.threads
                 SET next_seq = next_seq + $4, updated_ms = GREATEST(updated_ms, {now}),
                     lease_until_ms = {now} + $5
                 WHERE no = $1 AND epoch = $2 AND next_seq = $3
                 RETURNING no, updated_ms, set_config('synchronous_commit', $6, true) AS commit
             ), put AS (
                 INSERT INTO {s}.records (thread, seq, time_ms, kind, data, crc)
                 SELECT head.no, $3 + r.i - 1, head.updated_ms, r.kind, r.data, r.crc
                 FROM head, unnest($7::text[], $8::text[], $9::integer[])
                     WITH ORDINALITY AS r (kind, data, crc, i)
             )
             SELECT updated_ms, commit FROM head",
        );
        let count = i64::try_from(rows.kinds.len()).unwrap_or(i64::MAX);
        let lease = ms(self.settings.lease);
        let commit = self.settings.commit(sync);
        let row = self
            .database
            .with(async |client: &mut Object| {
                let statement = client.prepare_cached(&sql).await?;
                let (thread, epoch) = (self.lease.thread, self.epoch);
                Ok(client
                    .query_opt(
                        &statement,
                        &[
                            &thread,
                            &epoch,
                            &first,
                            &count,
                            &lease,
                            &commit,
                            &rows.kinds,
                            &rows.data,
                            &rows.crcs,
                        ],
                    )
                    .await?)
            })
            .await?;
        Ok(match row {
            Some(row) => Tried::Written {
                time_ms: row.get(0),
            },
            None => Tried::Fenced,
        })
    }

    /// Changes the metadata. Doing it twice does no harm, so that a broken
    /// connection is met by doing it again.
    pub(crate) async fn patch(&mut self, patch: &MetadataPatch) -> Result<ThreadMetadata> {
        self.writable()?;
        let changes = patch.title.is_some() || patch.archived.is_some() || !patch.extra.is_empty();
        if !changes {
            return Ok(self.metadata.clone());
        }
        let mut patched = self.metadata.clone();
        patched.apply(patch);
        check_title(&patched).map_err(|e| self.explain(e))?;
        let extra = extra_text(&patched).map_err(|e| self.explain(e))?;
        let sync = self.settings.durability.syncs_metadata();
        let mut outcome = self.try_patch(&patched, &extra, sync).await;
        if let Err(Failure::Unknown(_) | Failure::Unreachable(_)) = outcome {
            tokio::time::sleep(PAUSE).await;
            outcome = self.try_patch(&patched, &extra, sync).await;
        }
        match outcome {
            Ok(true) => {
                // A commit that waits covers all that was committed before.
                self.unsynced &= !sync;
                self.metadata = patched;
                Ok(self.metadata.clone())
            }
            Ok(false) => Err(self.find_out_why().await),
            Err(Failure::Refused(error) | Failure::Unreachable(error)) => Err(self.explain(error)),
            Err(Failure::Unknown(error)) => {
                self.close_for("the connection broke off while metadata were changed");
                Err(self.unknown("the change of the metadata", error))
            }
        }
    }

    async fn try_patch(
        &self,
        metadata: &ThreadMetadata,
        extra: &str,
        sync: bool,
    ) -> Result<bool, Failure> {
        let sql = self.database.sql(
            "UPDATE {s}.threads SET title = $3, archived = $4, extra = $5,
                 lease_until_ms = {now} + $6
             WHERE no = $1 AND epoch = $2 AND next_seq = $7
             RETURNING set_config('synchronous_commit', $8, true)",
        );
        let next = self.first_number().map_err(Failure::Refused)?;
        let lease = ms(self.settings.lease);
        let commit = self.settings.commit(sync);
        let row = self
            .database
            .with(async |client: &mut Object| {
                let (thread, epoch) = (self.lease.thread, self.epoch);
                let statement = client.prepare_cached(&sql).await?;
                let (title, archived) = (&metadata.title, metadata.archived);
                Ok(client
                    .query_opt(
                        &statement,
                        &[
                            &thread, &epoch, title, &archived, &extra, &lease, &next, &commit,
                        ],
                    )
                    .await?)
            })
            .await?;
        Ok(row.is_some())
    }

    /// Makes all that was written durable and gives the thread back.
    pub(crate) async fn release(&mut self) -> Result<()> {
        if self.released {
            return Ok(());
        }
        self.released = true;
        if let Some(reason) = &self.closed {
            // Whoever has the thread now, it isn't this writer; or nobody can
            // be asked, and the lease runs out.
            let lost = self.unsynced.then(|| self.closed_error(reason));
            self.give_back(false).await.ok();
            return lost.map_or(Ok(()), Err);
        }
        if self.settings.notify != NotifyPolicy::Off {
            if self.untold {
                self.tell();
            }
            self.notifier.flush().await;
        }
        let sync = self.unsynced && self.settings.durability.syncs_life_cycle();
        let mut outcome = self.give_back(sync).await;
        if let Err(Failure::Unknown(_)) = outcome {
            outcome = self.give_back(sync).await;
        }
        match outcome {
            // Nothing to give back: it was taken, and what was written before
            // was made durable by that commit.
            Ok(()) => Ok(()),
            Err(failure) if sync => {
                let error = failure.into_error();
                Err(self.unknown("what was appended last", error))
            }
            // The lease runs out by itself.
            Err(_) => Ok(()),
        }
    }

    async fn give_back(&self, sync: bool) -> Result<(), Failure> {
        let sql = self.database.sql(
            "UPDATE {s}.threads SET holder = NULL, token = NULL, holder_since_ms = NULL,
                 lease_until_ms = NULL
             WHERE no = $1 AND token = $2
             RETURNING set_config('synchronous_commit', $3, true)",
        );
        let commit = self.settings.commit(sync);
        self.database
            .with(async |client: &mut Object| {
                let (thread, token) = (self.lease.thread, &self.lease.token);
                let statement = client.prepare_cached(&sql).await?;
                client.query(&statement, &[&thread, token, &commit]).await?;
                Ok(())
            })
            .await
    }

    fn tell(&mut self) {
        self.untold = false;
        let last = self.metadata.next_seq.saturating_sub(1);
        self.notifier.tell(&self.metadata.id, last);
    }

    /// The number of the next record, as the database has it.
    fn first_number(&self) -> Result<i64> {
        i64::try_from(self.metadata.next_seq).map_err(|_| {
            self.explain(Error::new(
                ErrorKind::Unsupported,
                "the thread has no more numbers for records",
            ))
        })
    }

    fn writable(&self) -> Result<()> {
        match &self.closed {
            None if self.lease.is_lost() => {
                Err(self.closed_error("another process has taken the thread over"))
            }
            None => Ok(()),
            Some(reason) => Err(self.closed_error(reason)),
        }
    }

    fn close_for(&mut self, reason: impl Into<String>) {
        self.closed.get_or_insert_with(|| reason.into());
    }

    fn closed_error(&self, reason: &str) -> Error {
        let message = format!("the writer was closed: {reason}; open the thread again");
        self.explain(Error::new(ErrorKind::Unavailable, message).permanent())
    }

    fn unknown(&self, what: &str, source: Error) -> Error {
        let message = format!(
            "the outcome is unknown: the connection broke off, and whether {what} is in the \
             database couldn't be found out; the writer is closed, open the thread again"
        );
        self.explain(Error::new(ErrorKind::Unavailable, message).permanent())
            .context("first", self.metadata.next_seq)
            .source(source)
    }

    fn explain(&self, error: Error) -> Error {
        error.context("thread", &self.metadata.id)
    }
}
