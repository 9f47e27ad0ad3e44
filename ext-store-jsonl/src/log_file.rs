//! A thread's log, open for reading.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haft_api::{Diagnostic, DiagnosticCode, ForkPoint, Result, ThreadId};

use crate::disk::{Access, Folder, disk_error};
use crate::frame::Frame;
use crate::kinds::{FORMAT, HEADER, Header, MAJOR, first_seq};
use crate::scan::{Piece, Scanner, Span, read_full};
use crate::tail::{Tail, read_tail};

pub(crate) const LOG_FILE: &str = "log.jsonl";

/// A log as it was when it was opened: what is appended later isn't seen.
pub(crate) struct LogFile {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(crate) size: u64,
    /// The header, if it can be read.
    pub(crate) header: Option<Header>,
    /// The thread it continues and where.
    pub(crate) parent: Option<ForkPoint>,
}

impl LogFile {
    /// Opens the log in a thread's folder.
    pub(crate) fn open(folder: &Folder, id: &ThreadId) -> Result<Self> {
        let path = folder.path_of(LOG_FILE);
        let file = folder
            .file(LOG_FILE, Access::Read)
            .map_err(|e| disk_error(e, "the thread's log can't be opened", &path))?;
        Self::new(file, path.clone(), id).map_err(|e| read_error(e, &path))
    }

    /// Takes a log that is open already.
    pub(crate) fn new(file: File, path: PathBuf, id: &ThreadId) -> io::Result<Self> {
        let size = file.metadata()?.len();
        let header = read_header(&file, size)?;
        let parent = match &header {
            Some(header) => header.parent.clone(),
            // A checkpoint knows it, too.
            None => read_tail(&file, &path, size, id)?.and_then(|tail| tail.metadata.parent),
        };
        Ok(Self {
            file,
            path,
            size,
            header,
            parent,
        })
    }

    /// The number of the first record.
    pub(crate) fn first_seq(&self) -> u64 {
        first_seq(self.parent.as_ref())
    }

    /// Whether it was written to just now, so that a write may be under way.
    pub(crate) fn is_fresh(&self) -> bool {
        const JUST_NOW: Duration = Duration::from_secs(1);
        let written = self
            .file
            .metadata()
            .and_then(|metadata| metadata.modified());
        // A time in the future is no reason to believe that nobody writes.
        written.map_or(true, |at| at.elapsed().map_or(true, |age| age < JUST_NOW))
    }

    /// What the log's end says; `None` if there is no record in it.
    pub(crate) fn tail(&self, id: &ThreadId) -> Result<Option<Tail>> {
        read_tail(&self.file, &self.path, self.size, id).map_err(|e| read_error(e, &self.path))
    }
}

pub(crate) fn read_error(error: io::Error, path: &Path) -> haft_api::Error {
    disk_error(error, "the thread's log can't be read", path)
}

/// Says so if the log was written by a newer version.
pub(crate) fn newer_format(log: &LogFile) -> Option<Diagnostic> {
    let header = log.header.as_ref()?;
    (header.format != FORMAT || header.major > MAJOR).then(|| Diagnostic {
        code: DiagnosticCode::NewerFormat,
        lost: false,
        seq: Some(log.first_seq()),
        place: Some(log.path.display().to_string()),
        message: format!(
            "the log was written by {} in the format {} {}.{}; this version knows {FORMAT} \
             {MAJOR} and only reads it",
            header.creator, header.format, header.major, header.minor
        ),
    })
}

/// The header, if the first record is one.
fn read_header(file: &File, size: u64) -> io::Result<Option<Header>> {
    let mut scanner = Scanner::new(file, 0..size);
    while let Some(piece) = scanner.next()? {
        if let Piece::Record { frame, .. } = piece {
            return Ok(parse_header(&frame));
        }
    }
    Ok(None)
}

fn parse_header(frame: &Frame<'_>) -> Option<Header> {
    let header: Header = (frame.kind == HEADER)
        .then(|| serde_json::from_str(frame.data).ok())
        .flatten()?;
    (header.first_seq() == frame.seq).then_some(header)
}

/// How close a search by halves comes before it goes on record by record.
const CLOSE: u64 = 64 * 1024;

/// Where the first record of at least this number begins, or the log's end.
///
/// Numbers rise along the file, so that this is a search by halves. If it comes
/// upon a later number, the log is gone through from its start: the record may
/// be lost, or the numbers may not rise.
pub(crate) fn locate(log: &LogFile, seq: u64) -> io::Result<u64> {
    if seq <= log.first_seq() {
        return Ok(0);
    }
    let (mut low, mut high) = (0, log.size);
    while high - low > CLOSE {
        let middle = low + (high - low) / 2;
        match first_record(&log.file, middle, high)? {
            Some((found, span)) if found < seq => low = span.end,
            _ => high = middle,
        }
    }
    match find_from(&log.file, low..log.size, seq)? {
        Some((found, at)) if found == seq => Ok(at),
        None if low > 0 => Ok(log.size),
        _ => Ok(find_from(&log.file, 0..log.size, seq)?.map_or(log.size, |(_, at)| at)),
    }
}

/// The first record that begins on a line of its own in a stretch.
fn first_record(file: &File, from: u64, to: u64) -> io::Result<Option<(u64, Span)>> {
    let Some(start) = line_start_after(file, from, to)? else {
        return Ok(None);
    };
    let mut scanner = Scanner::new(file, start..to);
    while let Some(piece) = scanner.next()? {
        if let Piece::Record {
            frame,
            span,
            broken: true,
        } = piece
            && frame.verified
        {
            return Ok(Some((frame.seq, span)));
        }
    }
    Ok(None)
}

/// Where the first line begins after a place in the middle of one.
fn line_start_after(file: &File, from: u64, to: u64) -> io::Result<Option<u64>> {
    let mut buffer = [0; 4096];
    let mut at = from;
    while at < to {
        let wish = buffer
            .len()
            .min(usize::try_from(to - at).unwrap_or(usize::MAX));
        let got = read_full(file, &mut buffer[..wish], at)?;
        if let Some(found) = memchr::memchr(b'\n', &buffer[..got]) {
            return Ok(Some(at + found as u64 + 1));
        }
        if got < wish {
            break;
        }
        at += got as u64;
    }
    Ok(None)
}

fn find_from(file: &File, stretch: Span, seq: u64) -> io::Result<Option<(u64, u64)>> {
    let mut scanner = Scanner::new(file, stretch);
    while let Some(piece) = scanner.next()? {
        if let Piece::Record { frame, span, .. } = piece
            && frame.seq >= seq
        {
            return Ok(Some((frame.seq, span.start)));
        }
    }
    Ok(None)
}
