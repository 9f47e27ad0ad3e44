//! The way along a thread's logs: back through its parents, then forwards.

use std::collections::HashSet;
use std::io;

use haft_api::{Diagnostic, DiagnosticCode, Error, ErrorKind, Result, ThreadId};

use crate::disk::find_loose;
use crate::frame::{Fault, Frame};
use crate::layout::Layout;
use crate::log_file::{LogFile, locate, newer_format, read_error};
use crate::order::{Fate, Order};
use crate::page_start::{Wanted, count_back};
use crate::scan::{Piece, Scanner, Span};

/// Why a walk ended early.
pub(crate) enum Unsettled {
    /// The log's end looks torn; a writer may be at it.
    Torn,
    Failed(Error),
}

impl From<Error> for Unsettled {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// What became of a record that stands.
pub(crate) enum Taken {
    Yes,
    /// It can't be given out.
    Faulty(Fault),
    /// There is no room for it; the walk ends before it.
    No,
}

/// Which records a visitor is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    All,
    /// Those that something may be amiss with.
    Unsound,
}

/// Where a page that is read from the end begins.
pub(crate) struct PageStart {
    pub(crate) seq: u64,
    /// Its place in the log at hand, if known.
    pub(crate) offset: Option<u64>,
    /// Whether there may be records before it.
    pub(crate) more: bool,
}

/// Takes a record: whose log it is in, and where.
type Visit<'v> = dyn FnMut(&ThreadId, &Frame<'_>, &Span) -> io::Result<Taken> + 'v;

/// A way along a thread's logs.
pub(crate) struct Walk<'l> {
    layout: &'l Layout,
    /// The log at hand: that of the last of `links`.
    log: LogFile,
    /// From the thread itself to the ancestor at hand.
    links: Vec<Link>,
    seen: HashSet<ThreadId>,
    /// Whether to take the log's end as it is.
    last_try: bool,
    shown: Shown,
    diagnostics: Vec<Diagnostic>,
}

struct Link {
    thread: ThreadId,
    /// The first number that isn't in this log or doesn't belong to the
    /// history.
    end: u64,
}

impl<'l> Walk<'l> {
    /// Begins with the thread's own log. `about_files` asks to say also what is
    /// amiss with the files as such, which is for the first page somebody reads.
    pub(crate) fn new(
        layout: &'l Layout,
        id: &ThreadId,
        about_files: bool,
        last_try: bool,
    ) -> Result<Self> {
        let folder = layout.thread(id)?;
        let log = LogFile::open(&folder, id)?;
        let mut diagnostics = Vec::new();
        if about_files {
            let failed = |e| read_error(e, &log.path);
            diagnostics.extend(find_loose(&folder, folder.path()).map_err(failed)?);
            diagnostics.extend(find_loose(&log.file, &log.path).map_err(failed)?);
            diagnostics.extend(newer_format(&log));
        }
        let links = vec![Link {
            thread: id.clone(),
            end: u64::MAX,
        }];
        let seen = HashSet::from([id.clone()]);
        Ok(Self {
            layout,
            log,
            links,
            seen,
            last_try,
            shown: Shown::All,
            diagnostics,
        })
    }

    /// Says which records visitors are shown.
    pub(crate) fn show(mut self, shown: Shown) -> Self {
        self.shown = shown;
        self
    }

    pub(crate) fn into_diagnostics(self) -> Vec<Diagnostic> {
        self.diagnostics
    }

    fn open(&self, id: &ThreadId) -> Result<LogFile> {
        LogFile::open(&self.layout.thread(id)?, id)
    }

    /// Goes to the parent of the log at hand. False if there is none, or none
    /// that can be read.
    fn back(&mut self) -> bool {
        let Some(parent) = self.log.parent.clone() else {
            return false;
        };
        let opened = if self.seen.insert(parent.thread.clone()) {
            self.open(&parent.thread)
        } else {
            Err(Error::new(
                ErrorKind::Corrupt,
                "it is a fork of its own fork",
            ))
        };
        match opened {
            Ok(log) => {
                self.log = log;
                // A fork may leave its parent where that is still its own
                // parent's.
                let end = self.links.last().map_or(u64::MAX, |link| link.end);
                let end = end.min(parent.seq.saturating_add(1));
                self.links.push(Link {
                    thread: parent.thread,
                    end,
                });
                true
            }
            Err(error) => {
                self.diagnostics.push(Diagnostic {
                    code: DiagnosticCode::Gap,
                    lost: true,
                    seq: Some(0),
                    place: Some(self.log.path.display().to_string()),
                    message: format!(
                        "the records up to {} are those of the thread {}, of which this one is a \
                         fork and which can't be read: {error}",
                        parent.seq, parent.thread
                    ),
                });
                false
            }
        }
    }

