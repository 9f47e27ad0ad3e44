//! The digest by which a user names one very file.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::Path;

use sha2::{Digest as _, Sha256};

/// The SHA-256 of a file, in lower-case hexadecimal digits.
///
/// # Errors
/// If the file can't be read.
pub fn sha256_of(path: &Path) -> std::io::Result<String> {
    of(&File::open(path)?)
}

pub(super) fn of(mut file: &File) -> std::io::Result<String> {
    file.rewind()?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        hasher.update(&buffer[..read]);
    }
    Ok(hasher
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}
