//! What became of an append whose connection broke off, and of a thread whose
//! row isn't as its writer left it.

use deadpool_postgres::Object;
use haft_api::{Error, Result};
use tokio::time::Instant;

use super::{Log, PAUSE};
use crate::failure::Failure;
use crate::lease::ms;

/// What became of a group.
pub(super) enum Settled {
    /// It is there, and on the disk.
    Written { time_ms: i64 },
    /// It isn't there and never will be.
    NotWritten(Error),
}

/// What the writer finds in the thread's row after it has raised the epoch.
struct Found {
    epoch: i64,
    next: i64,
    updated_ms: i64,
}

impl Log {
    /// Finds out what became of a group that may have been written, by raising
    /// the epoch: from then on a statement that is still under way on the broken
    /// connection comes too late, and what the row says is final.
    ///
    /// # Errors
    /// If it can't be found out within the time for one operation, or the thread
    /// isn't this writer's any more. The writer is closed then.
    pub(super) async fn settle(
        &mut self,
        first: i64,
        count: usize,
        broken: Error,
    ) -> Result<Settled> {
        let deadline = Instant::now() + self.database.timeout();
        let found = loop {
            match self.raise_epoch().await {
                Ok(found) => break found,
                Err(failure) => {
                    let error = failure.into_error();
                    if Instant::now() + PAUSE >= deadline || !error.is_temporary() {
                        self.close_for("the connection broke off in the middle of an append");
                        return Err(self.unknown("the group", error));
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        };
        let Some(found) = found else {
            self.close_for("another process has taken the thread over");
            return Err(self.unknown("the group", broken));
        };
        self.epoch = found.epoch;
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        match found.next - first {
            0 if count > 0 => Ok(Settled::NotWritten(broken)),
            written if written == count => Ok(Settled::Written {
                time_ms: found.updated_ms,
            }),
            _ => {
                self.close_for(lost(found.next, first));
                Err(self.closed_error(&lost(found.next, first)))
            }
        }
    }

    async fn raise_epoch(&self) -> Result<Option<Found>, Failure> {
        // By the token, so that it works again if a try before this one did it
        // without word of it reaching us.
        let sql = self.database.sql(
            "UPDATE {s}.threads SET epoch = epoch + 1, lease_until_ms = {now} + $3
             WHERE no = $1 AND token = $2
             RETURNING epoch, next_seq, updated_ms,
                 set_config('synchronous_commit', $4, true)",
        );
        let lease = ms(self.settings.lease);
        let commit = self.settings.commit(true);
        let row = self
            .database
            .with(async |client: &mut Object| {
                let (thread, token) = (self.lease.thread, &self.lease.token);
                let statement = client.prepare_cached(&sql).await?;
                Ok(client
                    .query_opt(&statement, &[&thread, token, &lease, &commit])
                    .await?)
            })
            .await?;
        Ok(row.map(|row| Found {
            epoch: row.get(0),
            next: row.get(1),
            updated_ms: row.get(2),
        }))
    }

    /// Why the thread's row isn't as this writer left it. Closes the writer.
    pub(super) async fn find_out_why(&mut self) -> Error {
        let sql = self
            .database
            .sql("SELECT epoch, next_seq, holder FROM {s}.threads WHERE no = $1");
        let thread = self.lease.thread;
        let row = self
            .database
            .ask(async |client: &mut Object| Ok(client.query_opt(&sql, &[&thread]).await?))
            .await;
        let reason = match row {
            Err(_) => "the thread isn't this writer's any more".to_owned(),
            Ok(None) => "the thread was deleted".to_owned(),
            Ok(Some(row)) if row.get::<_, i64>(0) != self.epoch => {
                match row.get::<_, Option<String>>(2) {
                    Some(holder) => format!("the thread was taken over by {holder}"),
                    None => "the thread was taken over, and given back since".to_owned(),
                }
            }
            Ok(Some(row)) => match self.first_number() {
                Ok(first) => lost(row.get(1), first),
                Err(error) => return error,
            },
        };
        self.close_for(reason.clone());
        self.closed_error(&reason)
    }
}

fn lost(next: i64, expected: i64) -> String {
    if next < expected {
        let last = expected - 1;
        format!(
            "the database server crashed and lost the records {next} to {last}, which it hadn't \
             been asked to wait for"
        )
    } else {
        format!(
            "the thread's next record should be {expected} and is {next}: something else wrote to \
             its rows"
        )
    }
}
