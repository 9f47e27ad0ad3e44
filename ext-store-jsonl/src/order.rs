//! Which of a log's records stand, and what is to be said of the rest.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;

use haft_api::{Diagnostic, DiagnosticCode};

use crate::frame::{Fault, Frame};
use crate::scan::{Damage, Piece, Scanner, Span, read_full};

/// What becomes of a record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is the next one.
    Stands,
    /// It is left out; if that is worth a word, it was said.
    Drop,
}

/// Judges the records of a log one after the other, in the file's order.
pub(crate) struct Order<'f> {
    file: &'f File,
    path: &'f Path,
    /// The number of the log's first record.
    first_seq: u64,
    expected: u64,
    /// Damage since the last record that stands.
    pending: Vec<Damage>,
    /// Where the records that stand are, by number; made when the first number
    /// comes a second time.
    standing: Option<HashMap<u64, Span>>,
    unverified: Option<Unverified>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

struct Unverified {
    first: u64,
    count: u64,
    offset: u64,
}

impl<'f> Order<'f> {
    /// Begins at a place in a log where this number is expected; the log itself
    /// begins with `first_seq`.
    pub(crate) fn new(file: &'f File, path: &'f Path, first_seq: u64, expected: u64) -> Self {
        Self {
            file,
            path,
            first_seq,
            expected,
            pending: Vec::new(),
            standing: None,
            unverified: None,
            diagnostics: Vec::new(),
        }
    }

    /// The number that comes next.
    pub(crate) fn expected(&self) -> u64 {
        self.expected
    }

    /// Whether the next record, if it has a checksum and the number that comes
    /// next, stands without a word.
    pub(crate) fn is_calm(&self) -> bool {
        self.pending.is_empty() && self.standing.is_none()
    }

    /// Takes it that so many such records stand.
    pub(crate) fn passed(&mut self, records: u64) {
        self.expected += records;
    }

    /// Takes note of bytes that are no record.
    pub(crate) fn damage(&mut self, damage: Damage) {
        self.pending.push(damage);
    }

    /// Judges a record.
    pub(crate) fn judge(&mut self, frame: &Frame<'_>, span: &Span) -> io::Result<Fate> {
        if frame.seq < self.expected {
            return self.repeated(frame, span);
        }
        if !frame.verified {
            if frame.seq != self.expected {
                // Nothing vouches for its number.
                let fault = Fault::OutOfSequence;
                self.damage(Damage {
                    span: span.clone(),
                    fault,
                });
                return Ok(Fate::Drop);
            }
            let unverified = self.unverified.get_or_insert(Unverified {
                first: frame.seq,
                count: 0,
                offset: span.start,
            });
            unverified.count += 1;
        }
        self.settle(frame.seq);
        self.expected = frame.seq.saturating_add(1);
        if let Some(standing) = &mut self.standing {
            standing.insert(frame.seq, span.clone());
        }
        Ok(Fate::Stands)
    }

    /// A number that was passed already.
    fn repeated(&mut self, frame: &Frame<'_>, span: &Span) -> io::Result<Fate> {
        if self.standing.is_none() {
            self.standing = Some(self.find_standing(span.start)?);
        }
        let first = self
            .standing
            .as_ref()
            .and_then(|standing| standing.get(&frame.seq));
        let (code, message) = match first {
            Some(first) if self.same_bytes(first, span)? => return Ok(Fate::Drop),
            Some(first) => (
                DiagnosticCode::Duplicate,
                format!(
                    "another record of this number stands at byte {}; it is kept",
                    first.start
                ),
            ),
            None => (
                DiagnosticCode::Foreign,
                "a record that comes after later ones; it is left out".to_owned(),
            ),
        };
        self.report(code, true, Some(frame.seq), Some(span.start), message);
        Ok(Fate::Drop)
    }

    fn find_standing(&self, end: u64) -> io::Result<HashMap<u64, Span>> {
        let mut standing = HashMap::new();
        let mut next = self.first_seq;
        let mut scanner = Scanner::new(self.file, 0..end);
        while let Some(piece) = scanner.next()? {
            if let Piece::Record { frame, span, .. } = piece
                && frame.seq >= next
                && (frame.verified || frame.seq == next)
            {
                next = frame.seq.saturating_add(1);
                standing.insert(frame.seq, span);
            }
        }
        Ok(standing)
    }

