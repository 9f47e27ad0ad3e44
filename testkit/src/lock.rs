//! Locking that survives the panics which tests provoke on purpose.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, whether or not a holder panicked: every critical section of this
/// crate leaves its data whole.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
