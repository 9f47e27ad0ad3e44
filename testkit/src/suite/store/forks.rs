//! Forks.

use haft_api::{ErrorKind, ForkPoint, NewThread, Record, ThreadId, ThreadWriter};

use super::subject::{Store, Subject, append};
use crate::fixture::fresh_thread;
use crate::suite::expect::{ensure, fails, ok, same};
use crate::suite::{Checked, Unmet};

async fn fork(
    store: &Store,
    id: &ThreadId,
    parent: &ThreadId,
    seq: u64,
) -> Result<Box<dyn ThreadWriter>, Unmet> {
    let mut new = NewThread::new(id.clone());
    let thread = parent.clone();
    new.parent = Some(ForkPoint { thread, seq });
    ok("forking a thread", store.0.create(new).await)
}

/// What two records must have in common to be the same one.
fn contents(records: &[Record]) -> Vec<(u64, &str, &str)> {
    records
        .iter()
        .map(|record| (record.seq, &*record.kind, record.data.get()))
        .collect()
}

pub(in crate::suite) async fn a_fork_begins_with_its_parents_records(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let (parent, child) = (fresh_thread(), fresh_thread());
    store.filled(&parent, &["1", "2", "3", "4"]).await?;
    let mut writer = fork(&store, &child, &parent, 2).await?;
    let next = writer.next_seq();
    ensure!(
        next >= 3,
        "expected the fork's next number after 2, got {next}"
    );
    let first = append(&mut *writer, &["mine"]).await?;
    ensure!(
        first >= 3,
        "expected the fork's own records after 2, got {first}"
    );
    let (of_parent, of_child) = (store.all(&parent).await?, store.all(&child).await?);
    same(
        "the first records",
        &contents(&of_parent[..3]),
        &contents(&of_child[..3]),
    )?;
    let expected: Vec<_> = ["1", "2", "mine"].map(str::to_owned).into();
    same("the fork's notes", &expected, &store.notes(&child).await?)?;
    let expected = Some(ForkPoint {
        thread: parent,
        seq: 2,
    });
    same(
        "the fork's parent",
        &expected,
        &store.metadata(&child).await?.parent,
    )?;
    let page = haft_api::ReadRange::Backward {
        before: Some(3),
        limit: 2,
    };
    let page = store.page(&child, page).await?;
    same(
        "a page of the parent's",
        &contents(&of_parent[1..3]),
        &contents(&page.records),
    )
}

pub(in crate::suite) async fn a_fork_goes_its_own_way(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let (parent, child) = (fresh_thread(), fresh_thread());
    let mut of_parent = store.create(&parent).await?;
    append(&mut *of_parent, &["shared"]).await?;
    let mut of_child = fork(&store, &child, &parent, 1).await?;
    append(&mut *of_parent, &["parent"]).await?;
    append(&mut *of_child, &["child"]).await?;
    append(&mut *of_parent, &["parent"]).await?;
    for (id, own) in [(&parent, vec!["parent", "parent"]), (&child, vec!["child"])] {
        let mut expected = vec!["shared".to_owned()];
        expected.extend(own.into_iter().map(str::to_owned));
        same("the notes", &expected, &store.notes(id).await?)?;
    }
    Ok(())
}

pub(in crate::suite) async fn a_fork_can_be_forked(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let ids = [fresh_thread(), fresh_thread(), fresh_thread()];
    store.filled(&ids[0], &["a", "not in forks"]).await?;
    let mut writer = fork(&store, &ids[1], &ids[0], 1).await?;
    let place = append(&mut *writer, &["b"]).await?;
    append(&mut *writer, &["not in its fork"]).await?;
    let mut writer = fork(&store, &ids[2], &ids[1], place).await?;
    append(&mut *writer, &["c"]).await?;
    let expected: Vec<_> = ["a", "b", "c"].map(str::to_owned).into();
    same("the notes", &expected, &store.notes(&ids[2]).await?)
}

pub(in crate::suite) async fn a_fork_of_nothing_is_refused(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let parent = fresh_thread();
    store.filled(&parent, &["a"]).await?;
    for (thread, seq, what) in [
        (fresh_thread(), 0, "a fork of a missing thread"),
        (parent.clone(), 2, "a fork after the last record"),
    ] {
        let id = fresh_thread();
        let mut new = NewThread::new(id.clone());
        new.parent = Some(ForkPoint { thread, seq });
        let outcome = store.0.create(new).await;
        ensure!(
            outcome.is_err(),
            "expected {what} to be refused, got a writer"
        );
        fails(
            "the refused fork's metadata",
            ErrorKind::NotFound,
            store.0.metadata(&id).await,
        )?;
    }
    same("the list", &vec![parent], &store.listed().await?)
}

pub(in crate::suite) async fn a_fork_outlives_its_parent(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let (parent, child) = (fresh_thread(), fresh_thread());
    store.filled(&parent, &["a", "b"]).await?;
    let mut writer = fork(&store, &child, &parent, 1).await?;
    append(&mut *writer, &["c"]).await?;
    ok("closing the writer", writer.close().await)?;
    // Refusing is as good: what must not happen is that the fork loses records.
    let deleted = store.0.delete(&parent).await.is_ok();
    let expected: Vec<_> = ["a", "c"].map(str::to_owned).into();
    let what = format!("the fork's notes, its parent being deleted ({deleted})");
    same(&what, &expected, &store.notes(&child).await?)
}
