//! Pages of a thread's records, its ancestors' included.

use deadpool_postgres::Object;
use haft_api::{
    Diagnostic, DiagnosticCode, Error, ErrorKind, ReadRange, RecordPage, Result, ThreadId,
};

use crate::chain::{Segment, segments};
use crate::database::Database;
use crate::failure::Failure;
use crate::record::Row;

/// A page has at most so many records unless the caller says how many.
const PAGE_RECORDS: usize = 4096;
/// A page that has so many bytes is full, whatever the caller says.
const PAGE_BYTES: i64 = 8 * 1024 * 1024;

/// Reads a page. Two statements: what is committed between them doesn't show,
/// since the first says where the log ends.
pub(crate) async fn read_page(
    database: &Database,
    thread: &ThreadId,
    range: ReadRange,
) -> Result<RecordPage> {
    let limit = match range {
        ReadRange::Forward { limit, .. } => limit.unwrap_or(PAGE_RECORDS),
        ReadRange::Backward { limit, .. } => limit,
    };
    if limit == 0 {
        let message = "a page of 0 records; ask for at least 1";
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    database
        .ask(async |client| {
            let segments = segments(client, database, thread).await?;
            let page = Page::new(database, thread, limit);
            match range {
                ReadRange::Forward { seq, .. } => page.forward(client, &segments, seq).await,
                ReadRange::Backward { before, .. } => {
                    page.backward(client, &segments, before).await
                }
            }
        })
        .await
}

/// A number as the database has it.
fn number(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

/// A page in the making.
struct Page<'a> {
    database: &'a Database,
    thread: &'a ThreadId,
    left: usize,
    bytes_left: i64,
    page: RecordPage,
}

impl<'a> Page<'a> {
    fn new(database: &'a Database, thread: &'a ThreadId, limit: usize) -> Self {
        Self {
            database,
            thread,
            left: limit,
            bytes_left: PAGE_BYTES,
            page: RecordPage::default(),
        }
    }

    async fn forward(
        mut self,
        client: &mut Object,
        segments: &[Segment],
        seq: u64,
    ) -> Result<RecordPage, Failure> {
        let mut expected = number(seq).max(segments.first().map_or(0, |s| s.first));
        let end = segments.last().map_or(-1, |s| s.last);
        for segment in segments {
            let from = expected.max(segment.first);
            if from > segment.last {
                continue;
            }
            let (rows, full) = self
                .rows(client, segment.thread, from, segment.last, "ASC")
                .await?;
            for row in rows {
                self.gap(expected, row.seq - 1);
                expected = row.seq + 1;
                self.take(row);
            }
            if full {
                break;
            }
            self.gap(expected, segment.last);
            expected = segment.last + 1;
        }
        self.page.next = (expected <= end).then(|| expected.unsigned_abs());
        Ok(self.page)
    }

    async fn backward(
        mut self,
        client: &mut Object,
        segments: &[Segment],
        before: Option<u64>,
    ) -> Result<RecordPage, Failure> {
        let end = segments.last().map_or(-1, |s| s.last);
        let start = segments.first().map_or(0, |s| s.first);
        // The number under which everything was taken, or found missing.
        let mut expected = before.map_or(end + 1, number).min(end + 1);
        for segment in segments.iter().rev() {
            let to = (expected - 1).min(segment.last);
            if to < segment.first {
                continue;
            }
            let (rows, full) = self
                .rows(client, segment.thread, segment.first, to, "DESC")
                .await?;
            for row in rows {
                self.gap(row.seq + 1, expected - 1);
                expected = row.seq;
                self.take(row);
            }
            if full {
                break;
            }
            self.gap(segment.first, expected - 1);
            expected = segment.first;
        }
        self.page.records.reverse();
        self.page.diagnostics.reverse();
        self.page.next = (expected > start).then(|| expected.unsigned_abs());
        Ok(self.page)
    }

    /// Rows of one thread as far as the page has room, and whether it is full.
    async fn rows(
        &mut self,
        client: &mut Object,
        thread: i64,
        from: i64,
        to: i64,
        order: &str,
    ) -> Result<(Vec<Row>, bool), Failure> {
        // A row is taken if those before it leave room, so that the largest
        // one still finds its page.
        let sql = self.database.sql(
            "SELECT seq, time_ms, kind, data, crc FROM (
                 SELECT *, sum(octet_length(data)) OVER (ORDER BY seq {order})
                           - octet_length(data) AS before
                 FROM {s}.records WHERE thread = $1 AND seq BETWEEN $2 AND $3
                 ORDER BY seq {order} LIMIT $4
             ) page WHERE before < $5 ORDER BY seq {order}",
        );
        let statement = client
            .prepare_cached(&sql.replace("{order}", order))
            .await?;
        let limit = i64::try_from(self.left).unwrap_or(i64::MAX);
        let rows = client
            .query(&statement, &[&thread, &from, &to, &limit, &self.bytes_left])
            .await?;
        self.left -= rows.len().min(self.left);
        let rows: Vec<_> = rows
            .into_iter()
            .map(|row| Row {
                seq: row.get(0),
                time_ms: row.get(1),
                kind: row.get(2),
                data: row.get(3),
                crc: row.get(4),
            })
            .collect();
        for row in &rows {
            let len = i64::try_from(row.data.len()).unwrap_or(i64::MAX);
            self.bytes_left = self.bytes_left.saturating_sub(len);
        }
        Ok((rows, self.left == 0 || self.bytes_left <= 0))
    }

    fn take(&mut self, row: Row) {
        let (record, diagnostic) = row.into_record(self.thread);
        self.page.records.extend(record);
        self.page.diagnostics.extend(diagnostic);
    }

    /// Reports records that are missing, if the first isn't after the last.
    fn gap(&mut self, first: i64, last: i64) {
        if first <= last {
            self.page.diagnostics.push(Diagnostic {
                code: DiagnosticCode::Gap,
                lost: true,
                seq: u64::try_from(first).ok(),
                place: Some(format!("the rows of the thread {}", self.thread)),
                message: format!("the records {first} to {last} are missing"),
            });
        }
    }
}

/// Reads everything and says what is amiss with it.
pub(crate) async fn check(database: &Database, thread: &ThreadId) -> Result<Vec<Diagnostic>> {
    let mut diagnostics = Vec::new();
    let mut seq = 0;
    loop {
        let range = ReadRange::Forward { seq, limit: None };
        let page = read_page(database, thread, range).await?;
        diagnostics.extend(page.diagnostics);
        match page.next {
            Some(next) => seq = next,
            None => break,
        }
    }
    let stray = database
        .ask(async |client| {
            let sql = database.sql(
                "SELECT r.seq FROM {s}.threads t JOIN {s}.records r ON r.thread = t.no
                 WHERE t.id = $1 AND (r.seq < t.first_seq OR r.seq >= t.next_seq)
                 ORDER BY r.seq",
            );
            Ok(client.query(&sql, &[&thread.as_str()]).await?)
        })
        .await?;
    diagnostics.extend(stray.iter().map(|row| {
        let seq: i64 = row.get(0);
        Diagnostic {
            code: DiagnosticCode::Foreign,
            lost: false,
            seq: u64::try_from(seq).ok(),
            place: Some(format!("the row {seq} of the thread {thread}")),
            message: "the store didn't write this row: its number isn't one of the thread's own"
                .to_owned(),
        }
    }));
    Ok(diagnostics)
}
