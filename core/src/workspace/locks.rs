//! One lock per sandbox, shared by all threads of a runtime that use it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use haft_api::SessionState;
use tokio::sync::RwLock;

/// A provider's id and a session's.
type Key = (String, String);

/// Locks by provider and session.
#[derive(Default)]
pub(crate) struct SessionLocks {
    locks: Mutex<HashMap<Key, Weak<RwLock<()>>>>,
}

impl SessionLocks {
    pub(crate) fn of(&self, state: &SessionState) -> Arc<RwLock<()>> {
        let key = (state.provider_id.to_string(), state.session_id.to_string());
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = locks.get(&key).and_then(Weak::upgrade) {
            return lock;
        }
        locks.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::new(RwLock::new(()));
        locks.insert(key, Arc::downgrade(&lock));
        lock
    }
}
