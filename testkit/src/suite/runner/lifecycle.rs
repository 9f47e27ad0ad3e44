//! Sessions: found again, put to sleep, let go, ended.

use std::time::Duration;

use haft_api::{ErrorKind, ReadOptions, Result, Resumed, SessionId, SessionState, WriteMode};

use super::Probe;
use super::subject::{Session, Subject, never_appears};
use crate::fixture::fresh_process;
use crate::suite::expect::{claimed, ensure, fails, ok, same};
use crate::suite::{Checked, Unmet};

pub(in crate::suite) async fn constants_are_constant(subject: Subject) -> Checked {
    let provider = subject.provider();
    let (id, can) = (provider.id().clone(), provider.capabilities());
    let default = provider.default_workspace();
    ok(
        "validating the destination",
        provider.validate(&subject.binding().destination),
    )?;
    let session = subject.session().await?;
    let workspace = session.workspace().to_owned();
    session.put("file", "x").await?;
    same("the provider's id", &id, provider.id())?;
    same(
        "the provider's capabilities",
        &can,
        &provider.capabilities(),
    )?;
    same("the session's capabilities", &can, &session.capabilities())?;
    same(
        "the default workspace",
        &default,
        &provider.default_workspace(),
    )?;
    same("the session's workspace", &*workspace, session.workspace())?;
    for workspace in default.iter().chain([&workspace]) {
        let mut binding = subject.binding();
        binding.workspace.clone_from(workspace);
        ok(
            &format!("the workspace {workspace:?} as an absolute path"),
            binding.validate(),
        )?;
    }
    Ok(())
}

/// A state after it was stored.
fn stored(state: &SessionState) -> Result<SessionState, Unmet> {
    let json = serde_json::to_string(state)
        .map_err(|e| format!("expected the state to be writable as JSON, got: {e}"))?;
    let back: SessionState = serde_json::from_str(&json)
        .map_err(|e| format!("expected the state to be readable from JSON, got: {e}"))?;
    let again = serde_json::to_string(&back).map_err(|e| e.to_string())?;
    same("the state after a round through JSON", &json, &again)?;
    Ok(back)
}

pub(in crate::suite) async fn the_state_is_a_durable_handle(subject: Subject) -> Checked {
    let session = subject.session().await?;
    let state = stored(&session.state())?;
    same(
        "the state's provider",
        subject.provider().id(),
        &state.provider_id,
    )?;
    let destination = subject.binding().destination.id;
    same(
        "the state's destination",
        &destination,
        &state.destination_id,
    )
}

pub(in crate::suite) async fn a_stored_state_is_resumed(subject: Subject) -> Checked {
    let session = subject.session().await?;
    session.put("file", "kept").await?;
    let state = stored(&session.state())?;
    drop(session);
    let session = subject.resume(state.clone()).await?;
    same(
        "the resumed session's id",
        &state.session_id,
        &session.state().session_id,
    )?;
    same("the file", "kept", &session.text("file").await?)?;
    session.put("file", "changed").await?;
    same("the file", "changed", &session.text("file").await?)
}

pub(in crate::suite) async fn resuming_never_makes_a_fresh_one(subject: Subject) -> Checked {
    let session = subject.session().await?;
    session.put("mark", "x").await?;
    let mut state = stored(&session.state())?;
    let unknown = SessionId::new("haft-conformance-unknown").map_err(|e| e.to_string())?;
    state.session_id = unknown.clone();
    // A place without sandboxes of its own, such as a folder, may know no
    // unknown ones; but then it is that place.
    if let Ok(Resumed::Session(other)) = subject.provider().resume(subject.binding(), state).await {
        let other = Session(other);
        same(
            "the id of what was resumed",
            &unknown,
            &other.state().session_id,
        )?;
        ensure!(
            other.exists("mark").await,
            "expected an unknown session to be gone, got a fresh sandbox"
        );
    }
    Ok(())
}

