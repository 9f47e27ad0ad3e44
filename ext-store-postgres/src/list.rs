//! The list of threads.

use std::fmt;

use haft_api::{
    Diagnostic, DiagnosticCode, Error, ErrorKind, ListThreads, Result, ThreadId, ThreadPage,
};

use crate::database::Database;
use crate::metadata::{COLUMNS, FROM, parse};

/// Threads in a page unless the caller says how many.
const PAGE_THREADS: usize = 100;

/// A place in the listing: the one changed last comes first, of those changed
/// at the same time the one with the later id.
struct Cursor {
    updated_ms: i64,
    thread: String,
}

impl Cursor {
    fn parse(text: &str) -> Result<Self> {
        let parse = || {
            let (updated_ms, thread) = text.split_once('.')?;
            Some(Self {
                updated_ms: updated_ms.parse().ok().filter(|ms| *ms >= 0)?,
                thread: ThreadId::new(thread).ok()?.into(),
            })
        };
        parse().ok_or_else(|| {
            let shown: String = text
                .chars()
                .take(80)
                .flat_map(char::escape_default)
                .collect();
            let message = "the cursor isn't one that this store gave out";
            Error::new(ErrorKind::InvalidInput, message).context("cursor", shown)
        })
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.updated_ms, self.thread)
    }
}

/// Lists a page of threads.
pub(crate) async fn list(database: &Database, request: &ListThreads) -> Result<ThreadPage> {
    let limit = request.limit.unwrap_or(PAGE_THREADS);
    if limit == 0 {
        let message = "a page of 0 threads; ask for at least 1";
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    let after = request.cursor.as_deref().map(Cursor::parse).transpose()?;
    let after = after.unwrap_or(Cursor {
        updated_ms: i64::MAX,
        thread: String::new(),
    });
    let count = i64::try_from(limit).map_or(i64::MAX, |limit| limit.saturating_add(1));
    let mut rows = database
        .ask(async |client| {
            let sql = database.sql(&format!(
                "SELECT {COLUMNS} {FROM}
                 WHERE (t.updated_ms, t.id) < ($1, $2) AND (NOT t.archived OR $3)
                 ORDER BY t.updated_ms DESC, t.id DESC LIMIT $4"
            ));
            let statement = client.prepare_cached(&sql).await?;
            let (ms, id, all) = (after.updated_ms, &after.thread, request.archived);
            Ok(client.query(&statement, &[&ms, id, &all, &count]).await?)
        })
        .await?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    let mut page = ThreadPage::default();
    for row in &rows {
        match parse(row) {
            Ok(metadata) => page.threads.push(metadata),
            Err(error) => page.diagnostics.push(Diagnostic {
                code: DiagnosticCode::DamagedRecord,
                lost: true,
                seq: None,
                place: Some(format!("a row of {}.threads", database.schema())),
                message: format!("a thread can't be listed: {error}"),
            }),
        }
    }
    page.next = rows.last().filter(|_| more).map(|row| {
        let cursor = Cursor {
            thread: row.get(0),
            updated_ms: row.get(2),
        };
        cursor.to_string()
    });
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_cursors_are_taken() {
        for text in ["0.a", "1760000000123.0199c0de-0000-7000-8000-000000000000"] {
            assert_eq!(Cursor::parse(text).unwrap().to_string(), text);
        }
        for text in [
            "", ".", "a", "1", "1.", ".a", "x.a", "1.A", "1.../x", "-1.a",
        ] {
            let refused = Cursor::parse(text).map(|c| c.to_string()).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        }
    }
}
