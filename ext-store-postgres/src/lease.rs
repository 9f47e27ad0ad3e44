//! A thread's one writer, across machines.
//!
//! A lease stands in the thread's row: an epoch that counts who has had the
//! thread, the holder's name and token, and a time until which nobody else takes
//! it. What
//! keeps writers apart is the epoch alone: each append names it, and finds
//! nothing to write to once another writer has raised it, however late it
//! comes. The time only says when a holder that doesn't renew it counts as dead.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use haft_api::{Error, ErrorKind, Result, ThreadId, ThreadMetadata};

use crate::chain::missing;
use crate::database::Database;
use crate::metadata::{OWN_COLUMN_COUNT, OWN_COLUMNS, parse};

/// How many times a lease is renewed in its length.
const RENEWALS: u32 = 3;

/// A lease as its writer and the renewal share it.
#[derive(Debug)]
pub(crate) struct Lease {
    /// The thread's number in the table.
    pub(crate) thread: i64,
    /// What tells this lease from all others.
    pub(crate) token: String,
    /// Whether somebody else is known to have taken the thread.
    lost: AtomicBool,
}

impl Lease {
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }
}

/// The leases of a store's living writers.
#[derive(Default)]
pub(crate) struct Leases {
    live: Mutex<HashMap<i64, Weak<Lease>>>,
}

impl Leases {
    /// A lease that is renewed until it is dropped.
    pub(crate) fn add(&self, thread: i64, token: String) -> Arc<Lease> {
        let lease = Arc::new(Lease {
            thread,
            token,
            lost: AtomicBool::new(false),
        });
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.insert(thread, Arc::downgrade(&lease));
        lease
    }

    fn all(&self) -> Vec<Arc<Lease>> {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.retain(|_, lease| lease.strong_count() > 0);
        live.values().filter_map(Weak::upgrade).collect()
    }
}

/// Renews leases for ever. A renewal that fails is tried again: until somebody
/// else takes the thread, a late one is as good.
pub(crate) async fn renew(database: Arc<Database>, leases: Arc<Leases>, length: Duration) {
    let pause = length / RENEWALS;
    loop {
        tokio::time::sleep(pause).await;
        let live = leases.all();
        if live.is_empty() {
            continue;
        }
        if renew_once(&database, &live, length).await.is_err() {
            // Not waiting for the whole pause leaves more tries in the lease.
            tokio::time::sleep(pause / 4).await;
        }
    }
}

async fn renew_once(database: &Database, leases: &[Arc<Lease>], length: Duration) -> Result<()> {
    let threads: Vec<_> = leases.iter().map(|lease| lease.thread).collect();
    let tokens: Vec<_> = leases.iter().map(|lease| &*lease.token).collect();
    let length = ms(length);
    let rows = database
        .ask(async |client| {
            // Not worth waiting for the disk: a renewal that a crash of the
            // server undoes only lets the lease end earlier.
            let sql = database.sql(
                "WITH quick AS (SELECT set_config('synchronous_commit', 'off', true))
                 UPDATE {s}.threads t SET lease_until_ms = {now} + $3
                 FROM unnest($1::bigint[], $2::text[]) AS mine (no, token), quick
                 WHERE t.no = mine.no AND t.token = mine.token
                 RETURNING t.no",
            );
            let statement = client.prepare_cached(&sql).await?;
            Ok(client
                .query(&statement, &[&threads, &tokens, &length])
                .await?)
        })
        .await?;
    let renewed: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    for lease in leases {
        if !renewed.contains(&lease.thread) {
            lease.lost.store(true, Ordering::Release);
        }
    }
    Ok(())
}

/// A thread that was taken for writing.
pub(crate) struct Taken {
    pub(crate) thread: i64,
    pub(crate) epoch: i64,
    pub(crate) token: String,
    pub(crate) metadata: ThreadMetadata,
}

/// Takes a thread's lease, at once or not at all.
pub(crate) async fn take(
    database: &Database,
    thread: &ThreadId,
    holder: &str,
    length: Duration,
) -> Result<Taken> {
    let length = ms(length);
    let id = thread.as_str();
    let token = new_token();
    let taken = database
        .ask(async |client| {
            let sql = database.sql(&format!(
                "UPDATE {{s}}.threads t SET epoch = epoch + 1, holder = $2, token = $4,
                     holder_since_ms = {{now}}, lease_until_ms = {{now}} + $3
                 WHERE id = $1 AND (holder IS NULL OR lease_until_ms <= {{now}})
                 RETURNING {OWN_COLUMNS}, t.no, t.epoch",
            ));
            let statement = client.prepare_cached(&sql).await?;
            Ok(client
                .query_opt(&statement, &[&id, &holder, &length, &token])
                .await?)
        })
        .await?;
    let Some(row) = taken else {
        return Err(busy(database, thread).await);
    };
    let own = OWN_COLUMN_COUNT;
    Ok(Taken {
        metadata: parse(&row)?,
        thread: row.get(own),
        epoch: row.get(own + 1),
        token,
    })
}

/// Why a thread can't be had: somebody has it, or there is none.
pub(crate) async fn busy(database: &Database, thread: &ThreadId) -> Error {
    let id = thread.as_str();
    let row = database
        .ask(async |client| {
            let sql = database.sql(
                "SELECT holder, holder_since_ms, lease_until_ms - {now}
                 FROM {s}.threads WHERE id = $1",
            );
            Ok(client.query_opt(&sql, &[&id]).await?)
        })
        .await;
    let row = match row {
        Ok(Some(row)) => row,
        Ok(None) => return missing(thread),
        Err(error) => return error,
    };
    let holder: Option<String> = row.get(0);
    let since: Option<i64> = row.get(1);
    let left: Option<i64> = row.get(2);
    let error = match &holder {
        Some(holder) => Error::new(
            ErrorKind::Busy,
            format!(
                "the thread is open in {holder}; read or fork it, or end that process (if it is \
                 dead, the thread is free in {} ms)",
                left.unwrap_or(0).max(0)
            ),
        )
        .context("holder", holder),
        None => Error::new(
            ErrorKind::Busy,
            "somebody has had the thread open until now; try again",
        ),
    };
    let error = error.context("thread", thread);
    match since {
        Some(since) => error.context("since", since),
        None => error,
    }
}

/// A text that no other lease has.
pub(crate) fn new_token() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// Milliseconds for the database.
pub(crate) fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// The name of this process for those who find a thread taken.
pub(crate) fn holder(node: Option<&str>) -> String {
    let host = match node {
        Some(node) => node.to_owned(),
        None => rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned(),
    };
    let host: String = host.chars().filter(|c| !c.is_control()).take(128).collect();
    format!("process {} on {host}", std::process::id())
}
