//! Where a page that is read from the end begins.

use std::collections::VecDeque;
use std::io;

use crate::log_file::{LogFile, locate};
use crate::order::{Fate, Order};
use crate::reverse::Blocks;
use crate::scan::{Piece, Scanner};

/// How much is still to be found.
pub(crate) struct Wanted {
    records: usize,
    bytes: u64,
}

impl Wanted {
    pub(crate) fn new(records: usize, bytes: u64) -> Self {
        Self { records, bytes }
    }

    pub(crate) fn is_met(&self) -> bool {
        self.records == 0 || self.bytes == 0
    }

    fn take(&mut self, bytes: u64) {
        self.records -= 1;
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// Counts a log's records back from `before`. Gives number and place of the
/// first one that was counted.
pub(crate) fn count_back(
    log: &LogFile,
    before: u64,
    wanted: &mut Wanted,
) -> io::Result<Option<(u64, u64)>> {
    let end = if before == u64::MAX {
        log.size
    } else {
        locate(log, before)?
    };
    let mut blocks = Blocks::new(&log.file, 0..end);
    let (mut found, mut later) = (None, None::<(u64, bool)>);
    let (records, bytes) = (wanted.records, wanted.bytes);
    while let Some(block) = blocks.next(|piece| match piece {
        Piece::Record { frame, span, .. } => Some((frame.seq, frame.verified, span)),
        Piece::Damage(_) => None,
    })? {
        for (seq, verified, span) in block.into_iter().flatten().rev() {
            let in_order = match later.replace((seq, verified)) {
                Some((later, true)) => seq < later,
                Some((later, false)) => seq.checked_add(1) == Some(later),
                None => seq < before,
            };
            if !in_order || seq < log.first_seq() {
                // Which records stand can be said only from the beginning on.
                *wanted = Wanted::new(records, bytes);
                return count_all(log, before, wanted);
            }
            // One record more than is wanted is looked at, to see that the page
            // doesn't begin in the middle of a repetition.
            if wanted.is_met() {
                return Ok(found);
            }
            wanted.take(span.end - span.start);
            found = Some((seq, span.start));
        }
    }
    Ok(found)
}

/// The same by reading the log from its beginning.
fn count_all(log: &LogFile, before: u64, wanted: &mut Wanted) -> io::Result<Option<(u64, u64)>> {
    let first = log.first_seq();
    let mut order = Order::new(&log.file, &log.path, first, first);
    let mut scanner = Scanner::new(&log.file, 0..log.size);
    let mut last = VecDeque::new();
    while let Some(piece) = scanner.next()? {
        if let Piece::Record { frame, span, .. } = piece
            && order.judge(&frame, &span)? == Fate::Stands
            && frame.seq < before
        {
            if last.len() == wanted.records {
                last.pop_front();
            }
            last.push_back((frame.seq, span));
        }
    }
    let mut found = None;
    for (seq, span) in last.into_iter().rev() {
        if wanted.is_met() {
            break;
        }
        wanted.take(span.end - span.start);
        found = Some((seq, span.start));
    }
    Ok(found)
}
