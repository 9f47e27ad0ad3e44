//! A thread and its ancestors: whose rows make up its log.

use deadpool_postgres::Object;
use haft_api::{Error, ErrorKind, ThreadId};

use crate::database::Database;
use crate::failure::Failure;

/// The rows of one thread that are part of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The thread's number in the table.
    pub(crate) thread: i64,
    /// Its first record and its last one, both included; none if the last is
    /// before the first.
    pub(crate) first: i64,
    pub(crate) last: i64,
}

/// The segments of a thread's log, the oldest first, empty ones left out. The
/// last one is never left out.
pub(crate) async fn segments(
    client: &mut Object,
    database: &Database,
    thread: &ThreadId,
) -> Result<Vec<Segment>, Failure> {
    // A fork may leave its parent within what that has from its own parent:
    // hence the least of all fork points on the way.
    let sql = database.sql(
        "WITH RECURSIVE chain AS (
             SELECT no, parent, parent_seq, first_seq, next_seq - 1 AS last, 0 AS depth
             FROM {s}.threads WHERE id = $1
             UNION ALL
             SELECT t.no, t.parent, t.parent_seq, t.first_seq, LEAST(c.parent_seq, c.last),
                    c.depth + 1
             FROM chain c JOIN {s}.threads t ON t.no = c.parent
         )
         SELECT no, first_seq, last FROM chain ORDER BY depth DESC",
    );
    let statement = client.prepare_cached(&sql).await?;
    let rows = client.query(&statement, &[&thread.as_str()]).await?;
    let count = rows.len();
    if count == 0 {
        return Err(Failure::Refused(missing(thread)));
    }
    let segments = rows.iter().map(|row| Segment {
        thread: row.get(0),
        first: row.get(1),
        last: row.get(2),
    });
    Ok(segments
        .enumerate()
        .filter(|(index, segment)| *index + 1 == count || segment.first <= segment.last)
        .map(|(_, segment)| segment)
        .collect())
}

pub(crate) fn missing(thread: &ThreadId) -> Error {
    Error::new(ErrorKind::NotFound, "there is no such thread").context("thread", thread)
}
