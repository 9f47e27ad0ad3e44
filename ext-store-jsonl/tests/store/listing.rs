//! The list, whatever became of the index.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use haft_api::{
    DiagnosticCode, Durability, ErrorKind, ListThreads, MetadataPatch, NewThread, ThreadStore,
    raw_json,
};

use crate::support::*;

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

#[tokio::test]
async fn the_list_is_whole_whatever_became_of_the_index() {
    let home = Home::new();
    let store = home.store();
    let names: Vec<_> = (0..30).map(|number| format!("t{number:02}")).collect();
    for name in &names {
        let mut writer = store.create(NewThread::new(id(name))).await.unwrap();
        let title = MetadataPatch::default().title(format!("title of {name}"));
        writer.patch_metadata(title).await.unwrap();
        writer.close().await.unwrap();
    }
    let (expected, diagnostics) = list(&store).await;
    assert_eq!(diagnostics, []);
    let good = fs::read(home.index()).unwrap();
    let index = home.index();
    let cut = lines(&good)[..lines(&good).len() / 2].concat();
    let cases: [(&str, &dyn Fn()); 7] = [
        ("deleted", &|| fs::remove_file(&index).unwrap()),
        ("emptied", &|| fs::write(&index, "").unwrap()),
        ("without the newest", &|| fs::write(&index, &cut).unwrap()),
        ("torn", &|| {
            fs::write(&index, &good[..good.len() - 40]).unwrap();
        }),
        ("zeros", &|| fs::write(&index, vec![0; good.len()]).unwrap()),
        ("another's text", &|| {
            fs::write(&index, "{\"i\":\"t01\"}\nrubbish").unwrap();
        }),
        ("flipped", &|| {
            let mut bad = good.clone();
            bad.iter_mut().step_by(50).for_each(|byte| *byte ^= 4);
            fs::write(&index, bad).unwrap();
        }),
    ];
    for (case, spoil) in cases {
        spoil();
        // A store that knew the old index, and one that knows nothing.
        for store in [&store, &home.store(), &home.store()] {
            let (threads, diagnostics) = list(store).await;
            assert_eq!(diagnostics, [], "{case}");
            let show =
                |threads: &[haft_api::ThreadMetadata]| serde_json::to_string(threads).unwrap();
            assert_eq!(show(&threads), show(&expected), "{case}");
        }
        // What was learnt was written down: the next ones don't look again.
        assert!(
            fs::metadata(&index).unwrap().len() > good.len() as u64 / 4,
            "{case}"
        );
    }
}

#[tokio::test]
async fn what_the_index_knows_is_listed_without_a_look_into_a_log() {
    let home = Home::new();
    let store = home.store();
    let mut expected = Vec::new();
    for number in 0..60 {
        let name = format!("t{number:02}");
        let mut writer = store.create(NewThread::new(id(&name))).await.unwrap();
        let title = MetadataPatch::default().title(format!("title of {name}"));
        writer.patch_metadata(title).await.unwrap();
        writer.close().await.unwrap();
        expected.push(format!("title of {name}"));
    }
    list(&store).await;
    // Of the same length, and nothing that could be read as a record.
    for number in 0..60 {
        let log = home.log(&id(&format!("t{number:02}")));
        let len = fs::metadata(&log).unwrap().len() as usize;
        fs::write(&log, "x".repeat(len)).unwrap();
    }
    for store in [&store, &home.store()] {
        let (threads, diagnostics) = list(store).await;
        assert_eq!(diagnostics, []);
        let titles = threads.iter().filter_map(|thread| thread.title.clone());
        assert_eq!(sorted(titles.collect()), expected);
    }
}

#[tokio::test]
async fn an_index_that_cannot_be_used_costs_time_only() {
    for make in [
        (|path: &std::path::Path| fs::create_dir(path).unwrap()) as fn(&std::path::Path),
        |path| symlink("/etc/passwd", path).unwrap(),
    ] {
        let home = Home::new();
        let store = home.store();
        thread(&store, "before", &["x"]).await;
        fs::remove_file(home.index()).unwrap();
        make(&home.index());
        thread(&store, "after", &["x"]).await;
        for _ in 0..2 {
            let (threads, diagnostics) = list(&home.store()).await;
            assert_eq!(threads.len(), 2);
            assert_eq!(codes(&diagnostics), [DiagnosticCode::Foreign]);
        }
    }
}

