//! Leases.

use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_api::{ErrorKind, Lease, LeaseRequest, Result, SessionState};

use super::subject::{SOON, Session, Subject};
use crate::suite::expect::{claimed, ensure, fails, ok, same, soon};
use crate::suite::{Checked, Unmet};

async fn session(subject: &Subject) -> Result<Session, Unmet> {
    claimed(subject.can().leases, "the provider doesn't claim `leases`")?;
    subject.session().await
}

/// Asks for a lease, which a provider that claims leases must have.
async fn ask(
    subject: &Subject,
    state: &SessionState,
    acquire_timeout_ms: u64,
    lease_timeout_ms: Option<u64>,
) -> Result<Result<Arc<dyn Lease>>, Unmet> {
    let request = LeaseRequest {
        acquire_timeout_ms,
        lease_timeout_ms,
    };
    match subject
        .provider()
        .acquire_lease(state.clone(), request)
        .await
    {
        Ok(Some(lease)) => Ok(Ok(lease)),
        Ok(None) => Err(
            "expected a lease, as the provider claims `leases`, got none"
                .to_owned()
                .into(),
        ),
        Err(error) => Ok(Err(error)),
    }
}

async fn acquire(subject: &Subject, state: &SessionState) -> Result<Arc<dyn Lease>, Unmet> {
    ok(
        "acquiring a lease",
        ask(subject, state, 10_000, None).await?,
    )
}

pub(in crate::suite) async fn a_lease_fences(subject: Subject) -> Checked {
    let state = session(&subject).await?.state();
    let first = acquire(&subject, &state).await?;
    let began = Instant::now();
    let second = ask(&subject, &state, 400, None).await?;
    let waited = began.elapsed();
    fails("a second lease", ErrorKind::Busy, second)?;
    ensure!(
        (Duration::from_millis(350)..SOON).contains(&waited),
        "expected a wait of 400 ms, got {waited:?}"
    );
    ok("giving the first lease back", first.release().await)?;
    let third = acquire(&subject, &state).await?;
    ok("giving the third lease back", third.release().await)
}

pub(in crate::suite) async fn a_released_lease_is_free(subject: Subject) -> Checked {
    let state = session(&subject).await?.state();
    let first = acquire(&subject, &state).await?;
    let release = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        first.release().await
    };
    let waiting = soon(
        "a lease that was given back",
        SOON,
        acquire(&subject, &state),
    );
    let (second, released) = tokio::join!(waiting, release);
    ok("giving the first lease back", released)?;
    ok("giving the second lease back", second??.release().await)
}

pub(in crate::suite) async fn a_dropped_lease_stands_until_it_lapses(subject: Subject) -> Checked {
    let state = session(&subject).await?.state();
    let first = ask(&subject, &state, 10_000, Some(2000)).await?;
    let began = Instant::now();
    drop(ok("acquiring a lease", first)?);
    let second = ask(&subject, &state, 200, None).await?;
    fails(
        "a lease while the dropped one stands",
        ErrorKind::Busy,
        second,
    )?;
    let third = ask(&subject, &state, 20_000, None).await?;
    let third = ok("a lease after the dropped one has lapsed", third)?;
    ensure!(
        began.elapsed() > Duration::from_millis(1500),
        "expected the dropped lease to stand for 2 s, got one after {:?}",
        began.elapsed()
    );
    ok("giving it back", third.release().await)
}

pub(in crate::suite) async fn a_held_lease_is_not_lost(subject: Subject) -> Checked {
    let state = session(&subject).await?.state();
    let lease = acquire(&subject, &state).await?;
    let lost = tokio::time::timeout(Duration::from_millis(500), lease.lost()).await;
    same("the reason why it was lost", &None, &lost.ok())?;
    ok("giving it back", lease.release().await)
}
