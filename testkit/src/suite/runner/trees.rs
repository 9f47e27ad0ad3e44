//! What processes leave behind.

use std::time::{Duration, Instant};

use haft_api::Ending;

use super::Probe;
use super::subject::{SOON, Session, Subject, never_appears};
use crate::suite::expect::{claimed, ensure, same, soon};
use crate::suite::{Checked, Unmet};

/// After which a left process writes its file.
const LATER: Duration = Duration::from_secs(2);

async fn session(subject: &Subject) -> Result<Session, Unmet> {
    let claim = subject.can().kills_process_trees;
    claimed(claim, "the provider doesn't claim `kills_process_trees`")?;
    subject.session_with_processes().await
}

fn leave_behind(own_session: bool) -> Probe {
    Probe::LeaveBehind {
        file: "later".to_owned(),
        after: LATER,
        own_session,
    }
}

pub(in crate::suite) async fn leftovers_die_with_their_process(subject: Subject) -> Checked {
    let session = session(&subject).await?;
    for own_session in [false, true] {
        let began = Instant::now();
        let ran = session
            .run(subject.request(&leave_behind(own_session))?)
            .await?;
        same("the ending", &Ending::Exited { code: 0 }, &ran.ending)?;
        ensure!(
            !ran.leftovers.is_empty(),
            "expected the process that was left behind to be listed, got none"
        );
        let left = LATER.saturating_sub(began.elapsed()) + LATER;
        never_appears(&session, "later", left).await?;
    }
    Ok(())
}

pub(in crate::suite) async fn detached_leftovers_live_on(subject: Subject) -> Checked {
    let session = session(&subject).await?;
    let mut request = subject.request(&leave_behind(false))?;
    request.detach = true;
    let ran = session.run(request).await?;
    same("the ending", &Ending::Exited { code: 0 }, &ran.ending)?;
    ensure!(
        !ran.leftovers.is_empty(),
        "expected the process that lives on to be listed, got none"
    );
    let written = async {
        while !session.exists("later").await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    soon("the detached process to write its file", SOON, written).await
}

pub(in crate::suite) async fn the_time_limit_kills_the_tree(subject: Subject) -> Checked {
    let session = session(&subject).await?;
    let probe = Probe::WriteLater {
        file: "later".to_owned(),
        after: LATER,
    };
    let mut request = subject.request(&probe)?;
    request.timeout_ms = Some(500);
    let ran = session.run(request).await?;
    same("the ending", &Ending::TimedOut, &ran.ending)?;
    never_appears(&session, "later", LATER * 2).await
}
