//! Writes: conditions, atomicity, modes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use haft_api::{ErrorKind, FileMetadata, Result, WriteMode, WriteOptions};

use super::subject::{Session, Subject};
use crate::suite::expect::{claimed, ensure, fails, ok, same};
use crate::suite::{Checked, Unmet};

pub(in crate::suite) async fn a_write_replaces_the_whole_file(subject: Subject) -> Checked {
    let session = subject.session().await?;
    for text in ["first", "a much longer text than that", "x", ""] {
        session.put("file", text).await?;
        same("the file", text, &session.text("file").await?)?;
    }
    Ok(())
}

pub(in crate::suite) async fn missing_folders_are_made_on_demand(subject: Subject) -> Checked {
    let session = subject.session().await?;
    let without = session.put_if("a/b/file", "x", WriteMode::Any).await;
    fails(
        "writing into a missing folder",
        ErrorKind::NotFound,
        without,
    )?;
    ensure!(
        !session.exists("a").await,
        "expected no folder to be made, but there is one"
    );
    let options = WriteOptions::mode(WriteMode::CreateNew).create_parents();
    let with = session.write_file("a/b/file", b"x".to_vec(), options).await;
    ok("writing with the folders above", with)?;
    same("the file", "x", &session.text("a/b/file").await?)
}

pub(in crate::suite) async fn create_new_makes_files_only(subject: Subject) -> Checked {
    let session = subject.session().await?;
    let first = session.put_if("file", "first", WriteMode::CreateNew).await;
    ok("making a file", first)?;
    let second = session.put_if("file", "second", WriteMode::CreateNew).await;
    fails("making it again", ErrorKind::AlreadyExists, second)?;
    same("the file", "first", &session.text("file").await?)?;
    ok("removing it", session.remove("file").await)?;
    let third = session.put_if("file", "third", WriteMode::CreateNew).await;
    ok("making it once more", third)?;
    same("the file", "third", &session.text("file").await?)
}

pub(in crate::suite) async fn if_version_writes_over_that_version_only(
    subject: Subject,
) -> Checked {
    let session = subject.session().await?;
    let over = |version: &str, text: &'static str| {
        let mode = WriteMode::IfVersion(version.to_owned());
        let session = session.clone();
        async move { session.put_if("file", text, mode).await }
    };
    let missing = over("1", "nothing").await;
    fails(
        "writing over a version of a missing file",
        ErrorKind::NotFound,
        missing,
    )?;
    ensure!(
        !session.exists("file").await,
        "expected no file to be made, but there is one"
    );
    let first = session.put("file", "first").await?;
    let second = ok(
        "writing over the right version",
        over(&first.version, "second").await,
    )?;
    let stale = over(&first.version, "third").await;
    fails("writing over an earlier version", ErrorKind::Busy, stale)?;
    same("the file", "second", &session.text("file").await?)?;
    let bogus = over("no version of anything", "third").await;
    fails(
        "writing over a version that never was",
        ErrorKind::Busy,
        bogus,
    )?;
    ok(
        "writing over the right version",
        over(&second.version, "third").await,
    )?;
    same("the file", "third", &session.text("file").await?)
}

pub(in crate::suite) async fn versions_change_with_the_content(subject: Subject) -> Checked {
    let session = subject.session().await?;
    let mut versions: Vec<String> = Vec::new();
    // Equal lengths, in quick succession: neither size nor a coarse time tells.
    for number in 10..60 {
        let written = session.put("file", &number.to_string()).await?.version;
        let read = session.read_file("file", Default::default()).await;
        let read = ok("reading the file", read)?.metadata.version;
        let asked = ok("its metadata", session.0.metadata("file").await)?.version;
        same("the version by a read", &written, &read)?;
        same("the version by its metadata", &written, &asked)?;
        ensure!(
            versions.last() != Some(&written),
            "expected another version for other content, got {written} again"
        );
        versions.push(written);
    }
    Ok(())
}