#[tokio::test]
async fn a_thread_that_the_index_has_wrong_is_shown_as_it_is() {
    let home = Home::new();
    let store = home.store();
    let a = thread(&store, "a", &["one"]).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    thread(&store, "b", &["one"]).await;
    list(&store).await;
    let old = fs::read(home.index()).unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    let mut writer = store.open_writer(&a).await.unwrap();
    writer
        .patch_metadata(MetadataPatch::default().title("new title"))
        .await
        .unwrap();
    drop(writer);
    // As if the last process had been killed before it wrote to the index.
    fs::write(home.index(), &old).unwrap();
    for store in [&store, &home.store()] {
        let (threads, _) = list(store).await;
        assert_eq!(threads[0].id, a);
        assert_eq!(threads[0].title.as_deref(), Some("new title"));
    }
}

#[tokio::test]
async fn a_thread_that_a_writer_is_at_is_listed_by_its_last_append() {
    let home = Home::new();
    let store = home.store();
    let a = thread(&store, "a", &["one"]).await;
    for name in ["b", "c", "d"] {
        tokio::time::sleep(Duration::from_millis(5)).await;
        thread(&store, name, &["one"]).await;
    }
    let mut writer = store.open_writer(&a).await.unwrap();
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let appended = writer
            .append(notes(&["more"]), Durability::Buffered)
            .await
            .unwrap();
        // One at a time: `a` must be found although it isn't among the first
        // that the index has.
        for store in [&store, &home.store()] {
            let page = store.list(ListThreads::default().limit(1)).await.unwrap();
            assert_eq!(page.threads[0].id, a);
            assert_eq!(page.threads[0].updated_ms, appended.time_ms);
            assert_eq!(page.threads[0].next_seq, appended.first_seq + 1);
        }
    }
    // As after a crash: nobody tells the index that the writer ended.
    std::mem::forget(writer);
    assert_eq!(listed(&home.store()).await[0], "a");
}

#[tokio::test]
async fn an_unreadable_thread_costs_its_own_line() {
    let home = Home::new();
    let store = home.store();
    for name in ["a", "b", "empty", "garbage", "gone"] {
        thread(&store, name, &["one"]).await;
    }
    list(&store).await;
    home.put_log(&id("empty"), b"");
    home.put_log(&id("garbage"), b"rubbish\nrubbish\n");
    fs::remove_file(home.log(&id("gone"))).unwrap();
    let bucket = home.folder(&id("a")).parent().unwrap().to_owned();
    fs::write(bucket.join("notes.txt"), "x").unwrap();
    fs::create_dir(bucket.join("Not An Id")).unwrap();
    // A folder that a crash left while the thread was being made.
    fs::create_dir(bucket.join(".new-x-1")).unwrap();
    for store in [&store, &home.store()] {
        for _ in 0..2 {
            let (threads, diagnostics) = list(store).await;
            let names = threads.iter().map(|thread| thread.id.to_string()).collect();
            assert_eq!(sorted(names), ["a", "b"]);
            let about = |name: &str| {
                let of = |d: &&haft_api::Diagnostic| d.place.as_ref().unwrap().ends_with(name);
                diagnostics.iter().filter(of).count()
            };
            for name in ["/empty", "/garbage", "/gone", "/notes.txt", "/Not An Id"] {
                assert_eq!(about(name), 1, "{name}: {diagnostics:?}");
            }
            assert_eq!(diagnostics.len(), 5);
        }
    }
    // They can be deleted, and come back to life by a writer where possible.
    store.delete(&id("garbage")).await.unwrap();
    store.delete(&id("gone")).await.unwrap();
    let mut writer = store.open_writer(&id("empty")).await.unwrap();
    append(&mut *writer, &["anew"]).await;
    drop(writer);
    assert_eq!(sorted(listed(&store).await), ["a", "b", "empty"]);
}

