//! What is known of a thread, from its row.

use haft_api::{Error, ErrorKind, ForkPoint, Result, ThreadId, ThreadMetadata};
use tokio_postgres::Row;

use crate::chain::missing;
use crate::database::Database;

/// The columns that [`parse`] takes, in its order, of the threads `t`; to be
/// followed by [`FROM`].
pub(crate) const COLUMNS: &str = "t.id, t.created_ms, t.updated_ms, t.next_seq, t.title, \
                                  t.archived, t.extra, p.id, t.parent_seq";

/// The same where there are only the threads `t`.
pub(crate) const OWN_COLUMNS: &str = "t.id, t.created_ms, t.updated_ms, t.next_seq, t.title, t.archived, t.extra, \
     (SELECT p.id FROM {s}.threads p WHERE p.no = t.parent), t.parent_seq";

/// How many that are.
pub(crate) const OWN_COLUMN_COUNT: usize = 9;

/// What the [`COLUMNS`] are taken from.
pub(crate) const FROM: &str = "FROM {s}.threads t LEFT JOIN {s}.threads p ON p.no = t.parent";

/// A row of the [`COLUMNS`] as metadata.
pub(crate) fn parse(row: &Row) -> Result<ThreadMetadata> {
    let id: &str = row.get(0);
    let corrupt = |what: &str, e: String| {
        Error::new(
            ErrorKind::Corrupt,
            format!("the thread's row is damaged: {what}: {e}"),
        )
        .context("thread", id.escape_debug())
    };
    let number = |column: usize| u64::try_from(row.get::<_, i64>(column)).unwrap_or(0);
    let thread = ThreadId::new(id).map_err(|e| corrupt("its id", e.to_string()))?;
    let mut metadata = ThreadMetadata::new(thread, number(1));
    metadata.updated_ms = number(2);
    metadata.next_seq = number(3);
    metadata.title = row.get(4);
    metadata.archived = row.get(5);
    metadata.extra =
        serde_json::from_str(row.get(6)).map_err(|e| corrupt("its values", e.to_string()))?;
    if let Some(parent) = row.get::<_, Option<&str>>(7) {
        metadata.parent = Some(ForkPoint {
            thread: ThreadId::new(parent).map_err(|e| corrupt("its parent", e.to_string()))?,
            seq: number(8),
        });
    }
    Ok(metadata)
}

/// Reads a thread's metadata.
pub(crate) async fn metadata(database: &Database, thread: &ThreadId) -> Result<ThreadMetadata> {
    let row = database
        .ask(async |client| {
            let sql = database.sql(&format!("SELECT {COLUMNS} {FROM} WHERE t.id = $1"));
            let statement = client.prepare_cached(&sql).await?;
            Ok(client.query_opt(&statement, &[&thread.as_str()]).await?)
        })
        .await?;
    parse(&row.ok_or_else(|| missing(thread))?)
}

/// The further values as they are stored.
pub(crate) fn extra_text(metadata: &ThreadMetadata) -> Result<String> {
    serde_json::to_string(&metadata.extra).map_err(|e| {
        let message = format!("the metadata aren't JSON: {e}");
        Error::new(ErrorKind::InvalidInput, message).source(e)
    })
}

/// Refuses a title that the database can't hold.
pub(crate) fn check_title(metadata: &ThreadMetadata) -> Result<()> {
    match &metadata.title {
        Some(title) if title.contains('\0') => Err(Error::new(
            ErrorKind::InvalidInput,
            "a title in this store can't have a NUL character",
        )),
        _ => Ok(()),
    }
}
