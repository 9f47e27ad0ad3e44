//! Threads: created, described, deleted.

use haft_api::{ErrorKind, MetadataPatch, NewThread, ReadRange, raw_json, unix_ms_now};

use super::subject::{Subject, append};
use crate::fixture::fresh_thread;
use crate::suite::Checked;
use crate::suite::expect::{ensure, fails, ok, same};

pub(in crate::suite) async fn creating_twice_is_refused(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let id = fresh_thread();
    let again = || store.0.create(NewThread::new(id.clone()));
    let mut writer = store.create(&id).await?;
    append(&mut *writer, &["first"]).await?;
    fails(
        "creating it while it is written to",
        ErrorKind::AlreadyExists,
        again().await,
    )?;
    append(&mut *writer, &["second"]).await?;
    ok("closing the writer", writer.close().await)?;
    fails("creating it later", ErrorKind::AlreadyExists, again().await)?;
    let expected = vec!["first".to_owned(), "second".to_owned()];
    same("the first one's notes", &expected, &store.notes(&id).await?)
}

pub(in crate::suite) async fn a_missing_thread_is_not_found(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let id = fresh_thread();
    let missing = ErrorKind::NotFound;
    fails("taking its writer", missing, store.0.open_writer(&id).await)?;
    fails(
        "reading it",
        missing,
        store.0.read(&id, ReadRange::ALL).await,
    )?;
    fails("its metadata", missing, store.0.metadata(&id).await)?;
    fails("checking it", missing, store.0.check(&id).await)?;
    fails("deleting it", missing, store.0.delete(&id).await)?;
    same("the list", &vec![], &store.listed().await?)
}

