//! The writer: what it notices, and what it lets go of.

use std::fs;
use std::io::Write as _;

use haft_api::{
    Durability, Error, ErrorKind, ExtensionConfig, ExtensionRegistryBuilder, MetadataPatch,
    NewRecord, NewThread, StoreOptions, ThreadStore, raw_json,
};
use haft_ext_store_jsonl::{DurabilityPolicy, JsonlConfig, JsonlStore, JsonlStoreExtension};

use crate::support::*;

/// Does something to a log under its writer; the writer must notice.
async fn check_foreign(change: impl Fn(&std::path::Path), word: &str, after: &[&str]) {
    let home = Home::new();
    let store = home.store();
    let mut writer = store.create(NewThread::new(id("t"))).await.unwrap();
    append(&mut *writer, &["one"]).await;
    change(&home.log(&id("t")));
    for durability in [Durability::Barrier, Durability::Buffered] {
        let error = writer.append(notes(&["no"]), durability).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(!error.is_temporary(), "the same writer can't help");
        assert!(error.to_string().contains(word), "{error}");
        assert_eq!(error.context_value("thread"), Some("t"));
    }
    drop(writer);
    if after.is_empty() {
        return;
    }
    let mut writer = store.open_writer(&id("t")).await.unwrap();
    append(&mut *writer, &["two"]).await;
    drop(writer);
    assert_eq!(note_texts(&read(&store, &id("t")).await.0), after);
}

#[tokio::test]
async fn a_foreign_write_closes_the_writer() {
    let append_line = |path: &std::path::Path| {
        let mut log = fs::File::options().append(true).open(path).unwrap();
        log.write_all(line(2, "note", "\"theirs\"").as_bytes())
            .unwrap();
    };
    check_foreign(
        append_line,
        "somebody else wrote",
        &["one", "theirs", "two"],
    )
    .await;
    let cut = |path: &std::path::Path| {
        let log = fs::read(path).unwrap();
        fs::write(path, lines(&log)[0]).unwrap();
    };
    check_foreign(cut, "somebody else wrote", &["two"]).await;
    let replace = |path: &std::path::Path| {
        fs::copy(path, path.with_extension("new")).unwrap();
        fs::rename(path.with_extension("new"), path).unwrap();
    };
    check_foreign(replace, "another file", &["one", "two"]).await;
    let delete = |path: &std::path::Path| fs::remove_file(path).unwrap();
    check_foreign(delete, "deleted", &[]).await;
}

#[tokio::test]
async fn groups_that_cannot_be_written_are_refused_whole() {
    let home = Home::new();
    let store = home.store();
    let mut writer = store.create(NewThread::new(id("t"))).await.unwrap();
    for kind in [
        "",
        "Note",
        "a b",
        "a\"b",
        "a\nb",
        "header",
        "metadata",
        "repair",
        "checkpoint",
    ] {
        let bad = NewRecord {
            kind: kind.to_owned(),
            data: raw_json("1").unwrap(),
        };
        let group = vec![note("no"), bad];
        let error = writer.append(group, Durability::Barrier).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{kind:?}");
    }
    let appended = writer
        .append(Vec::new(), Durability::Barrier)
        .await
        .unwrap();
    assert_eq!((appended.first_seq, writer.next_seq()), (1, 1));
    assert_eq!(append(&mut *writer, &["yes"]).await.first_seq, 1);
    drop(writer);
    assert_eq!(note_texts(&read(&store, &id("t")).await.0), ["yes"]);
}

#[tokio::test]
async fn line_breaks_between_tokens_are_kept_as_spaces() {
    let home = Home::new();
    let store = home.store();
    let mut new = NewThread::new(id("t"));
    new.metadata = MetadataPatch::default().set("v", raw_json("[\n1,\n2]").unwrap());
    let mut writer = store.create(new).await.unwrap();
    let data = raw_json("{\n  \"a\\n\": \"b\"\r\n}").unwrap();
    let group = vec![NewRecord {
        kind: "x".to_owned(),
        data,
    }];
    writer.append(group, Durability::Barrier).await.unwrap();
    writer.close().await.unwrap();
    let (found, diagnostics) = read(&store, &id("t")).await;
    assert_eq!(diagnostics, []);
    assert_eq!(found[1].data.get(), "{   \"a\\n\": \"b\"\r }");
    let metadata = home.store().metadata(&id("t")).await.unwrap();
    assert_eq!(metadata.extra["v"].get(), "[ 1, 2]");
    assert_eq!(list(&home.store()).await.0[0].extra["v"].get(), "[ 1, 2]");
}

