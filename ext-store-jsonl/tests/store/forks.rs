//! Threads that begin in others.

use std::fs;

use haft_api::{DiagnosticCode, ErrorKind, ReadRange, ThreadId, ThreadStore};

use crate::support::*;

#[tokio::test]
async fn a_fork_has_one_row_of_numbers_and_copies_nothing() {
    let home = Home::new();
    let store = home.store();
    let root = thread(&store, "root", &["one", "two", "three"]).await;
    let mut writer = fork(&store, "child", &root, 2).await.unwrap();
    assert_eq!(writer.next_seq(), 4);
    append(&mut *writer, &["four", "five"]).await;
    drop(writer);
    let expected = ["<header>", "one", "two", "<header>", "four", "five"];
    let child = id("child");
    let (records, diagnostics) = read(&home.store(), &child).await;
    assert_eq!(diagnostics, []);
    let numbered: Vec<_> = expected
        .iter()
        .enumerate()
        .map(|(at, text)| (at as u64, (*text).to_owned()))
        .collect();
    assert_eq!(show(&records), numbered);
    for limit in 1..=expected.len() + 1 {
        assert_same(&read_by(&store, &child, Some(limit)).await.0, &records);
        assert_same(&read_back(&store, &child, limit).await, &records);
    }
    for before in 0..=9 {
        let range = ReadRange::Backward {
            before: Some(before),
            limit: 2,
        };
        let page = store.read(&child, range).await.unwrap();
        let end = records.len().min(before as usize);
        assert_same(&page.records, &records[end.saturating_sub(2)..end]);
    }
    assert_eq!(lines(&fs::read(home.log(&child)).unwrap()).len(), 3);
    assert_eq!(store.check(&child).await.unwrap(), []);
    assert_eq!(
        store.metadata(&child).await.unwrap().parent.unwrap().thread,
        root
    );
}

#[tokio::test]
async fn a_fork_may_leave_its_parent_before_the_parent_begins() {
    let home = Home::new();
    let store = home.store();
    let root = thread(&store, "root", &["one", "two", "three"]).await;
    let mut writer = fork(&store, "middle", &root, 3).await.unwrap();
    append(&mut *writer, &["not in the last"]).await;
    drop(writer);
    let mut writer = fork(&store, "last", &id("middle"), 1).await.unwrap();
    append(&mut *writer, &["mine"]).await;
    drop(writer);
    let (records, diagnostics) = read(&store, &id("last")).await;
    assert_eq!(diagnostics, []);
    let texts: Vec<_> = show(&records).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["<header>", "one", "<header>", "mine"]);
    assert_same(&read_back(&store, &id("last"), 1).await, &records);
    assert_eq!(
        store
            .metadata(&id("last"))
            .await
            .unwrap()
            .parent
            .unwrap()
            .thread,
        id("middle")
    );
}

#[tokio::test]
async fn a_long_line_of_forks_is_read() {
    let home = Home::new();
    let store = home.store();
    let mut parent = thread(&store, "f0", &["0"]).await;
    for number in 1..400_u64 {
        let name = format!("f{number}");
        let seq = store.metadata(&parent).await.unwrap().next_seq - 1;
        let mut writer = fork(&store, &name, &parent, seq).await.unwrap();
        append(&mut *writer, &[&number.to_string()]).await;
        drop(writer);
        parent = id(&name);
    }
    let (records, diagnostics) = read(&store, &parent).await;
    assert_eq!(diagnostics, []);
    let expected: Vec<_> = (0..400).map(|number| number.to_string()).collect();
    assert_eq!(note_texts(&records), expected);
    assert_same(&read_back(&store, &parent, 300).await, &records);
}

#[tokio::test]
async fn a_thread_with_forks_is_not_deleted() {
    let home = Home::new();
    let store = home.store();
    let root = thread(&store, "root", &["one"]).await;
    fork(&store, "b", &root, 1)
        .await
        .unwrap()
        .close()
        .await
        .unwrap();
    fork(&store, "a", &root, 0)
        .await
        .unwrap()
        .close()
        .await
        .unwrap();
    fork(&store, "c", &id("b"), 2)
        .await
        .unwrap()
        .close()
        .await
        .unwrap();
    for store in [&store, &home.store()] {
        let error = store.delete(&root).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert_eq!(error.context_value("forks"), Some("a, b"));
    }
    assert_eq!(note_texts(&read(&store, &id("c")).await.0), ["one"]);
    for name in ["a", "c", "b"] {
        store.delete(&id(name)).await.unwrap();
    }
    store.delete(&root).await.unwrap();
    assert_eq!(listed(&store).await, [""; 0]);
    // Of the id that was deleted, another may be made, and it has no forks.
    thread(&store, "a", &[]).await;
    let root = thread(&store, "root", &["new"]).await;
    store.delete(&root).await.unwrap();
}

