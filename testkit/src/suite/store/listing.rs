//! The list of threads.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use haft_api::{ListThreads, MetadataPatch, ThreadId};

use super::subject::{Store, Subject, append};
use crate::fixture::fresh_thread;
use crate::suite::expect::{ensure, ok, same};
use crate::suite::{Checked, Unmet};

/// Longer than the coarsest clock that a store may order by.
const TICK: Duration = Duration::from_millis(20);

/// So many threads, oldest first.
async fn threads(store: &Store, count: usize) -> Result<Vec<ThreadId>, Unmet> {
    let mut ids = Vec::new();
    for _ in 0..count {
        let id = fresh_thread();
        store.filled(&id, &["a"]).await?;
        ids.push(id);
    }
    Ok(ids)
}

pub(in crate::suite) async fn the_list_begins_with_the_latest(subject: Subject) -> Checked {
    let store = subject.open().await?;
    same(
        "the list of an empty store",
        &vec![],
        &store.listed().await?,
    )?;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.extend(threads(&store, 1).await?);
        tokio::time::sleep(TICK).await;
    }
    let expected: Vec<_> = ids.iter().rev().cloned().collect();
    same(
        "the list, as threads were created",
        &expected,
        &store.listed().await?,
    )?;
    let mut writer = store.writer(&ids[1]).await?;
    append(&mut *writer, &["again"]).await?;
    let expected: Vec<_> = [1, 3, 2, 0].map(|place: usize| ids[place].clone()).into();
    same(
        "the list, after an append",
        &expected,
        &store.listed().await?,
    )
}

pub(in crate::suite) async fn the_list_pages_are_complete(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let ids: BTreeSet<_> = threads(&store, 23).await?.into_iter().collect();
    let whole = store.listed().await?;
    for limit in [1, 5, 23, 100] {
        let request = ListThreads::default().limit(limit);
        let listed: Vec<_> = store
            .list(request)
            .await?
            .into_iter()
            .map(|t| t.id)
            .collect();
        same("the order by pages", &whole, &listed)?;
        same("threads by pages", &23, &listed.len())?;
        same("the set of threads", &ids, &listed.into_iter().collect())?;
    }
    Ok(())
}

pub(in crate::suite) async fn archived_threads_are_listed_on_demand(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let ids = threads(&store, 3).await?;
    let archive = |archived| {
        let mut patch = MetadataPatch::default();
        patch.archived = Some(archived);
        patch
    };
    let mut writer = store.writer(&ids[1]).await?;
    ok("archiving", writer.patch_metadata(archive(true)).await)?;
    let listed: BTreeSet<_> = store.listed().await?.into_iter().collect();
    same(
        "the list",
        &[&ids[0], &ids[2]].map(Clone::clone).into(),
        &listed,
    )?;
    let mut request = ListThreads::default().limit(1);
    request.archived = true;
    let all = store.list(request).await?;
    same("the list with archived threads", &3, &all.len())?;
    ok(
        "bringing it back",
        writer.patch_metadata(archive(false)).await,
    )?;
    same("the list", &3, &store.listed().await?.len())
}

pub(in crate::suite) async fn a_foreign_cursor_is_refused(subject: Subject) -> Checked {
    let store = subject.open().await?;
    threads(&store, 2).await?;
    for cursor in ["", "not a cursor of any store's", "\u{0}", "../../x"] {
        let outcome = store.0.list(ListThreads::default().after(cursor)).await;
        ensure!(
            outcome.is_err(),
            "expected the cursor {cursor:?} to be refused, got a page"
        );
    }
    Ok(())
}

/// Creates 200 threads at the same time, and returns their ids.
pub(super) async fn create_200(store: &Store) -> Result<BTreeSet<ThreadId>, Unmet> {
    let tasks = (0..200).map(|_| {
        let store = store.clone();
        tokio::spawn(async move {
            let id = fresh_thread();
            store.filled(&id, &["a"]).await?;
            Ok::<_, Unmet>(id)
        })
    });
    let mut ids = BTreeSet::new();
    for outcome in join_all(tasks).await {
        ids.insert(outcome.map_err(|e| format!("expected to create a thread, got: {e}"))??);
    }
    Ok(ids)
}

/// Checks that the list is just these threads.
pub(super) async fn lists_exactly(store: &Store, ids: &BTreeSet<ThreadId>) -> Checked {
    let listed = store.listed().await?;
    let set: BTreeSet<_> = listed.iter().cloned().collect();
    same("threads in the list", &ids.len(), &listed.len())?;
    let missing: Vec<_> = ids.difference(&set).collect();
    ensure!(
        missing.is_empty(),
        "expected every thread to be listed, missing are {missing:?}"
    );
    Ok(())
}

pub(in crate::suite) async fn created_at_once_all_are_listed(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let ids = create_200(&store).await?;
    lists_exactly(&store, &ids).await
}
