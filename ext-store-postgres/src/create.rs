//! Makes and deletes threads.

use std::time::Duration;

use haft_api::{Error, ErrorKind, NewThread, Result, ThreadId, ThreadMetadata};
use tokio_postgres::error::SqlState;

use crate::chain::missing;
use crate::database::Database;
use crate::failure::Failure;
use crate::lease::{Taken, busy, ms, new_token};
use crate::metadata::{check_title, extra_text};
use crate::record::{HEADER, Header, checksum};

/// Makes a thread and takes its lease: all in one transaction.
pub(crate) async fn create(
    database: &Database,
    new: &NewThread,
    holder: &str,
    lease: Duration,
    commit: &str,
) -> Result<Taken> {
    let mut metadata = ThreadMetadata::new(new.id.clone(), 0);
    metadata.apply(&new.metadata);
    metadata.parent.clone_from(&new.parent);
    check_title(&metadata)?;
    let extra = extra_text(&metadata)?;
    let header = Header::new(&new.id, new.parent.as_ref(), &new.metadata);
    let data = serde_json::to_string(&header).map_err(|e| {
        let message = format!("the metadata aren't JSON: {e}");
        Error::new(ErrorKind::InvalidInput, message).source(e)
    })?;
    let first = match &new.parent {
        Some(parent) => i64::try_from(parent.seq)
            .ok()
            .and_then(|seq| seq.checked_add(1))
            .ok_or_else(|| no_such_record(new))?,
        None => 0,
    };
    let crc = checksum(first, HEADER, &data);
    let (id, lease) = (new.id.as_str(), ms(lease));
    let token = new_token();

    let outcome = database
        .with(async |client| {
            let transaction = client.transaction().await?;
            transaction
                .execute(
                    "SELECT set_config('synchronous_commit', $1, true)",
                    &[&commit],
                )
                .await?;
            let mut parent: Option<i64> = None;
            if let Some(point) = &new.parent {
                // Locked against deletion until the fork is there to protect it.
                let sql = database
                    .sql("SELECT no, next_seq FROM {s}.threads WHERE id = $1 FOR KEY SHARE");
                let row = transaction
                    .query_opt(&sql, &[&point.thread.as_str()])
                    .await?;
                let row = row.ok_or_else(|| {
                    let error = missing(&point.thread);
                    Failure::Refused(error.context("fork", &new.id))
                })?;
                if first > row.get::<_, i64>(1) {
                    return Err(Failure::Refused(no_such_record(new)));
                }
                parent = Some(row.get(0));
            }
            let sql = database.sql(
                "INSERT INTO {s}.threads (id, parent, parent_seq, first_seq, next_seq,
                     created_ms, updated_ms, title, archived, extra, epoch, holder,
                     holder_since_ms, lease_until_ms, token)
                 SELECT $1::text, $2::bigint,
                     CASE WHEN $2::bigint IS NOT NULL THEN $3::bigint - 1 END, $3::bigint,
                     $3::bigint + 1, now, now, $4::text, $5::boolean, $6::text, 1, $7::text,
                     now, now + $8::bigint, $9::text
                 FROM (SELECT {now} AS now) clock
                 ON CONFLICT (id) DO NOTHING RETURNING no, created_ms",
            );
            let statement = transaction.prepare_cached(&sql).await?;
            let (title, archived) = (&metadata.title, metadata.archived);
            let row = transaction
                .query_opt(
                    &statement,
                    &[
                        &id, &parent, &first, title, &archived, &extra, &holder, &lease, &token,
                    ],
                )
                .await?;
            let row = row.ok_or_else(|| Failure::Refused(exists(&new.id)))?;
            let (no, now): (i64, i64) = (row.get(0), row.get(1));
            let sql = database.sql(
                "INSERT INTO {s}.records (thread, seq, time_ms, kind, data, crc)
                 VALUES ($1, $2, $3, $4, $5, $6)",
            );
            let statement = transaction.prepare_cached(&sql).await?;
            transaction
                .execute(&statement, &[&no, &first, &now, &HEADER, &data, &crc])
                .await?;
            transaction.commit().await?;
            Ok((no, now))
        })
        .await;
    let (thread, now) = outcome.map_err(|failure| match failure {
        Failure::Refused(error) | Failure::Unreachable(error) => error,
        Failure::Unknown(error) => Error::new(
            ErrorKind::Unavailable,
            "whether the thread was created isn't known; look for it, or take another id",
        )
        .context("thread", &new.id)
        .source(error),
    })?;
    metadata.created_ms = now.unsigned_abs();
    metadata.updated_ms = now.unsigned_abs();
    metadata.next_seq = first.unsigned_abs() + 1;
    Ok(Taken {
        thread,
        epoch: 1,
        token,
        metadata,
    })
}