    /// Goes back to the log that has this record.
    pub(crate) fn back_to(&mut self, seq: u64) {
        while seq < self.log.first_seq() && self.back() {}
    }

    /// Goes back so far that so many records, or bytes, lie between there and
    /// `before`.
    pub(crate) fn back_by(
        &mut self,
        mut before: u64,
        records: usize,
        bytes: u64,
    ) -> Result<PageStart> {
        let mut wanted = Wanted::new(records, bytes);
        loop {
            let first = self.log.first_seq();
            if before > first {
                let found = count_back(&self.log, before, &mut wanted)
                    .map_err(|e| read_error(e, &self.log.path))?;
                if let (true, Some((seq, offset))) = (wanted.is_met(), found) {
                    return Ok(PageStart {
                        seq,
                        offset: Some(offset),
                        more: seq > 0,
                    });
                }
            }
            if !self.back() {
                return Ok(PageStart {
                    seq: first,
                    offset: None,
                    more: false,
                });
            }
            before = before.min(first);
        }
    }

    /// Shows a visitor the records from this one on and before the other, from
    /// the log at hand through to the thread's own. `offset` is the first one's
    /// place, if that is known.
    pub(crate) fn forward(
        &mut self,
        seq: u64,
        mut offset: Option<u64>,
        before: u64,
        visit: &mut Visit<'_>,
    ) -> Result<(), Unsettled> {
        while let Some(link) = self.links.pop() {
            let from = seq.max(self.log.first_seq());
            let own = self.links.is_empty();
            let end = before.min(link.end);
            let offset = offset.take();
            let enough =
                from < end && self.forward_in_log(&link.thread, from, offset, end, own, visit)?;
            if enough || end >= before {
                break;
            }
            if let Some(next) = self.links.last() {
                self.log = self.open(&next.thread)?;
            }
        }
        Ok(())
    }

    /// The same in the log at hand alone. True if the visitor had enough.
    fn forward_in_log(
        &mut self,
        thread: &ThreadId,
        seq: u64,
        offset: Option<u64>,
        end: u64,
        own: bool,
        visit: &mut Visit<'_>,
    ) -> Result<bool, Unsettled> {
        let log = &self.log;
        let failed = |e| read_error(e, &log.path);
        let start = match offset {
            Some(offset) => offset,
            None => locate(log, seq).map_err(failed)?,
        };
        let mut order = Order::new(&log.file, &log.path, log.first_seq(), seq);
        let mut scanner = Scanner::new(&log.file, start..log.size);
        let (mut whole, mut broken) = (true, true);
        loop {
            if self.shown == Shown::Unsound && order.is_calm() {
                let passed = scanner.pass_sound(order.expected(), end).map_err(failed)?;
                if passed > 0 {
                    order.passed(passed);
                    (whole, broken) = (true, true);
                }
            }
            let Some(piece) = scanner.next().map_err(failed)? else {
                break;
            };
            let (frame, span) = match piece {
                Piece::Damage(damage) => {
                    order.damage(damage);
                    whole = false;
                    continue;
                }
                Piece::Record {
                    frame,
                    span,
                    broken: has_break,
                } => {
                    (whole, broken) = (true, has_break);
                    (frame, span)
                }
            };
            if frame.seq >= end && (frame.verified || frame.seq == order.expected()) {
                self.diagnostics.extend(order.end_before(end));
                return Ok(false);
            }
            if order.judge(&frame, &span).map_err(failed)? == Fate::Drop {
                continue;
            }
            match visit(thread, &frame, &span).map_err(failed)? {
                Taken::Yes => {}
                Taken::Faulty(fault) => order.report_unreadable(frame.seq, span.start, fault),
                Taken::No => {
                    self.diagnostics.extend(order.end_before(frame.seq));
                    return Ok(true);
                }
            }
        }
        if own {
            let settled = self.last_try || (whole && broken);
            if !settled && log.is_fresh() {
                return Err(Unsettled::Torn);
            }
            self.diagnostics.extend(order.end_of_log(broken, log.size));
        } else {
            self.diagnostics.extend(order.end_before(end));
        }
        Ok(false)
    }
}
