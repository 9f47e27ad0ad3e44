//! What is there after a restart.

use haft_api::{ErrorKind, ForkPoint, MetadataPatch, NewThread, raw_json};

use super::listing::{create_200, lists_exactly};
use super::subject::{Store, Subject, append};
use crate::fixture::fresh_thread;
use crate::suite::expect::{claimed, ensure, fails, ok, same};
use crate::suite::{Checked, Unmet};

/// Opens a store that claims to survive a restart.
async fn open(subject: &Subject) -> Result<Store, Unmet> {
    let store = subject.open().await?;
    let claim = store.0.capabilities().survives_restart;
    claimed(claim, "the store doesn't claim `survives_restart`")?;
    Ok(store)
}

pub(in crate::suite) async fn a_restart_keeps_threads(subject: Subject) -> Checked {
    let store = open(&subject).await?;
    let (parent, child) = (fresh_thread(), fresh_thread());
    let mut writer = store.create(&parent).await?;
    append(&mut *writer, &["a", "b"]).await?;
    let value = raw_json("{ \"x\":1.0 }").map_err(|e| e.to_string())?;
    let patch = MetadataPatch::default().title("T").set("x", value);
    ok("patching the metadata", writer.patch_metadata(patch).await)?;
    ok("closing the writer", writer.close().await)?;
    let mut new = NewThread::new(child.clone());
    let thread = parent.clone();
    new.parent = Some(ForkPoint { thread, seq: 1 });
    let mut writer = ok("forking", store.0.create(new).await)?;
    append(&mut *writer, &["c"]).await?;
    // One writer is closed, the other one just ends with its process.
    drop(writer);

    let describe = async |store: &Store| {
        let mut text = format!("{:?}\n", store.listed().await?);
        for id in [&parent, &child] {
            for record in store.all(id).await? {
                text += &format!("{} {} {}\n", record.seq, record.kind, record.data);
            }
            text += &format!("{:?}\n", store.metadata(id).await?);
        }
        Ok::<_, Unmet>(text)
    };
    let before = describe(&store).await?;
    drop(store);
    let store = subject.open().await?;
    same("everything", &before, &describe(&store).await?)?;
    for id in [&parent, &child] {
        let found = ok("checking the thread", store.0.check(id).await)?;
        same("the diagnostics", &vec![], &found)?;
    }
    Ok(())
}

pub(in crate::suite) async fn a_restart_keeps_200_threads(subject: Subject) -> Checked {
    let store = open(&subject).await?;
    let ids = create_200(&store).await?;
    drop(store);
    lists_exactly(&subject.open().await?, &ids).await
}

pub(in crate::suite) async fn numbers_go_on_after_a_restart(subject: Subject) -> Checked {
    let mut store = open(&subject).await?;
    let id = fresh_thread();
    store.filled(&id, &["0"]).await?;
    for number in 1..4 {
        drop(store);
        store = subject.open().await?;
        let mut writer = store.writer(&id).await?;
        let next = writer.next_seq();
        ensure!(
            next > number,
            "expected a next number over {number}, got {next}"
        );
        append(&mut *writer, &[&number.to_string()]).await?;
        ok("closing the writer", writer.close().await)?;
    }
    let expected: Vec<_> = (0..4).map(|number| number.to_string()).collect();
    same("the notes", &expected, &store.notes(&id).await?)
}

pub(in crate::suite) async fn a_restart_keeps_threads_deleted(subject: Subject) -> Checked {
    let store = open(&subject).await?;
    let (gone, stays) = (fresh_thread(), fresh_thread());
    store.filled(&gone, &["a"]).await?;
    store.filled(&stays, &["b"]).await?;
    ok("deleting a thread", store.0.delete(&gone).await)?;
    drop(store);
    let store = subject.open().await?;
    fails(
        "its metadata",
        ErrorKind::NotFound,
        store.0.metadata(&gone).await,
    )?;
    same("the list", &vec![stays], &store.listed().await?)
}
