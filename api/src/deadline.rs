//! Points in time that mean the same on both sides of a boundary.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// What a turn keeps back for the model's final answer when it gives a command
/// its time.
pub const ANSWER_RESERVE: Duration = Duration::from_secs(30);

/// A point in time, in milliseconds since the Unix epoch.
///
/// ```
/// use std::time::Duration;
/// use haft_api::Deadline;
///
/// let deadline = Deadline::after(Duration::from_secs(60));
/// assert!(deadline.remaining() <= Duration::from_secs(60));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Deadline {
    unix_ms: u64,
}

impl Deadline {
    /// A point in time.
    pub fn from_unix_ms(unix_ms: u64) -> Self {
        Self { unix_ms }
    }

    /// So long from now.
    pub fn after(duration: Duration) -> Self {
        let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self {
            unix_ms: unix_ms_now().saturating_add(ms),
        }
    }

    /// Milliseconds since the Unix epoch.
    pub fn unix_ms(self) -> u64 {
        self.unix_ms
    }

    /// How much time is left; zero once it has passed.
    pub fn remaining(self) -> Duration {
        Duration::from_millis(self.unix_ms.saturating_sub(unix_ms_now()))
    }

    /// The earlier of two, where a missing one never comes.
    pub fn earliest(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

/// Milliseconds since the Unix epoch, now.
pub fn unix_ms_now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

/// How long a command may run that is issued when `remaining` is left of its
/// turn: the remaining whole seconds, less [`ANSWER_RESERVE`], at least one
/// second, and never more than what was `asked` for.
///
/// ```
/// use std::time::Duration;
/// use haft_api::command_timeout;
///
/// let secs = Duration::from_secs;
/// assert_eq!(command_timeout(Some(Duration::from_millis(31_900)), None), Some(secs(1)));
/// assert_eq!(command_timeout(Some(secs(100)), Some(secs(10))), Some(secs(10)));
/// assert_eq!(command_timeout(Some(secs(100)), None), Some(secs(70)));
/// assert_eq!(command_timeout(None, Some(secs(10))), Some(secs(10)));
/// ```
pub fn command_timeout(remaining: Option<Duration>, asked: Option<Duration>) -> Option<Duration> {
    let left = remaining.map(|left| {
        let seconds = left.as_secs().saturating_sub(ANSWER_RESERVE.as_secs());
        Duration::from_secs(seconds.max(1))
    });
    match (left, asked) {
        (Some(left), Some(asked)) => Some(left.min(asked)),
        (left, asked) => left.or(asked),
    }
}
