//! What a session must not touch.

use haft_api::{ErrorKind, FileKind, ListOptions, ReadOptions, WriteMode};

use super::Probe;
use super::subject::{Session, Subject};
use crate::suite::Checked;
use crate::suite::expect::{claimed, ensure, fails, ok, same};

/// A name at the file system's root that nobody has.
const OUTSIDE: &str = "haft-conformance-outside";

/// Checks that nothing comes of any access to a path out of the workspace.
async fn denied(subject: &Subject, session: &Session, path: &str) -> Checked {
    let can = subject.can();
    if can.confines_writes {
        for mode in [WriteMode::Any, WriteMode::CreateNew] {
            let written = session.put_if(path, "x", mode).await;
            fails(&format!("writing {path:?}"), ErrorKind::Denied, written)?;
        }
        let made = session.make_dir(path).await;
        fails(
            &format!("making the folder {path:?}"),
            ErrorKind::Denied,
            made,
        )?;
    }
    if can.confines_reads {
        let read = session.read_file(path, ReadOptions::default()).await;
        fails(&format!("reading {path:?}"), ErrorKind::Denied, read)?;
        let listed = session.list(path, ListOptions::default()).await;
        fails(&format!("listing {path:?}"), ErrorKind::Denied, listed)?;
    }
    Ok(())
}

fn claims_any(subject: &Subject) -> Checked {
    let can = subject.can();
    claimed(
        can.confines_writes || can.confines_reads,
        "the provider claims neither `confines_writes` nor `confines_reads`",
    )
}

/// Checks that a session still works, and has just this in its workspace.
async fn unharmed(session: &Session, names: &[&str]) -> Checked {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    same("the workspace", &names, &session.names(".").await?)
}

pub(in crate::suite) async fn dots_lead_nowhere(subject: Subject) -> Checked {
    claims_any(&subject)?;
    let session = subject.session().await?;
    session.put("folder/file", "x").await?;
    let up = "../".repeat(40);
    for path in [
        format!("{up}{OUTSIDE}"),
        format!("folder/{up}{OUTSIDE}"),
        format!("./{up}./{OUTSIDE}"),
        format!("{}/{up}{OUTSIDE}", session.workspace()),
    ] {
        denied(&subject, &session, &path).await?;
        if subject.can().confines_writes {
            let removed = session.remove(&path).await;
            fails(&format!("removing {path:?}"), ErrorKind::Denied, removed)?;
        }
    }
    unharmed(&session, &["folder"]).await
}

pub(in crate::suite) async fn absolute_paths_lead_nowhere(subject: Subject) -> Checked {
    claims_any(&subject)?;
    let session = subject.session().await?;
    session.put("file", "x").await?;
    for path in [
        format!("/{OUTSIDE}"),
        format!("//{OUTSIDE}/x"),
        format!("/./{OUTSIDE}"),
    ] {
        denied(&subject, &session, &path).await?;
    }
    for path in ["a\0b", "\0"] {
        let written = session.put_if(path, "x", WriteMode::Any).await;
        ensure!(
            written.is_err(),
            "expected the path {path:?} to be refused, got success"
        );
        let read = session.read_file(path, ReadOptions::default()).await;
        ensure!(
            read.is_err(),
            "expected the path {path:?} to be refused, got success"
        );
    }
    unharmed(&session, &["file"]).await
}

/// Makes a link in the workspace.
async fn link(subject: &Subject, session: &Session, path: &str, target: &str) -> Checked {
    let (path, target) = (path.to_owned(), target.to_owned());
    let probe = Probe::Link { path, target };
    let ran = session.run(subject.request(&probe)?).await?;
    ensure!(
        ran.ending.is_success(),
        "expected {probe:?} to work, got {ran:?}"
    );
    Ok(())
}

pub(in crate::suite) async fn links_lead_nowhere(subject: Subject) -> Checked {
    claims_any(&subject)?;
    let session = subject.session_with_processes().await?;
    let up = "../".repeat(40);
    link(&subject, &session, "file", &format!("/{OUTSIDE}")).await?;
    link(&subject, &session, "root", "/").await?;
    link(&subject, &session, "up", &up).await?;
    link(&subject, &session, "twice", "root").await?;
    for path in [
        format!("root/{OUTSIDE}"),
        format!("up/{OUTSIDE}"),
        format!("twice/{OUTSIDE}"),
        format!("./root/../root/{OUTSIDE}"),
    ] {
        denied(&subject, &session, &path).await?;
    }
    if subject.can().confines_writes {
        let written = session.put_if("file", "x", WriteMode::Any).await;
        fails("writing through a link", ErrorKind::Denied, written)?;
        let removed = session.remove(&format!("root/{OUTSIDE}")).await;
        fails("removing through a link", ErrorKind::Denied, removed)?;
    }
    if subject.can().confines_reads {
        let read = session.read_file("file", ReadOptions::default()).await;
        fails("reading through a link", ErrorKind::Denied, read)?;
    }
    unharmed(&session, &["file", "root", "twice", "up"]).await
}

pub(in crate::suite) async fn a_link_is_seen_as_a_link(subject: Subject) -> Checked {
    let session = subject.session_with_processes().await?;
    session.put("folder/target", "x").await?;
    link(&subject, &session, "link", "folder/target").await?;
    link(&subject, &session, "dangling", "nowhere").await?;
    for name in ["link", "dangling"] {
        let metadata = ok("a link's metadata", session.0.metadata(name).await)?;
        same(
            &format!("the kind of {name}"),
            &FileKind::Symlink,
            &metadata.kind,
        )?;
    }
    same(
        "the file through the link",
        "x",
        &session.text("link").await?,
    )?;
    let listing = ok("listing", session.list(".", ListOptions::default()).await)?;
    let kinds: Vec<_> = listing.entries.iter().map(|e| (&*e.name, e.kind)).collect();
    let (link, dir) = (FileKind::Symlink, FileKind::Dir);
    same(
        "the workspace",
        &vec![("dangling", link), ("folder", dir), ("link", link)],
        &kinds,
    )?;
    for name in ["link", "dangling"] {
        ok("removing a link", session.remove(name).await)?;
    }
    same("the target", "x", &session.text("folder/target").await?)?;
    unharmed(&session, &["folder"]).await
}