pub(in crate::suite) async fn metadata_begin_as_given(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let (plain, titled) = (fresh_thread(), fresh_thread());
    drop(store.create(&plain).await?);
    let metadata = store.metadata(&plain).await?;
    same("the id", &plain, &metadata.id)?;
    same("the title", &None, &metadata.title)?;
    same("whether it is archived", &false, &metadata.archived)?;
    same("the parent", &None, &metadata.parent)?;
    same("further values", &0, &metadata.extra.len())?;
    let (now, created) = (unix_ms_now(), metadata.created_ms);
    ensure!(
        created.abs_diff(now) < 60_000,
        "expected it to be created about now ({now}), got {created}"
    );

    let mut new = NewThread::new(titled.clone());
    new.metadata = MetadataPatch::default()
        .title("A title")
        .set("workspace", raw(r#""/w""#));
    drop(ok(
        "creating a thread with metadata",
        store.0.create(new).await,
    )?);
    let metadata = store.metadata(&titled).await?;
    same("the title", &Some("A title".to_owned()), &metadata.title)?;
    let value = metadata.extra.get("workspace").map(|value| value.get());
    same("a further value", &Some(r#""/w""#), &value)
}

fn raw(text: &str) -> Box<serde_json::value::RawValue> {
    raw_json(text).unwrap_or_else(|error| panic!("{text:?} stands in a case: {error}"))
}

pub(in crate::suite) async fn metadata_follow_appends(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let id = fresh_thread();
    let mut writer = store.create(&id).await?;
    let before = store.metadata(&id).await?;
    same("the next number of a new thread", &1, &before.next_seq)?;
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    append(&mut *writer, &["a", "b"]).await?;
    let after = store.metadata(&id).await?;
    same("the next number after two records", &3, &after.next_seq)?;
    same("when it was created", &before.created_ms, &after.created_ms)?;
    ensure!(
        after.updated_ms > before.updated_ms,
        "expected a later change than {}, got {}",
        before.updated_ms,
        after.updated_ms
    );
    Ok(())
}

pub(in crate::suite) async fn a_patch_changes_what_it_names(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let id = fresh_thread();
    let mut writer = store.create(&id).await?;
    append(&mut *writer, &["a"]).await?;
    let mut removing = MetadataPatch::default();
    removing.extra.insert("a".to_owned(), None);
    removing.extra.insert("never.there".to_owned(), None);
    let mut archiving = MetadataPatch::default();
    archiving.archived = Some(true);
    let a_and_b = MetadataPatch::default()
        .set("a", raw("1"))
        .set("b", raw("[2]"));
    // Each patch, and title, archived and further values after it.
    let steps = [
        (MetadataPatch::default().title("T"), (Some("T"), false, "")),
        (a_and_b, (Some("T"), false, "a=1 b=[2]")),
        (archiving, (Some("T"), true, "a=1 b=[2]")),
        (removing, (Some("T"), true, "b=[2]")),
        (
            MetadataPatch::default().set("b", raw("3")),
            (Some("T"), true, "b=3"),
        ),
        (MetadataPatch::default().title(""), (None, true, "b=3")),
        (MetadataPatch::default(), (None, true, "b=3")),
    ];
    for (patch, (title, archived, extra)) in steps {
        let shown = format!("after {patch:?}");
        let returned = ok("patching the metadata", writer.patch_metadata(patch).await)?;
        for metadata in [returned, store.metadata(&id).await?] {
            let got: Vec<_> = metadata
                .extra
                .iter()
                .map(|(k, v)| format!("{k}={v}"))
                .collect();
            same(&shown, &title, &metadata.title.as_deref())?;
            same(&shown, &archived, &metadata.archived)?;
            same(&shown, extra, &got.join(" "))?;
            same(&shown, &id, &metadata.id)?;
        }
    }
    // A patch is no record that a reader of the thread would take for its own.
    same("the notes", &vec!["a".to_owned()], &store.notes(&id).await?)?;
    append(&mut *writer, &["b"]).await?;
    same("the notes", &2, &store.notes(&id).await?.len())
}

pub(in crate::suite) async fn metadata_values_are_kept_byte_for_byte(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let id = fresh_thread();
    let mut writer = store.create(&id).await?;
    let text = r#"{ "z":1.50, "a":[1e400,"\u00e4"],"z":2 }"#;
    let patch = MetadataPatch::default().set("my.value", raw(text));
    ok("patching the metadata", writer.patch_metadata(patch).await)?;
    let metadata = store.metadata(&id).await?;
    let value = metadata.extra.get("my.value").map(|value| value.get());
    same("the value", &Some(text), &value)
}

pub(in crate::suite) async fn deleting_removes_one_thread(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let (gone, stays) = (fresh_thread(), fresh_thread());
    store.filled(&gone, &["a"]).await?;
    store.filled(&stays, &["b"]).await?;
    ok("deleting a thread", store.0.delete(&gone).await)?;
    let missing = ErrorKind::NotFound;
    fails(
        "reading it",
        missing,
        store.0.read(&gone, ReadRange::ALL).await,
    )?;
    fails("its metadata", missing, store.0.metadata(&gone).await)?;
    fails(
        "taking its writer",
        missing,
        store.0.open_writer(&gone).await,
    )?;
    fails("deleting it again", missing, store.0.delete(&gone).await)?;
    same("the list", &vec![stays.clone()], &store.listed().await?)?;
    same(
        "the other's notes",
        &vec!["b".to_owned()],
        &store.notes(&stays).await?,
    )
}

pub(in crate::suite) async fn a_thread_in_use_is_not_deleted(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let id = fresh_thread();
    let mut writer = store.create(&id).await?;
    append(&mut *writer, &["a"]).await?;
    fails(
        "deleting it while it is written to",
        ErrorKind::Busy,
        store.0.delete(&id).await,
    )?;
    append(&mut *writer, &["b"]).await?;
    same("the notes", &2, &store.notes(&id).await?.len())?;
    ok("closing the writer", writer.close().await)?;
    ok("deleting it afterwards", store.0.delete(&id).await)
}