/// Lets 10 tasks write at once, and returns who succeeded.
async fn race(session: &Session, mode: WriteMode, loser: ErrorKind) -> Result<Vec<usize>, Unmet> {
    let tasks = (0..10).map(|number| {
        let (session, mode) = (session.clone(), mode.clone());
        tokio::spawn(async move { session.put_if("file", &number.to_string(), mode).await })
    });
    let mut winners = Vec::new();
    for (number, outcome) in join_all(tasks).await.into_iter().enumerate() {
        let outcome: Result<FileMetadata> =
            outcome.map_err(|e| format!("expected a write to end, got: {e}"))?;
        match outcome {
            Ok(_) => winners.push(number),
            lost => fails("another's write", loser, lost)?,
        }
    }
    Ok(winners)
}

async fn one_wins(session: &Session, mode: WriteMode, loser: ErrorKind) -> Checked {
    let winners = race(session, mode, loser).await?;
    same("writes that succeeded", &1, &winners.len())?;
    same(
        "the file",
        &winners[0].to_string(),
        &session.text("file").await?,
    )
}

pub(in crate::suite) async fn one_of_many_makes_the_file(subject: Subject) -> Checked {
    let session = subject.session().await?;
    one_wins(&session, WriteMode::CreateNew, ErrorKind::AlreadyExists).await
}

pub(in crate::suite) async fn one_of_many_writes_over_the_version(subject: Subject) -> Checked {
    let session = subject.session().await?;
    let version = session.put("file", "before").await?.version;
    one_wins(&session, WriteMode::IfVersion(version), ErrorKind::Busy).await
}

pub(in crate::suite) async fn writes_are_atomic(subject: Subject) -> Checked {
    let session = subject.session().await?;
    let texts = ["a".repeat(300_000), "b".repeat(200_000)];
    session.put("file", &texts[0]).await?;
    let done = Arc::new(AtomicBool::new(false));
    let reading = tokio::spawn({
        let (session, done) = (session.clone(), Arc::clone(&done));
        async move {
            while !done.load(Ordering::Acquire) {
                let text = session.text("file").await?;
                let whole = match text.as_bytes().first() {
                    Some(b'a') => text.len() == 300_000,
                    Some(b'b') => text.len() == 200_000,
                    _ => false,
                } && text.bytes().all(|byte| byte == text.as_bytes()[0]);
                ensure!(
                    whole,
                    "expected an old or a new file, got {} bytes of both",
                    text.len()
                );
                tokio::task::yield_now().await;
            }
            Ok(())
        }
    });
    for round in 0..60 {
        session.put("file", &texts[round % 2]).await?;
    }
    done.store(true, Ordering::Release);
    match reading.await {
        Ok(outcome) => outcome?,
        Err(error) => return Err(format!("expected the reader to end, got: {error}").into()),
    }
    same(
        "what is in the folder",
        &vec!["file".to_owned()],
        &session.names(".").await?,
    )
}

pub(in crate::suite) async fn an_existing_file_keeps_its_mode(subject: Subject) -> Checked {
    let session = subject.session().await?;
    let mode = async |permissions| {
        let mut options = WriteOptions::default();
        options.permissions = permissions;
        let written = session.write_file("file", b"x".to_vec(), options).await;
        ok("writing a file", written)?;
        let metadata = ok("its metadata", session.0.metadata("file").await)?;
        Ok::<_, Unmet>(metadata.mode.map(|mode| mode & 0o777))
    };
    let first = mode(Some(0o755)).await?;
    claimed(first.is_some(), "the session has no modes")?;
    same("the mode of a new file", &Some(0o755), &first)?;
    same("the mode after a write", &Some(0o755), &mode(None).await?)?;
    same(
        "the mode after a write that asks for another",
        &Some(0o755),
        &mode(Some(0o600)).await?,
    )
}

pub(in crate::suite) async fn files_are_written_side_by_side(subject: Subject) -> Checked {
    let session = subject.session().await?;
    let tasks = (0..20).map(|number| {
        let session = session.clone();
        tokio::spawn(async move {
            let path = format!("folder{}/file{number}", number % 3);
            session.put(&path, &number.to_string()).await?;
            same(&path, &number.to_string(), &session.text(&path).await?)
        })
    });
    for outcome in join_all(tasks).await {
        outcome.map_err(|e| format!("expected a write to end, got: {e}"))??;
    }
    let mut count = 0;
    for folder in ["folder0", "folder1", "folder2"] {
        count += session.names(folder).await?.len();
    }
    same("files in all folders", &20, &count)
}