#[tokio::test]
async fn metadata_too_deep_for_a_record_are_refused() {
    let home = Home::new();
    let store = home.store();
    let deep = |depth: usize| {
        let value = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        MetadataPatch::default().set("v", raw_json(value).unwrap())
    };
    let mut new = NewThread::new(id("no"));
    new.metadata = deep(98);
    let error = store.create(new).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert_eq!(listed(&store).await, [""; 0]);
    let mut writer = store.create(NewThread::new(id("t"))).await.unwrap();
    let error = writer.patch_metadata(deep(99)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let metadata = writer.patch_metadata(deep(98)).await.unwrap();
    assert_eq!(metadata.next_seq, 2);
    // It is too deep for a checkpoint, which is then left out.
    for _ in 0..1100 {
        writer
            .append(notes(&["x"]), Durability::Buffered)
            .await
            .unwrap();
    }
    writer.close().await.unwrap();
    let (found, diagnostics) = read(&store, &id("t")).await;
    assert_eq!(diagnostics, []);
    assert!(found.iter().all(|record| record.kind != "checkpoint"));
    assert_eq!(store.metadata(&id("t")).await.unwrap().extra.len(), 1);
}

#[test]
fn the_store_works_under_any_executor() {
    futures::executor::block_on(async {
        let home = Home::new();
        let store = home.store();
        let thread = thread(&store, "t", &["one", "two"]).await;
        assert_eq!(note_texts(&read(&store, &thread).await.0), ["one", "two"]);
        assert_eq!(listed(&store).await, ["t"]);
        store.delete(&thread).await.unwrap();
        assert_eq!(listed(&store).await, [""; 0]);
    });
}

#[tokio::test]
async fn every_policy_keeps_what_it_acknowledged_over_a_restart() {
    for policy in [
        DurabilityPolicy::EveryItem,
        DurabilityPolicy::Barriers,
        DurabilityPolicy::Turn,
        DurabilityPolicy::Os,
    ] {
        let home = Home::new();
        let config = JsonlConfig::default().durability(policy);
        let store = JsonlStore::open(home.path(), config).unwrap();
        let power = store.capabilities().survives_power_loss;
        let keeps = matches!(
            policy,
            DurabilityPolicy::EveryItem | DurabilityPolicy::Barriers
        );
        assert_eq!(power, keeps);
        let thread = thread(&store, "t", &["one", "two"]).await;
        drop(store);
        assert_eq!(
            note_texts(&read(&home.store(), &thread).await.0),
            ["one", "two"]
        );
    }
}

/// Opens a store with these settings of the extension and of the store.
async fn open(home: &Home, extension: &str, store: &str) -> Result<bool, Error> {
    let mut registry = ExtensionRegistryBuilder::new();
    registry.extension(
        &JsonlStoreExtension,
        &ExtensionConfig::from_json(extension)?,
    )?;
    let registry = registry.build()?;
    let mut options = StoreOptions::new(home.path().display().to_string());
    options.config = raw_json(store)?;
    let store = registry.store("jsonl").unwrap().open(options).await?;
    Ok(store.capabilities().survives_power_loss)
}

#[tokio::test]
async fn settings_of_the_store_go_before_those_of_the_extension() {
    let home = Home::new();
    assert!(open(&home, "{}", "{}").await.unwrap());
    assert!(!open(&home, r#"{"durability":"os"}"#, "{}").await.unwrap());
    let both = open(
        &home,
        r#"{"durability":"os"}"#,
        r#"{"durability":"every-item"}"#,
    )
    .await;
    assert!(both.unwrap());
    for (extension, store) in [(r#"{"speed":1}"#, "{}"), ("{}", r#"{"speed":1}"#)] {
        let error = open(&home, extension, store).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("speed"), "{error}");
    }
    assert!(
        haft_api::linked_extensions()
            .iter()
            .any(|linked| linked.name == "JsonlStoreExtension")
    );
}
