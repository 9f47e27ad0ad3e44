//! The system's keyring: the Secret Service on Linux, Keychain on macOS, the
//! Credential Manager on Windows.

use std::sync::mpsc;
use std::time::Duration;

use keyring::{Entry, Error};

/// What Haft's entries are found under.
const SERVICE: &str = "haft";
/// How long the keyring may take: somebody may have to unlock it.
const PATIENCE: Duration = Duration::from_secs(30);

/// What an entry has; nothing if it isn't there.
///
/// # Errors
/// If the keyring doesn't answer, or refuses.
pub(super) fn read(entry: &str) -> Result<Option<String>, String> {
    ask(entry, |entry| match entry.get_password() {
        Ok(text) => Ok(Some(text)),
        Err(Error::NoEntry) => Ok(None),
        Err(error) => Err(error),
    })
}

/// Makes an entry, or replaces what it has.
///
/// # Errors
/// As [`read`].
pub(super) fn write(entry: &str, text: &str) -> Result<(), String> {
    let text = text.to_owned();
    ask(entry, move |entry| entry.set_password(&text))
}

/// Removes an entry, if it is there.
///
/// # Errors
/// As [`read`].
pub(super) fn remove(entry: &str) -> Result<(), String> {
    ask(entry, |entry| match entry.delete_credential() {
        Err(Error::NoEntry) => Ok(()),
        done => done,
    })
}

/// Does something with an entry, on a thread of its own: a keyring that waits
/// for somebody can't be interrupted.
fn ask<T: Send + 'static>(
    entry: &str,
    work: impl FnOnce(&Entry) -> keyring::Result<T> + Send + 'static,
) -> Result<T, String> {
    let entry = entry.to_owned();
    let (say, hear) = mpsc::channel();
    std::thread::Builder::new()
        .name("keyring".to_owned())
        .spawn(move || {
            if let Err(error) = Entry::store_status() {
                say.send(Err(error.to_string())).ok();
                return;
            }
            let done = Entry::new(SERVICE, &entry).and_then(|entry| work(&entry));
            say.send(done.map_err(|error| error.to_string())).ok();
        })
        .map_err(|e| format!("no thread for the system's keyring: {e}"))?;
    match hear.recv_timeout(PATIENCE) {
        Ok(done) => done.map_err(|words| format!("the system's keyring: {words}")),
        Err(_) => Err(format!(
            "the system's keyring didn't answer within {PATIENCE:?} (is it locked?)"
        )),
    }
}
