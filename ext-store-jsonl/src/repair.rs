//! Puts aside what a crash left at a log's end.

use std::fs::File;
use std::io;

use haft_api::unix_ms_now;

use crate::disk::{Access, FileOps, Folder, tighten};
use crate::kinds::Repair;
use crate::scan::{Span, read_full};

pub(crate) const TORN_FOLDER: &str = "torn";

const CHUNK: u64 = 256 * 1024;

/// Copies torn bytes to a file in `torn/`, durably, and then cuts them off the
/// log. Nothing is cut before the copy is safe.
pub(crate) fn cut_torn(
    folder: &Folder,
    log: &File,
    torn: &Span,
    durable: bool,
) -> io::Result<Repair> {
    let kept = match content_end(log, torn)? {
        end if end == torn.start => None,
        end => Some(keep(folder, log, torn.start..end, durable)?),
    };
    folder.ops().set_len(log, torn.start)?;
    Ok(Repair {
        offset: torn.start,
        bytes: torn.end - torn.start,
        kept,
        line_break: false,
    })
}

/// Where the zeros begin that torn bytes end with.
fn content_end(log: &File, torn: &Span) -> io::Result<u64> {
    let mut end = torn.end;
    let mut buffer = vec![0; CHUNK as usize];
    while end > torn.start {
        let from = end.saturating_sub(CHUNK).max(torn.start);
        let got = read_full(log, &mut buffer[..(end - from) as usize], from)?;
        if let Some(last) = buffer[..got].iter().rposition(|byte| *byte != 0) {
            return Ok(from + last as u64 + 1);
        }
        end = from;
    }
    Ok(torn.start)
}

/// Copies a stretch of the log. Gives the copy's name, relative to the thread's
/// folder.
fn keep(folder: &Folder, log: &File, stretch: Span, durable: bool) -> io::Result<String> {
    let (torn_folder, created) = folder.ensure_folder(TORN_FOLDER)?;
    tighten(&**folder.ops(), &torn_folder, torn_folder.path())?;
    if created && durable {
        folder.sync()?;
    }
    let (name, file) = create(&torn_folder, stretch.start)?;
    if let Err(error) = copy(&**folder.ops(), log, stretch, &file, durable) {
        // Half a copy is worse than none, and takes room on a full disk.
        let _ = torn_folder.remove_file(&name);
        return Err(error);
    }
    if durable {
        torn_folder.sync()?;
    }
    Ok(format!("{TORN_FOLDER}/{name}"))
}

fn create(folder: &Folder, offset: u64) -> io::Result<(String, File)> {
    let now = unix_ms_now();
    let mut attempt = 0;
    loop {
        let name = match attempt {
            0 => format!("{offset}-{now}"),
            _ => format!("{offset}-{now}-{attempt}"),
        };
        match folder.create_file(&name, Access::Append) {
            Ok(file) => return Ok((name, file)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && attempt < 1000 => attempt += 1,
            Err(e) => return Err(e),
        }
    }
}

fn copy(ops: &dyn FileOps, from: &File, stretch: Span, to: &File, durable: bool) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK as usize];
    let mut at = stretch.start;
    while at < stretch.end {
        let len = (stretch.end - at).min(CHUNK) as usize;
        let got = read_full(from, &mut buffer[..len], at)?;
        if got == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        write_all(ops, to, &buffer[..got])?;
        at += got as u64;
    }
    if durable { ops.sync_data(to) } else { Ok(()) }
}

/// Writes all of it: in one call, unless the system takes less.
pub(crate) fn write_all(ops: &dyn FileOps, file: &File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match ops.write(file, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