#[tokio::test]
async fn a_fork_whose_parent_is_gone_keeps_its_own_and_says_so() {
    let home = Home::new();
    let store = home.store();
    let root = thread(&store, "root", &["one"]).await;
    let mut writer = fork(&store, "child", &root, 1).await.unwrap();
    append(&mut *writer, &["mine"]).await;
    drop(writer);
    fs::remove_dir_all(home.folder(&root)).unwrap();
    let child = id("child");
    let (records, diagnostics) = read(&store, &child).await;
    assert_eq!(
        show(&records),
        [(2, "<header>".to_owned()), (3, "mine".to_owned())]
    );
    assert_eq!(codes(&diagnostics), [DiagnosticCode::Gap]);
    assert!(diagnostics[0].lost && diagnostics[0].message.contains("root"));
    assert_same(&read_back(&store, &child, 1).await, &records);
    let mut writer = store.open_writer(&child).await.unwrap();
    append(&mut *writer, &["goes on"]).await;
}

#[tokio::test]
async fn threads_that_were_made_each_others_forks_are_read_without_end_in_sight() {
    let home = Home::new();
    let store = home.store();
    let header = |own: &str, parent: &str, seq: u64| {
        let data = format!(
            r#"{{"format":"haft-thread","major":1,"id":"{own}","created_ms":5,"parent":{{"thread":"{parent}","seq":{seq}}}}}"#
        );
        line(seq + 1, "header", &data)
    };
    for own in ["a", "b", "c"] {
        thread(&store, own, &[]).await;
    }
    home.put_log(&id("a"), header("a", "b", 5).as_bytes());
    home.put_log(&id("b"), header("b", "a", 5).as_bytes());
    home.put_log(&id("c"), header("c", "c", 5).as_bytes());
    for own in ["a", "b", "c"] {
        let (records, diagnostics) = read(&store, &id(own)).await;
        assert_eq!(show(&records), [(6, "<header>".to_owned())]);
        assert_eq!(codes(&diagnostics), [DiagnosticCode::Gap], "{own}");
        assert_eq!(read_back(&store, &id(own), 1).await.len(), 1);
    }
}

#[tokio::test]
async fn a_fork_is_refused_where_it_cannot_begin() {
    let home = Home::new();
    let store = home.store();
    let root = thread(&store, "root", &["one"]).await;
    let missing: ThreadId = id("missing");
    for (parent, seq, kind) in [
        (&root, 2, ErrorKind::InvalidInput),
        (&missing, 0, ErrorKind::NotFound),
    ] {
        let error = fork(&store, "child", parent, seq).await.err().unwrap();
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(error.context_value("parent"), Some(parent.as_str()));
    }
    let parent = root.clone();
    let error = fork(&store, "root", &parent, 1).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(listed(&store).await, ["root"]);
}

#[tokio::test]
async fn a_fork_that_lost_its_header_knows_its_parent_from_a_checkpoint() {
    let home = Home::new();
    let store = home.store();
    let root = thread(&store, "root", &["one"]).await;
    let mut writer = fork(&store, "child", &root, 1).await.unwrap();
    // As long as a line may be, four to an append.
    let text = "x".repeat(30_000);
    for _ in 0..12 {
        append(&mut *writer, &[text.as_str(); 4]).await;
    }
    drop(writer);
    let child = id("child");
    let mut log = fs::read(home.log(&child)).unwrap();
    log[10] ^= 1;
    home.put_log(&child, &log);
    let (records, diagnostics) = read(&store, &child).await;
    assert_eq!(note_texts(&records).len(), 49);
    assert_eq!(codes(&diagnostics), [DiagnosticCode::ChecksumMismatch]);
    assert_eq!(
        store.metadata(&child).await.unwrap().parent.unwrap().thread,
        root
    );
    assert_eq!(
        store.delete(&root).await.unwrap_err().kind(),
        ErrorKind::Denied
    );
}