#[tokio::test]
async fn the_index_stays_small() {
    let home = Home::new();
    let (store, other) = (home.store(), home.store());
    let mut writer = store.create(NewThread::new(id("busy"))).await.unwrap();
    thread(&other, "idle", &["one"]).await;
    for number in 0..3000 {
        let patch = MetadataPatch::default().title(format!("title {number}"));
        writer.patch_metadata(patch).await.unwrap();
        if number % 500 == 499 {
            for store in [&store, &other] {
                let (threads, diagnostics) = list(store).await;
                assert_eq!(diagnostics, []);
                assert_eq!(threads[0].title, Some(format!("title {number}")));
                assert_eq!(threads.len(), 2);
            }
        }
    }
    let len = fs::metadata(home.index()).unwrap().len();
    assert!(len < 1500 * 300, "{len}");
    writer.close().await.unwrap();
    assert_eq!(listed(&home.store()).await, ["busy", "idle"]);
}

#[tokio::test]
async fn large_metadata_are_listed_but_not_indexed() {
    let home = Home::new();
    let store = home.store();
    let mut writer = store.create(NewThread::new(id("t"))).await.unwrap();
    let value = format!("\"{}\"", "x".repeat(100_000));
    for number in 0..10 {
        let patch = MetadataPatch::default()
            .title(number.to_string())
            .set("session_state", raw_json(value.clone()).unwrap());
        writer.patch_metadata(patch).await.unwrap();
    }
    writer.close().await.unwrap();
    let (threads, _) = list(&home.store()).await;
    assert_eq!(threads[0].title.as_deref(), Some("9"));
    assert_eq!(threads[0].extra["session_state"].get(), value);
    assert!(fs::metadata(home.index()).unwrap().len() < 10_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_made_at_once_in_two_stores_are_listed_by_a_third() {
    let home = Home::new();
    let (one, two) = (home.store(), home.store());
    let made = (0..200).map(|number| {
        let store = if number % 2 == 0 {
            one.clone()
        } else {
            two.clone()
        };
        tokio::spawn(async move { thread(&store, &format!("t{number}"), &["x"]).await })
    });
    let made: Vec<_> = made.collect();
    // Listing meanwhile neither fails nor spoils the index.
    for _ in 0..5 {
        let (_, diagnostics) = list(&one).await;
        assert_eq!(diagnostics, []);
    }
    for thread in made {
        thread.await.unwrap();
    }
    for store in [&one, &two, &home.store()] {
        let (threads, diagnostics) = list(store).await;
        assert_eq!(threads.len(), 200);
        assert!(threads.iter().all(|thread| thread.next_seq == 2));
        assert_eq!(diagnostics, []);
    }
    fs::remove_file(home.index()).unwrap();
    assert_eq!(listed(&home.store()).await.len(), 200);
}

#[tokio::test]
async fn what_a_crash_left_of_a_deletion_is_swept_up() {
    let home = Home::new();
    let store = home.store();
    thread(&store, "a", &["one"]).await;
    thread(&store, "b", &["one"]).await;
    let folder = home.folder(&id("a"));
    let left = folder.with_file_name(".deleted-a-1-2-3");
    fs::rename(&folder, &left).unwrap();
    assert_eq!(listed(&home.store()).await, ["b"]);
    assert_eq!(
        store.metadata(&id("a")).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    store.delete(&id("b")).await.unwrap();
    assert!(!left.exists());
    // The id is free.
    thread(&store, "a", &["again"]).await;
    assert_eq!(listed(&store).await, ["a"]);
}

#[tokio::test]
async fn pages_of_nothing_are_refused() {
    let home = Home::new();
    let store = home.store();
    let error = store
        .list(ListThreads::default().limit(0))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let t = thread(&store, "t", &[]).await;
    for range in [
        haft_api::ReadRange::Forward {
            seq: 0,
            limit: Some(0),
        },
        haft_api::ReadRange::Backward {
            before: None,
            limit: 0,
        },
    ] {
        let error = store.read(&t, range).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}
