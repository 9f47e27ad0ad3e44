//! Pages of a thread's records, its parents' included.

use std::io;
use std::time::Duration;

use haft_api::{
    Diagnostic, Error, ErrorKind, ReadRange, Record, RecordPage, Result, ThreadId, ThreadMetadata,
};

use crate::blobs::Payloads;
use crate::frame::{Fault, Frame, is_too_deep};
use crate::layout::Layout;
use crate::log_file::LogFile;
use crate::scan::Span;
use crate::walk::{Shown, Taken, Unsettled, Walk};

/// A page has at most so many records unless the caller says how many.
const PAGE_RECORDS: usize = 4096;
/// A page that has so many bytes is full, whatever the caller says.
const PAGE_BYTES: u64 = 8 * 1024 * 1024;

/// How often and how long a reader waits for a write that seems to be under
/// way, before it takes what it sees for torn.
const TAIL_RETRIES: u32 = 4;
const TAIL_WAIT: Duration = Duration::from_millis(2);

/// Reads a page.
pub(crate) fn read_page(layout: &Layout, id: &ThreadId, range: ReadRange) -> Result<RecordPage> {
    let limit = match range {
        ReadRange::Forward { limit, .. } => limit.unwrap_or(PAGE_RECORDS),
        ReadRange::Backward { limit, .. } => limit,
    };
    if limit == 0 {
        let message = "a page of 0 records; ask for at least 1";
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    settled(|last_try| match range {
        ReadRange::Forward { seq, .. } => forward(layout, id, seq, limit, last_try),
        ReadRange::Backward { before, .. } => backward(layout, id, before, limit, last_try),
    })
}

fn forward(
    layout: &Layout,
    id: &ThreadId,
    seq: u64,
    limit: usize,
    last_try: bool,
) -> Result<RecordPage, Unsettled> {
    let mut walk = Walk::new(layout, id, seq == 0, last_try)?;
    walk.back_to(seq);
    let mut page = PageBuilder::new(layout, limit, PAGE_BYTES);
    walk.forward(seq, None, u64::MAX, &mut |thread, frame, span| {
        page.take(thread, frame, span)
    })?;
    page.page.next = page.more;
    Ok(page.finish(walk))
}

fn backward(
    layout: &Layout,
    id: &ThreadId,
    before: Option<u64>,
    limit: usize,
    last_try: bool,
) -> Result<RecordPage, Unsettled> {
    let mut walk = Walk::new(layout, id, before.is_none(), last_try)?;
    let before = before.unwrap_or(u64::MAX);
    let start = walk.back_by(before, limit, PAGE_BYTES)?;
    let mut page = PageBuilder::new(layout, limit, u64::MAX);
    walk.forward(
        start.seq,
        start.offset,
        before,
        &mut |thread, frame, span| page.take(thread, frame, span),
    )?;
    page.page.next = start.more.then_some(start.seq);
    Ok(page.finish(walk))
}

/// Reads everything and says what is amiss. A line whose checksum is right is
/// taken at its word.
pub(crate) fn check(layout: &Layout, id: &ThreadId) -> Result<Vec<Diagnostic>> {
    check_records(layout, id, Shown::Unsound)
}

/// The same, with a look at some of the records, or at all.
fn check_records(layout: &Layout, id: &ThreadId, shown: Shown) -> Result<Vec<Diagnostic>> {
    settled(|last_try| {
        let mut walk = Walk::new(layout, id, true, last_try)?.show(shown);
        walk.back_to(0);
        let mut payloads = Payloads::new(layout);
        walk.forward(0, None, u64::MAX, &mut |thread, frame, _| {
            payloads.whole(thread, frame);
            Ok(if is_too_deep(frame.data) {
                Taken::Faulty(Fault::TooDeep)
            } else {
                Taken::Yes
            })
        })?;
        let mut diagnostics = walk.into_diagnostics();
        diagnostics.extend(payloads.into_diagnostics());
        Ok(diagnostics)
    })
}

/// Reads again while the log's end seems to be under way.
fn settled<T>(mut read: impl FnMut(bool) -> Result<T, Unsettled>) -> Result<T> {
    let mut tries = 0;
    loop {
        match read(tries == TAIL_RETRIES) {
            Ok(done) => return Ok(done),
            Err(Unsettled::Failed(error)) => return Err(error),
            Err(Unsettled::Torn) => {
                tries += 1;
                std::thread::sleep(TAIL_WAIT);
            }
        }
    }
}

/// Collects a page.
struct PageBuilder<'l> {
    page: RecordPage,
    payloads: Payloads<'l>,
    limit: usize,
    bytes_left: u64,
    /// The record that found no room.
    more: Option<u64>,
}

impl<'l> PageBuilder<'l> {
    fn new(layout: &'l Layout, limit: usize, bytes: u64) -> Self {
        Self {
            page: RecordPage::default(),
            payloads: Payloads::new(layout),
            limit,
            bytes_left: bytes,
            more: None,
        }
    }

    fn finish(mut self, walk: Walk<'_>) -> RecordPage {
        self.page.diagnostics = walk.into_diagnostics();
        let of_payloads = self.payloads.into_diagnostics();
        self.page.diagnostics.extend(of_payloads);
        self.page
    }

    fn take(&mut self, thread: &ThreadId, frame: &Frame<'_>, span: &Span) -> io::Result<Taken> {
        if self.page.records.len() >= self.limit || self.bytes_left == 0 {
            self.more = Some(frame.seq);
            return Ok(Taken::No);
        }
        let whole = self.payloads.whole(thread, frame);
        let data = match &whole {
            Some(whole) => frame.raw_data_as(whole),
            None => frame.raw_data(),
        };
        Ok(match data {
            Ok(data) => {
                let len = (span.end - span.start).max(data.get().len() as u64);
                self.bytes_left = self.bytes_left.saturating_sub(len);
                self.page.records.push(Record {
                    seq: frame.seq,
                    time_ms: frame.time_ms,
                    kind: frame.kind.clone().into_owned(),
                    data,
                });
                Taken::Yes
            }
            Err(fault) => Taken::Faulty(fault),
        })
    }
}

/// What is known of a thread, from its log's end.
pub(crate) fn metadata(layout: &Layout, id: &ThreadId) -> Result<ThreadMetadata> {
    let log = LogFile::open(&layout.thread(id)?, id)?;
    match log.tail(id)? {
        Some(tail) => Ok(tail.metadata),
        None => Err(Error::new(
            ErrorKind::Corrupt,
            "there is no record in the thread's log that can be read; the next writer begins it \
             anew and keeps what is there",
        )
        .context("thread", id)
        .context("path", log.path.display())),
    }
}

#[cfg(test)]
mod tests;
