//! Makes threads.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use haft_api::{Error, ErrorKind, ForkPoint, NewThread, Result, ThreadId, unix_ms_now};

use crate::config::DurabilityPolicy;
use crate::disk::{Access, Folder, disk_error, tighten};
use crate::family::FamilyLock;
use crate::frame::encode;
use crate::index::Index;
use crate::kinds::{HEADER, Header, check_data};
use crate::layout::{Layout, NEW_PREFIX, unique_name};

use crate::lock::ThreadLock;
use crate::log_file::{LOG_FILE, LogFile};
use crate::repair::write_all;
use crate::thread_log::ThreadLog;

/// Makes a thread. Its folder gets its name only when all is in it, so that a
/// crash leaves a whole thread or none.
pub(crate) fn create(
    layout: &Layout,
    index: &Arc<Index>,
    policy: DurabilityPolicy,
    thread: NewThread,
) -> Result<ThreadLog> {
    let id = thread.id.clone();
    let durable = policy.syncs_life_cycle();
    // Keeps the parent from being deleted before it is known to have a fork.
    let _family = match &thread.parent {
        Some(parent) => {
            let lock = FamilyLock::shared(layout)?;
            check_parent(layout, parent, durable)?;
            Some(lock)
        }
        None => None,
    };
    let mut header = Header::new(id.clone(), unix_ms_now(), thread.metadata);
    header.parent = thread.parent;
    let line = header_line(&header)?;

    let path = layout.thread_path(&id);
    let failed =
        |e: io::Error| disk_error(e, "the thread can't be created", &path).context("thread", &id);
    let bucket = layout.ensure_bucket(&id, durable).map_err(failed)?;
    tighten(&**bucket.ops(), &bucket, bucket.path()).map_err(failed)?;
    if bucket.stat(id.as_str()).is_ok() {
        return Err(exists(&id, &path));
    }
    let temporary = format!("{NEW_PREFIX}{id}-{}", unique_name());
    let (folder, file, lock) = match fill(&bucket, &temporary, &line, durable) {
        Ok(filled) => filled,
        Err(error) => {
            // What remains of it is swept up later.
            let _ = bucket.remove_tree(&temporary);
            return Err(error.context("thread", &id).context("path", path.display()));
        }
    };
    if let Err(error) = bucket.rename_to(&temporary, &bucket, id.as_str()) {
        let _ = bucket.remove_tree(&temporary);
        return Err(if is_taken(&error) {
            exists(&id, &path)
        } else {
            failed(error)
        });
    }
    if durable && let Err(error) = bucket.sync() {
        let _ = bucket.remove_tree(id.as_str());
        return Err(failed(error));
    }
    let folder = folder.renamed(path.clone());
    let size = line.len() as u64;
    let mut log = ThreadLog::created(folder, file, lock, &header, size, policy, Arc::clone(index))
        .map_err(failed)?;
    log.announce(true);
    Ok(log)
}

/// The header as the log's first line.
fn header_line(header: &Header) -> Result<Vec<u8>> {
    let data = serde_json::to_string(header).map_err(|e| {
        Error::new(
            ErrorKind::InvalidInput,
            format!("the metadata aren't JSON: {e}"),
        )
        .source(e)
    })?;
    check_data(HEADER, &data).map_err(|e| e.context("thread", &header.id))?;
    let mut line = Vec::new();
    encode(
        &mut line,
        header.first_seq(),
        header.created_ms,
        HEADER,
        &data,
    );
    Ok(line)
}

/// Makes a folder with a lock that is taken and a log of one line.
fn fill(
    bucket: &Folder,
    name: &str,
    line: &[u8],
    durable: bool,
) -> Result<(Folder, File, ThreadLock)> {
    let failed = |e: io::Error| disk_error(e, "the thread can't be created", bucket.path());
    let folder = bucket.create_folder(name).map_err(failed)?;
    let lock = ThreadLock::take(&folder)?;
    let file = folder
        .create_file(LOG_FILE, Access::Append)
        .map_err(failed)?;
    write_all(&**bucket.ops(), &file, line).map_err(failed)?;
    if durable {
        bucket.ops().sync_data(&file).map_err(failed)?;
        folder.sync().map_err(failed)?;
    }
    Ok((folder, file, lock))
}

/// Makes sure that a parent has the record after which a fork leaves it, and
/// that it is durable before the fork is.
fn check_parent(layout: &Layout, point: &ForkPoint, durable: bool) -> Result<()> {
    let explain = |e: Error| e.context("parent", &point.thread);
    let folder = layout.thread(&point.thread).map_err(explain)?;
    let log = LogFile::open(&folder, &point.thread).map_err(explain)?;
    let next = log
        .tail(&point.thread)
        .map_err(explain)?
        .map_or(0, |tail| tail.metadata.next_seq);
    if point.seq >= next {
        let message = format!(
            "a thread can't be forked after record {}, which it lacks",
            point.seq
        );
        return Err(explain(
            Error::new(ErrorKind::InvalidInput, message).context("records", next),
        ));
    }
    if durable {
        layout
            .threads()
            .ops()
            .sync_data(&log.file)
            .map_err(|e| explain(disk_error(e, "the parent can't be made durable", &log.path)))?;
    }
    Ok(())
}

fn exists(id: &ThreadId, path: &Path) -> Error {
    Error::new(
        ErrorKind::AlreadyExists,
        "a thread of this id exists already",
    )
    .context("thread", id)
    .context("path", path.display())
}

/// Whether a folder couldn't get its name because something bears it.
fn is_taken(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::AlreadyExists
            | io::ErrorKind::DirectoryNotEmpty
            | io::ErrorKind::NotADirectory
    )
}