fn no_such_record(new: &NewThread) -> Error {
    let error = Error::new(
        ErrorKind::InvalidInput,
        "a thread can't be forked after a record that it lacks",
    )
    .context("thread", &new.id);
    match &new.parent {
        Some(point) => error
            .context("parent", &point.thread)
            .context("record", point.seq),
        None => error,
    }
}

fn exists(thread: &ThreadId) -> Error {
    Error::new(
        ErrorKind::AlreadyExists,
        "a thread of this id exists already",
    )
    .context("thread", thread)
}

/// Deletes a thread that nobody writes to and that has no forks.
pub(crate) async fn delete(database: &Database, thread: &ThreadId, commit: &str) -> Result<()> {
    let id = thread.as_str();
    let deleted = database
        .with(async |client| {
            // The row of the thread first: it waits for an append that is under
            // way and stops those that come later.
            let transaction = client.transaction().await?;
            transaction
                .execute(
                    "SELECT set_config('synchronous_commit', $1, true)",
                    &[&commit],
                )
                .await?;
            let sql = database.sql(
                "DELETE FROM {s}.threads
                 WHERE id = $1 AND (holder IS NULL OR lease_until_ms <= {now})
                 RETURNING no",
            );
            let Some(row) = transaction.query_opt(&sql, &[&id]).await? else {
                return Ok(false);
            };
            let no: i64 = row.get(0);
            let sql = database.sql("DELETE FROM {s}.records WHERE thread = $1");
            transaction.execute(&sql, &[&no]).await?;
            transaction.commit().await?;
            Ok(true)
        })
        .await;
    match deleted {
        Ok(true) => Ok(()),
        Ok(false) => Err(busy(database, thread).await),
        Err(Failure::Refused(error))
            if error.context_value("sqlstate") == Some(SqlState::FOREIGN_KEY_VIOLATION.code()) =>
        {
            Err(has_forks(database, thread).await)
        }
        Err(Failure::Refused(error) | Failure::Unreachable(error)) => {
            Err(error.context("thread", thread))
        }
        Err(Failure::Unknown(error)) => Err(Error::new(
            ErrorKind::Unavailable,
            "whether the thread was deleted isn't known; look for it",
        )
        .context("thread", thread)
        .source(error)),
    }
}

/// Names what stands in the way of a deletion.
async fn has_forks(database: &Database, thread: &ThreadId) -> Error {
    let id = thread.as_str();
    let forks = database
        .ask(async |client| {
            let sql = database.sql(
                "SELECT f.id FROM {s}.threads t JOIN {s}.threads f ON f.parent = t.no
                 WHERE t.id = $1 ORDER BY f.id",
            );
            Ok(client.query(&sql, &[&id]).await?)
        })
        .await;
    let names: Vec<String> = match &forks {
        Ok(rows) => rows.iter().map(|row| row.get(0)).collect(),
        Err(_) => Vec::new(),
    };
    Error::new(
        ErrorKind::Denied,
        "the thread has forks, whose history begins in its log; delete them first",
    )
    .context("thread", thread)
    .context("forks", names.join(", "))
}
