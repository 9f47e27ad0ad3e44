//! Writers: one per thread.

use std::time::Duration;

use futures::future::join_all;
use haft_api::{ErrorKind, ListThreads, ReadRange, ThreadId, ThreadWriter};

use super::subject::{Store, Subject, append};
use crate::fixture::fresh_thread;
use crate::suite::expect::{claimed, ensure, fails, ok, same, soon};
use crate::suite::{Checked, Unmet};

/// How long a writer may take to let go once it is dropped.
const LET_GO: Duration = Duration::from_secs(5);

pub(in crate::suite) async fn a_thread_has_one_writer(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let id = fresh_thread();
    let mut writer = store.create(&id).await?;
    let again = "a second writer beside the one of creation";
    fails(again, ErrorKind::Busy, store.0.open_writer(&id).await)?;
    append(&mut *writer, &["a"]).await?;
    ok("closing the writer", writer.close().await)?;
    let mut writer = store.writer(&id).await?;
    fails(
        "a second writer",
        ErrorKind::Busy,
        store.0.open_writer(&id).await,
    )?;
    append(&mut *writer, &["b"]).await?;
    same("the notes", &2, &store.notes(&id).await?.len())
}

/// Takes the writer as soon as it is free.
async fn take(store: &Store, id: &ThreadId) -> Result<Box<dyn ThreadWriter>, Unmet> {
    let taking = async {
        loop {
            match store.0.open_writer(id).await {
                Err(error) if error.kind() == ErrorKind::Busy => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                outcome => return ok("taking the writer", outcome),
            }
        }
    };
    soon("the writer to be free", LET_GO, taking).await?
}

pub(in crate::suite) async fn a_writer_lets_go(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let id = fresh_thread();
    ok("closing the writer", store.create(&id).await?.close().await)?;
    ok("closing the writer", store.writer(&id).await?.close().await)?;
    let mut writer = store.writer(&id).await?;
    append(&mut *writer, &["a"]).await?;
    drop(writer);
    drop(take(&store, &id).await?);
    // A refused attempt must not take anything away, or leave anything behind.
    let writer = take(&store, &id).await?;
    fails(
        "a second writer",
        ErrorKind::Busy,
        store.0.open_writer(&id).await,
    )?;
    fails(
        "a third writer",
        ErrorKind::Busy,
        store.0.open_writer(&id).await,
    )?;
    drop(writer);
    drop(take(&store, &id).await?);
    Ok(())
}

pub(in crate::suite) async fn one_of_many_gets_the_writer(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let id = fresh_thread();
    ok("closing the writer", store.create(&id).await?.close().await)?;
    let tasks = (0..20).map(|_| {
        let (store, id) = (store.clone(), id.clone());
        tokio::spawn(async move { store.0.open_writer(&id).await })
    });
    let mut writers = Vec::new();
    for outcome in join_all(tasks).await {
        match outcome.map_err(|e| format!("expected an answer, got: {e}"))? {
            Ok(writer) => writers.push(writer),
            refused => fails("another's writer", ErrorKind::Busy, refused)?,
        }
    }
    same("writers of one thread", &1, &writers.len())
}

pub(in crate::suite) async fn a_writer_blocks_no_reader(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let id = fresh_thread();
    let mut writer = store.create(&id).await?;
    append(&mut *writer, &["a"]).await?;
    let mut handles = vec![store.clone()];
    if store.0.capabilities().cross_process_lease {
        handles.push(subject.open().await?);
    }
    for handle in handles {
        let reading = async {
            same("the notes", &1, &handle.notes(&id).await?.len())?;
            handle
                .page(
                    &id,
                    ReadRange::Backward {
                        before: None,
                        limit: 5,
                    },
                )
                .await?;
            handle.metadata(&id).await?;
            ok("checking the thread", handle.0.check(&id).await)?;
            same(
                "the list",
                &1,
                &handle.list(ListThreads::default()).await?.len(),
            )
        };
        soon("a reader's answers", Duration::from_secs(10), reading).await??;
    }
    append(&mut *writer, &["b"]).await?;
    Ok(())
}

pub(in crate::suite) async fn threads_are_written_side_by_side(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let tasks = (0..20).map(|_| {
        let store = store.clone();
        tokio::spawn(async move {
            let id = fresh_thread();
            let mut writer = store.create(&id).await?;
            for number in 0..20 {
                append(&mut *writer, &[&format!("{id}/{number}")]).await?;
                tokio::task::yield_now().await;
            }
            Ok::<_, Unmet>(id)
        })
    });
    for outcome in join_all(tasks).await {
        let id = outcome.map_err(|e| format!("expected to write a thread, got: {e}"))??;
        let expected: Vec<_> = (0..20).map(|number| format!("{id}/{number}")).collect();
        same("a thread's notes", &expected, &store.notes(&id).await?)?;
    }
    Ok(())
}

pub(in crate::suite) async fn numbers_go_on_with_the_next_writer(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let id = fresh_thread();
    store.filled(&id, &["a", "b"]).await?;
    let mut writer = store.writer(&id).await?;
    let first = append(&mut *writer, &["c"]).await?;
    ensure!(
        first >= 3,
        "expected a number after those of 3 records, got {first}"
    );
    ok("closing the writer", writer.close().await)?;
    let expected: Vec<_> = ["a", "b", "c"].map(str::to_owned).into();
    same("the notes", &expected, &store.notes(&id).await?)
}

pub(in crate::suite) async fn handles_contend_for_writers(subject: Subject) -> Checked {
    let store = subject.open().await?;
    claimed(
        store.0.capabilities().cross_process_lease,
        "the store doesn't claim `cross_process_lease`",
    )?;
    let other = subject.open().await?;
    let id = fresh_thread();
    let mut writer = store.create(&id).await?;
    append(&mut *writer, &["a"]).await?;
    let outcome = other.0.open_writer(&id).await;
    fails("another handle's writer", ErrorKind::Busy, outcome)?;
    fails(
        "another handle's delete",
        ErrorKind::Busy,
        other.0.delete(&id).await,
    )?;
    append(&mut *writer, &["b"]).await?;
    drop(writer);
    let mut writer = take(&other, &id).await?;
    append(&mut *writer, &["c"]).await?;
    fails(
        "the first handle's writer",
        ErrorKind::Busy,
        store.0.open_writer(&id).await,
    )?;
    let expected: Vec<_> = ["a", "b", "c"].map(str::to_owned).into();
    same("the notes", &expected, &store.notes(&id).await?)
}