pub(in crate::suite) async fn what_is_not_claimed_is_unsupported(subject: Subject) -> Checked {
    let can = subject.can();
    let session = subject.session().await?;
    let unsupported = ErrorKind::Unsupported;
    let mut refused = 0;
    if !can.processes {
        let spec = haft_api::ProcessSpec::new(fresh_process(), vec!["true".to_owned()]);
        fails(
            "starting a process",
            unsupported,
            session.start_process(spec).await,
        )?;
        refused += 1;
    }
    if !can.pause {
        fails("pausing", unsupported, session.pause().await)?;
        refused += 1;
    }
    if !can.detach {
        fails("detaching", unsupported, session.detach().await)?;
        refused += 1;
    }
    if !can.snapshot {
        fails("a snapshot", unsupported, session.snapshot().await)?;
        refused += 1;
    }
    if !can.ports {
        fails("a port's address", unsupported, session.port(8080).await)?;
        refused += 1;
    }
    if can.processes && !can.pty {
        let mut spec = subject.spec(&Probe::Exit(0))?;
        spec.pty = true;
        fails(
            "a pseudo terminal",
            unsupported,
            session.start_process(spec).await,
        )?;
        refused += 1;
    }
    claimed(refused > 0, "the provider claims everything")?;
    // Asking for what it can't do has broken nothing.
    session.put("file", "x").await.map(drop)
}

/// Resumes what pausing or detaching returned.
async fn comes_back(subject: &Subject, session: &Session, state: Result<SessionState>) -> Checked {
    let state = stored(&ok("letting go", state)?)?;
    same(
        "the session's id",
        &session.state().session_id,
        &state.session_id,
    )?;
    let session = subject.resume(state.clone()).await?;
    same(
        "the resumed session's id",
        &state.session_id,
        &session.state().session_id,
    )?;
    same("the file", "kept", &session.text("file").await?)?;
    session.put("file", "changed").await?;
    same("the file", "changed", &session.text("file").await?)
}

pub(in crate::suite) async fn a_paused_session_is_woken(subject: Subject) -> Checked {
    claimed(subject.can().pause, "the provider doesn't claim `pause`")?;
    let session = subject.session().await?;
    session.put("file", "kept").await?;
    comes_back(&subject, &session, session.pause().await).await
}

pub(in crate::suite) async fn a_detached_session_is_rejoined(subject: Subject) -> Checked {
    claimed(subject.can().detach, "the provider doesn't claim `detach`")?;
    let session = subject.session().await?;
    session.put("file", "kept").await?;
    comes_back(&subject, &session, session.detach().await).await
}

pub(in crate::suite) async fn a_snapshot_has_a_name(subject: Subject) -> Checked {
    claimed(
        subject.can().snapshot,
        "the provider doesn't claim `snapshot`",
    )?;
    let session = subject.session().await?;
    session.put("file", "kept").await?;
    let name = ok("taking a snapshot", session.snapshot().await)?;
    ensure!(
        !name.is_empty(),
        "expected a snapshot to have a name, got an empty one"
    );
    same(
        "the state's snapshot",
        &Some(name),
        &session.state().snapshot,
    )?;
    same("the file", "kept", &session.text("file").await?)
}

pub(in crate::suite) async fn a_port_has_an_address(subject: Subject) -> Checked {
    claimed(subject.can().ports, "the provider doesn't claim `ports`")?;
    let session = subject.session().await?;
    let address = ok("a port's address", session.port(8080).await)?;
    ensure!(!address.is_empty(), "expected an address, got an empty one");
    Ok(())
}

pub(in crate::suite) async fn closing_ends_everything(subject: Subject) -> Checked {
    let session = subject.session().await?;
    session.put("file", "x").await?;
    let later = Duration::from_secs(2);
    if subject.can().processes {
        let probe = Probe::WriteLater {
            file: "later".to_owned(),
            after: later,
        };
        if let Ok(spec) = subject.spec(&probe) {
            session.start(spec).await?;
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }
    let state = session.state();
    ok("closing the session", session.close().await)?;
    let read = session.read_file("file", ReadOptions::default()).await;
    ensure!(
        read.is_err(),
        "expected a closed session to read nothing, got {read:?}"
    );
    let written = session.put_if("file", "y", WriteMode::Any).await;
    ensure!(
        written.is_err(),
        "expected a closed session to write nothing, got {written:?}"
    );
    // Closing twice may fail or not; it must just come to an end.
    session.close().await.ok();
    // What is gone stays gone; a folder is still there, but nothing runs in it.
    if let Ok(Resumed::Session(again)) = subject.provider().resume(subject.binding(), state).await {
        never_appears(&Session(again), "later", later * 2).await?;
    }
    Ok(())
}
