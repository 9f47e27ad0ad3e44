//! Points in time on the runtime's own clock.

use std::time::Duration;

use haft_api::Deadline;
use tokio::time::Instant;

/// A point in time by tokio's clock, which doesn't jump, and which tests can
/// hold still. Extensions are told of it as a [`Deadline`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(Instant);

impl Moment {
    /// So long from now.
    pub(crate) fn after(duration: Duration) -> Self {
        let now = Instant::now();
        // Ages from now is as good as any later point.
        let ages = Duration::from_secs(60 * 60 * 24 * 365 * 100);
        Self(now.checked_add(duration).unwrap_or(now + ages))
    }

    pub(crate) fn remaining(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    pub(crate) fn is_past(self) -> bool {
        self.remaining().is_zero()
    }

    /// The same point by the clock on the wall.
    pub(crate) fn deadline(self) -> Deadline {
        Deadline::after(self.remaining())
    }

    /// Pending until then; for ever without one.
    pub(crate) async fn passed(moment: Option<Self>) {
        match moment {
            Some(Self(instant)) => tokio::time::sleep_until(instant).await,
            None => std::future::pending().await,
        }
    }
}
