//! The message layer as tables of C functions, and back. All unsafe code of
//! this crate is in here.
//!
//! What both sides promise each other, and what the arguments below rest on, is
//! written at the types of [`abi`](super::abi): tables and endpoints live for
//! ever, bytes live as long as is said there, a task is used by one thread at a
//! time and dropped once. A plug-in that breaks these promises is beyond help;
//! one that only sends nonsense (null pointers, unknown numbers, broken JSON)
//! is not, and is answered with errors.
//!
//! No unwinding leaves a function of these tables.

mod entry;
mod export;
mod import;
mod waker;

pub use entry::start;
pub use export::export;
pub use import::{EndpointRef, connect};

use super::abi::HaftBytes;

/// Lends bytes to the other side.
fn lend(bytes: &[u8]) -> HaftBytes {
    HaftBytes {
        ptr: bytes.as_ptr(),
        len: bytes.len(),
    }
}

/// Bytes of the other side; `None` for what can't be any.
///
/// # Safety
/// If `bytes` isn't empty and its pointer isn't null, that many bytes are there
/// and nobody changes them during `'a`.
unsafe fn borrow<'a>(bytes: HaftBytes) -> Option<&'a [u8]> {
    if bytes.len == 0 {
        return Some(&[]);
    }
    if bytes.ptr.is_null() || bytes.len > isize::MAX.cast_unsigned() {
        return None;
    }
    // SAFETY: not null, not longer than any object can be; the rest is the
    // caller's promise.
    Some(unsafe { std::slice::from_raw_parts(bytes.ptr, bytes.len) })
}

#[cfg(test)]
mod tests;