    fn same_bytes(&self, one: &Span, other: &Span) -> io::Result<bool> {
        let read = |span: &Span| {
            let mut bytes = vec![0; (span.end - span.start) as usize];
            let len = read_full(self.file, &mut bytes, span.start)?;
            bytes.truncate(len);
            Ok::<_, io::Error>(bytes)
        };
        Ok(read(one)?.trim_ascii_end() == read(other)?.trim_ascii_end())
    }

    /// Says what lies between the last record that stands and the next one.
    fn settle(&mut self, next: u64) {
        let missing = next - self.expected;
        if missing == 0 && self.pending.is_empty() {
            return;
        }
        let from = self.expected;
        let what = match missing {
            0 => "no record is missing".to_owned(),
            1 => format!("record {from} is missing"),
            _ => format!("records {from} to {} are missing", next - 1),
        };
        let pending = std::mem::take(&mut self.pending);
        if missing > 0 && pending.is_empty() {
            self.report(DiagnosticCode::Gap, true, Some(from), None, what.clone());
        }
        for damage in pending {
            self.report_damage(&damage, DiagnosticCode::DamagedRecord, missing > 0, &what);
        }
    }

    /// Ends where a record of this number follows.
    pub(crate) fn end_before(mut self, next: u64) -> Vec<Diagnostic> {
        self.settle(next.max(self.expected));
        self.finish()
    }

    /// Ends at the end of the log. `broken` says whether its last record has its
    /// line break.
    pub(crate) fn end_of_log(mut self, broken: bool, end: u64) -> Vec<Diagnostic> {
        let torn = std::mem::take(&mut self.pending);
        if torn.is_empty() && !broken {
            self.report(
                DiagnosticCode::TornTail,
                false,
                self.expected.checked_sub(1),
                Some(end),
                "the last record is whole, but its line break is missing".to_owned(),
            );
        }
        for damage in torn {
            let what = "what stood there is lost; the next writer puts the bytes aside";
            self.report_damage(&damage, DiagnosticCode::TornTail, true, what);
        }
        self.finish()
    }

    fn finish(mut self) -> Vec<Diagnostic> {
        if let Some(Unverified {
            first,
            count,
            offset,
        }) = self.unverified.take()
        {
            let message = match count {
                1 => "a record has no checksum".to_owned(),
                _ => format!("{count} records have no checksum; this is the first"),
            };
            self.report(
                DiagnosticCode::Unverified,
                false,
                Some(first),
                Some(offset),
                message,
            );
        }
        self.diagnostics
    }

    fn report_damage(&mut self, damage: &Damage, code: DiagnosticCode, lost: bool, what: &str) {
        let code = match damage.fault {
            Fault::Checksum => DiagnosticCode::ChecksumMismatch,
            _ => code,
        };
        let len = damage.span.end - damage.span.start;
        let message = format!("{len} bytes that {}; {what}", damage.fault.describe());
        self.report(
            code,
            lost,
            Some(self.expected),
            Some(damage.span.start),
            message,
        );
    }

    /// Says that a record that stands can't be given out.
    pub(crate) fn report_unreadable(&mut self, seq: u64, offset: u64, fault: Fault) {
        let message = format!("bytes that {}", fault.describe());
        self.report(
            DiagnosticCode::DamagedRecord,
            true,
            Some(seq),
            Some(offset),
            message,
        );
    }

    fn report(
        &mut self,
        code: DiagnosticCode,
        lost: bool,
        seq: Option<u64>,
        offset: Option<u64>,
        message: String,
    ) {
        let path = self.path.display();
        let place = match offset {
            Some(offset) => format!("{path}, byte {offset}"),
            None => path.to_string(),
        };
        self.diagnostics.push(Diagnostic {
            code,
            lost,
            seq,
            place: Some(place),
            message,
        });
    }
}
