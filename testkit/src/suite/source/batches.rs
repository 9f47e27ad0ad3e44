//! Batches of calls that succeed.

use std::sync::Arc;
use std::time::Duration;

use haft_api::BatchOutcomes;

use super::board::Board;
use super::subject::{Call, Subject, ids};
use crate::suite::expect::{ensure, same, soon};
use crate::suite::{Checked, Unmet};

pub(in crate::suite) async fn every_slot_is_filled(subject: Subject) -> Checked {
    let examples = subject.examples()?;
    subject.all_succeed(&examples).await?;
    for example in examples {
        subject.all_succeed(&[example]).await?;
    }
    Ok(())
}

pub(in crate::suite) async fn order_makes_no_difference(subject: Subject) -> Checked {
    let mut examples = subject.examples()?;
    for _ in 0..examples.len().min(5) {
        subject.all_succeed(&examples).await?;
        examples.rotate_left(1);
    }
    examples.reverse();
    subject.all_succeed(&examples).await.map(drop)
}

pub(in crate::suite) async fn one_call_twice_is_two_calls(subject: Subject) -> Checked {
    for example in subject.examples()? {
        let outcomes = subject.all_succeed(&[example; 3]).await?;
        same("outcomes of one call under three ids", &3, &outcomes.len())?;
    }
    Ok(())
}

pub(in crate::suite) async fn a_large_batch_is_filled(subject: Subject) -> Checked {
    let examples = subject.examples()?;
    let calls: Vec<Call<'_>> = examples.iter().copied().cycle().take(100).collect();
    subject.all_succeed(&calls).await.map(drop)
}

pub(in crate::suite) async fn batches_follow_one_another(subject: Subject) -> Checked {
    for _ in 0..10 {
        subject.all_succeed(&subject.examples()?).await?;
    }
    Ok(())
}

pub(in crate::suite) async fn an_empty_batch_ends(subject: Subject) -> Checked {
    let outcomes = subject.run(&[]).await?;
    same("outcomes of no calls", &0, &outcomes.len())
}

/// The slow call, or the end of the case.
fn slow(subject: &Subject) -> Result<Call<'_>, Unmet> {
    match &subject.fixture.slow {
        Some((name, arguments)) => Ok((name, arguments)),
        None => Err(Unmet::NotClaimed("the fixture has no slow call".to_owned())),
    }
}

/// How long a fast call may take, less than a slow one does.
const FAST: Duration = Duration::from_secs(20);

pub(in crate::suite) async fn answers_come_as_soon_as_they_are_known(subject: Subject) -> Checked {
    let slow = slow(&subject)?;
    let fast = subject.examples()?[0];
    for calls in [[fast, slow], [slow, fast]] {
        let batch = subject.batch(&calls);
        let board = Arc::new(Board::new(ids(&batch)));
        let outcomes = Arc::clone(&board) as Arc<dyn BatchOutcomes>;
        let running = subject.source().call_batch(batch, outcomes);
        let first = soon("the fast call's answer", FAST, board.filled(1));
        match futures::future::select(running, Box::pin(first)).await {
            futures::future::Either::Right((first, _)) => first?,
            futures::future::Either::Left(_) => {
                // A slow call may still have been fast enough to end its batch.
                same("answers of a batch that ended", &2, &board.take().len())?;
            }
        }
        board.check()?;
    }
    Ok(())
}

pub(in crate::suite) async fn a_dropped_batch_is_over(subject: Subject) -> Checked {
    let slow = slow(&subject)?;
    let examples = subject.examples()?;
    for _ in 0..3 {
        let batch = subject.batch(&[examples[0], slow, slow]);
        let board = Arc::new(Board::new(ids(&batch)));
        let outcomes = Arc::clone(&board) as Arc<dyn BatchOutcomes>;
        let running = subject.source().call_batch(batch, outcomes);
        let cut = tokio::time::timeout(Duration::from_millis(200), running).await;
        ensure!(
            cut.is_err(),
            "expected the slow call to take longer than 200 ms, got {cut:?}"
        );
        board.close();
        subject.all_succeed(&examples).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        board.check()?;
    }
    Ok(())
}
