//! What a writer finds, or leaves, at a log's end that isn't as it should be.

use haft_api::{Diagnostic, DiagnosticCode};

use crate::disk::Folder;
use crate::kinds::Repair;
use crate::log_file::LOG_FILE;
use crate::scan::Span;
use crate::tail::Tail;

/// What is to be done before the next record can be written.
#[derive(Debug, Default)]
pub(super) struct Mend {
    /// Bytes of an earlier writer, to be put aside.
    pub(super) torn: Option<Span>,
    /// Bytes of this writer's own that couldn't be cut off when they should.
    pub(super) fragment: bool,
    /// The last record's line break is missing.
    pub(super) line_break: bool,
    /// What was done and isn't on record yet.
    pub(super) repair: Option<Repair>,
    /// There is no record at all: not even a header.
    pub(super) header: bool,
    /// There may be payloads whose lines weren't written.
    pub(super) payloads: bool,
}

impl Mend {
    pub(super) fn is_needed(&self) -> bool {
        self.torn.is_some()
            || self.fragment
            || self.line_break
            || self.repair.is_some()
            || self.header
            || self.payloads
    }

    /// What is to be done about a log's end, and where the good part ends.
    pub(super) fn of_tail(tail: &Tail, size: u64) -> (Self, u64) {
        let mut mend = Self {
            line_break: !tail.broken,
            ..Self::default()
        };
        if tail.torn.is_some() {
            mend.torn = Some(tail.end..size);
            return (mend, tail.end);
        }
        // Blank lines at the end are left alone.
        (mend, size)
    }

    /// What is to be done about a log without a single record.
    pub(super) fn of_nothing(size: u64) -> Self {
        Self {
            torn: (size > 0).then_some(0..size),
            header: true,
            ..Self::default()
        }
    }
}

/// A repair as its writer's caller is told of it; the record of it gets the
/// number `seq`.
pub(super) fn diagnostic(folder: &Folder, repair: &Repair, seq: u64) -> Diagnostic {
    let message = match &repair.kept {
        _ if repair.line_break => {
            "the last record's line break was missing; it was added".to_owned()
        }
        Some(kept) => format!(
            "a write was cut off; its {} bytes were moved to {}",
            repair.bytes,
            folder.path_of(kept).display()
        ),
        None => format!(
            "a write was cut off; its {} zeros were removed",
            repair.bytes
        ),
    };
    Diagnostic {
        code: DiagnosticCode::TornTail,
        lost: !repair.line_break,
        seq: Some(seq),
        place: Some(format!(
            "{}, byte {}",
            folder.path_of(LOG_FILE).display(),
            repair.offset
        )),
        message,
    }
}
