//! A thread's one writer, across processes.
//!
//! The lock is the operating system's own (`flock`), on a file beside the log:
//! whatever ends the process that holds it, frees it. The file's text is for
//! people and for the message that a second writer gets; it never decides.

use std::fs::{File, TryLockError};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use haft_api::{Error, ErrorKind, Result, unix_ms_now};
use serde::{Deserialize, Serialize};

use crate::disk::{Access, Folder, disk_error};
use crate::scan::read_full;

pub(crate) const LOCK_FILE: &str = "lock";

/// The text's length: always the same, so that one write replaces it whole.
const TEXT_LEN: usize = 512;

/// Held as long as it lives.
pub(crate) struct ThreadLock {
    file: File,
}

#[derive(Serialize, Deserialize)]
struct Holder {
    pid: u32,
    host: String,
    /// In milliseconds since the Unix epoch.
    since: u64,
    /// The same for people.
    since_utc: String,
}

impl ThreadLock {
    /// Takes the lock in a thread's folder, at once or not at all.
    pub(crate) fn take(folder: &Folder) -> Result<Self> {
        let path = folder.path_of(LOCK_FILE);
        let file = folder
            .ensure_file(LOCK_FILE, Access::ReadWrite)
            .map_err(|e| disk_error(e, "the thread's lock can't be opened", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(busy(&file, path)),
            Err(TryLockError::Error(e)) => {
                return Err(disk_error(e, "the thread can't be locked", &path));
            }
        }
        let lock = Self { file };
        if lock.sign().is_err() {
            // A full disk, say. The lock holds all the same; only nobody shall
            // be told of the holder before. If that fails too, they will be.
            let _ = lock.file.set_len(0);
        }
        Ok(lock)
    }

    fn sign(&self) -> std::io::Result<()> {
        let since = unix_ms_now();
        let host = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .chars()
            .take(128)
            .collect();
        let holder = Holder {
            pid: std::process::id(),
            host,
            since,
            since_utc: utc(since),
        };
        let mut text = serde_json::to_vec(&holder)?;
        text.resize(TEXT_LEN - 1, b' ');
        text.push(b'\n');
        self.file.write_all_at(&text, 0)
    }
}

impl Drop for ThreadLock {
    fn drop(&mut self) {
        // Closing isn't enough: a child process that is just being started
        // holds a copy of the handle for a moment. A failure leaves it to
        // closing.
        let _ = self.file.unlock();
    }
}

fn busy(file: &File, path: PathBuf) -> Error {
    let mut text = vec![0; TEXT_LEN];
    let holder = read_full(file, &mut text, 0)
        .ok()
        .and_then(|len| serde_json::from_slice::<Holder>(text[..len].trim_ascii()).ok());
    let error = match holder {
        Some(holder) => Error::new(
            ErrorKind::Busy,
            format!(
                "the thread is open in process {} on host {} since {}; read or fork it, or end \
                 that process",
                holder.pid, holder.host, holder.since_utc
            ),
        )
        .context("pid", holder.pid)
        .context("host", holder.host)
        .context("since", holder.since),
        None => Error::new(
            ErrorKind::Busy,
            "the thread is open in another process, which has just taken it",
        ),
    };
    error.context("path", path.display())
}

/// Milliseconds since the Unix epoch as `2026-01-31T12:00:00Z`.
fn utc(ms: u64) -> String {
    let seconds = ms / 1000;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days to a date by counting in eras of 400 years from March of year 0
    // (H. Hinnant, "chrono-compatible low-level date algorithms").
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_dates() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_760_000_000, "2025-10-09T08:53:20Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(seconds * 1000 + 7), expected);
        }
    }
}
