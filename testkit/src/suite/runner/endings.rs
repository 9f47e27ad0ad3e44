//! How processes end.

use std::time::{Duration, Instant};

use haft_api::{Ending, ErrorKind, RemoteRunnerSessionExt, Signal};

use super::Probe;
use super::subject::{SOON, Subject, never_appears};
use crate::fixture::fresh_process;
use crate::suite::Checked;
use crate::suite::expect::{ensure, fails, ok, same, soon};

const MINUTE: Duration = Duration::from_secs(60);
/// After which a process writes a file that must not live so long.
const LATER: Duration = Duration::from_secs(2);

pub(in crate::suite) async fn exit_codes_are_told(subject: Subject) -> Checked {
    let session = subject.session_with_processes().await?;
    for code in [0, 1, 3, 127, 255] {
        let ran = session.run(subject.request(&Probe::Exit(code))?).await?;
        same("the ending", &Ending::Exited { code }, &ran.ending)?;
    }
    Ok(())
}

pub(in crate::suite) async fn a_signal_of_its_own_is_told(subject: Subject) -> Checked {
    let session = subject.session_with_processes().await?;
    let ran = session.run(subject.request(&Probe::KillItself)?).await?;
    same("the ending", &Ending::Signalled { signal: 9 }, &ran.ending)
}

pub(in crate::suite) async fn the_time_limit_is_told(subject: Subject) -> Checked {
    let session = subject.session_with_processes().await?;
    let mut request = subject.request(&Probe::Sleep(MINUTE))?;
    request.timeout_ms = Some(3000);
    let began = Instant::now();
    let ran = session.run(request).await?;
    let took = began.elapsed();
    same("the ending", &Ending::TimedOut, &ran.ending)?;
    same("the output until then", "begun", &ran.stdout)?;
    ensure!(
        (Duration::from_millis(2900)..SOON).contains(&took),
        "expected an end after 3 s, got one after {took:?}"
    );
    Ok(())
}

pub(in crate::suite) async fn every_signal_ends_a_process(subject: Subject) -> Checked {
    let session = subject.session_with_processes().await?;
    for signal in [Signal::Interrupt, Signal::Terminate, Signal::Kill] {
        let id = session.start(subject.spec(&Probe::Sleep(MINUTE))?).await?;
        let after = session.printed(&id, "begun").await?;
        // What it does next may be a process of its own, which has to be there.
        tokio::time::sleep(Duration::from_millis(300)).await;
        ok(
            &format!("sending {signal:?}"),
            session.signal(&id, signal).await,
        )?;
        let drained = session.drain(&id, after, 4096).await?;
        let what = format!("the ending after {signal:?}");
        same(&what, &Some(Ending::Cancelled), &drained.ending)?;
        session.release_process(&id);
    }
    Ok(())
}

fn write_later() -> Probe {
    Probe::WriteLater {
        file: "later".to_owned(),
        after: LATER,
    }
}

pub(in crate::suite) async fn a_release_kills(subject: Subject) -> Checked {
    let session = subject.session_with_processes().await?;
    let id = session.start(subject.spec(&write_later())?).await?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    session.release_process(&id);
    let read = session.read_process(&id, None, 1, 0).await;
    fails("reading a released process", ErrorKind::NotFound, read)?;
    never_appears(&session, "later", LATER * 2).await
}

pub(in crate::suite) async fn a_dropped_command_is_dead(subject: Subject) -> Checked {
    let session = subject.session_with_processes().await?;
    let id = fresh_process();
    let request = subject.request(&write_later())?;
    {
        let command = session
            .0
            .run_command(id.clone(), request, &haft_api::NoOutput);
        let cut = tokio::time::timeout(Duration::from_millis(300), command).await;
        ensure!(
            cut.is_err(),
            "expected a command that takes a minute, got {cut:?}"
        );
    }
    let forgotten = async {
        while session.read_process(&id, None, 1, 0).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon("the dropped command to be forgotten", SOON, forgotten).await?;
    never_appears(&session, "later", LATER * 2).await
}
