//! Operations that fail while the process lives on.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use haft_api::{Durability, ErrorKind, NewRecord, ThreadStore};

use super::disk::{Plan, TestDisk};
use super::{id, new, notes, open, read, texts};
use crate::config::DurabilityPolicy;
use crate::store::JsonlStore;

fn full(room: usize) -> Plan {
    Plan {
        room: Some(room),
        ..Plan::default()
    }
}

fn log(home: &Path) -> std::path::PathBuf {
    let buckets = fs::read_dir(home.join("threads")).unwrap();
    let logs = buckets.map(|bucket| bucket.unwrap().path().join("t/log.jsonl"));
    logs.into_iter().find(|log| log.exists()).unwrap()
}

async fn thread(home: &Path, disk: &Arc<TestDisk>) -> Box<dyn haft_api::ThreadWriter> {
    let store = open(home, DurabilityPolicy::Barriers, disk).unwrap();
    let mut writer = store.create(new("t")).await.unwrap();
    writer
        .append(notes(&["one"]), Durability::Barrier)
        .await
        .unwrap();
    writer
}

#[tokio::test]
async fn a_write_cut_short_anywhere_is_taken_back() {
    for room in [0, 1, 30, 80, 110] {
        let folder = tempfile::tempdir().unwrap();
        let disk = Arc::new(TestDisk::default());
        let mut writer = thread(folder.path(), &disk).await;
        let before = fs::read(log(folder.path())).unwrap();
        for _ in 0..2 {
            disk.set(full(room));
            let error = writer
                .append(notes(&["two", "three"]), Durability::Buffered)
                .await
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(error.to_string().contains("disk is full"), "{error}");
            assert!(
                fs::read(log(folder.path())).unwrap() == before,
                "room for {room}"
            );
            assert_eq!(writer.next_seq(), 2);
        }
        disk.set(Plan::default());
        let appended = writer
            .append(notes(&["two", "three"]), Durability::Barrier)
            .await
            .unwrap();
        assert_eq!((appended.first_seq, appended.diagnostics), (2, vec![]));
        drop(writer);
        let store = JsonlStore::open(folder.path(), Default::default()).unwrap();
        let (records, codes) = read(&store, &id("t")).await.unwrap();
        assert_eq!(texts(&records), ["one", "two", "three"]);
        assert_eq!(codes, []);
    }
}

#[tokio::test]
async fn a_fragment_that_cannot_be_cut_off_is_before_the_next_append() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(TestDisk::default());
    let mut writer = thread(folder.path(), &disk).await;
    disk.set(Plan {
        fail_set_len: true,
        ..full(40)
    });
    let group = || notes(&["two"]);
    let error = writer
        .append(group(), Durability::Buffered)
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("is cut off before the next append"),
        "{error}"
    );
    // Still not: nothing is written behind the fragment.
    let with_fragment = fs::read(log(folder.path())).unwrap();
    disk.set(Plan {
        fail_set_len: true,
        ..Plan::default()
    });
    let error = writer
        .append(group(), Durability::Buffered)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(fs::read(log(folder.path())).unwrap() == with_fragment);
    disk.set(Plan::default());
    writer.append(group(), Durability::Buffered).await.unwrap();
    let store = JsonlStore::open(folder.path(), Default::default()).unwrap();
    let (records, codes) = read(&store, &id("t")).await.unwrap();
    assert_eq!(
        (texts(&records), codes),
        (vec!["one".to_owned(), "two".to_owned()], vec![])
    );
}

#[tokio::test]
async fn a_failing_barrier_closes_the_writer_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(TestDisk::default());
    let mut writer = thread(folder.path(), &disk).await;
    writer
        .append(notes(&["two"]), Durability::Buffered)
        .await
        .unwrap();
    disk.set(Plan {
        fail_sync: true,
        ..Plan::default()
    });
    let error = writer
        .append(notes(&["three"]), Durability::Barrier)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(!error.is_temporary(), "{error}");
    // A later success would mean nothing: the system may have dropped the data.
    disk.set(Plan::default());
    let syncs = disk.syncs();
    for durability in [Durability::Barrier, Durability::Buffered] {
        let error = writer
            .append(notes(&["four"]), durability)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains("barrier"), "{error}");
    }
    assert_eq!(disk.syncs(), syncs);
    let error = writer.close().await.unwrap_err();
    assert!(error.to_string().contains("barrier"), "{error}");
    // The group that failed isn't there; what was acknowledged before is.
    let store = JsonlStore::open(folder.path(), Default::default()).unwrap();
    let (records, codes) = read(&store, &id("t")).await.unwrap();
    assert_eq!(
        (texts(&records), codes),
        (vec!["one".to_owned(), "two".to_owned()], vec![])
    );
    store.open_writer(&id("t")).await.unwrap();
}

#[tokio::test]
async fn a_failing_barrier_at_closing_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(TestDisk::default());
    let mut writer = thread(folder.path(), &disk).await;
    writer
        .append(notes(&["two"]), Durability::Buffered)
        .await
        .unwrap();
    disk.set(Plan {
        fail_sync: true,
        ..Plan::default()
    });
    assert_eq!(
        writer.close().await.unwrap_err().kind(),
        ErrorKind::Unavailable
    );
}

#[tokio::test]
async fn torn_bytes_stay_until_there_is_room_to_keep_them() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(TestDisk::default());
    thread(folder.path(), &disk).await.close().await.unwrap();
    let path = log(folder.path());
    let mut torn = fs::read(&path).unwrap();
    torn.extend_from_slice(&[b'x'; 500]);
    fs::write(&path, &torn).unwrap();
    let store = open(folder.path(), DurabilityPolicy::Barriers, &disk).unwrap();
    let mut writer = store.open_writer(&id("t")).await.unwrap();
    for room in [0, 100] {
        disk.set(full(room));
        let error = writer
            .append(notes(&["two"]), Durability::Barrier)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("disk is full"), "{error}");
        assert!(fs::read(&path).unwrap() == torn);
    }
    // Room for the fragment, not for the record that says so.
    disk.set(full(510));
    writer
        .append(notes(&["two"]), Durability::Barrier)
        .await
        .unwrap_err();
    disk.set(Plan::default());
    let appended = writer
        .append(notes(&["two"]), Durability::Barrier)
        .await
        .unwrap();
    assert_eq!(appended.diagnostics.len(), 1);
    drop(writer);
    let (records, codes) = read(&store, &id("t")).await.unwrap();
    assert_eq!(codes, []);
    assert_eq!(records[2].kind, "repair");
    let repair: crate::kinds::Repair = records[2].parse().unwrap();
    let kept = fs::read(path.with_file_name("").join(repair.kept.unwrap())).unwrap();
    assert_eq!(kept, [b'x'; 500]);
    assert_eq!(
        fs::read_dir(path.with_file_name("torn")).unwrap().count(),
        1
    );
}

#[tokio::test]
async fn a_thread_that_cannot_be_created_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(TestDisk::default());
    let store = open(folder.path(), DurabilityPolicy::Barriers, &disk).unwrap();
    for plan in [
        full(0),
        full(50),
        Plan {
            fail_sync: true,
            ..Plan::default()
        },
    ] {
        disk.set(plan);
        let error = store.create(new("t")).await.err().unwrap();
        assert_eq!(error.context_value("thread"), Some("t"), "{error}");
        disk.set(Plan::default());
        assert_eq!(
            store.metadata(&id("t")).await.unwrap_err().kind(),
            ErrorKind::NotFound
        );
        let page = store.list(Default::default()).await.unwrap();
        assert!(page.threads.is_empty() && page.diagnostics.is_empty());
    }
    store.create(new("t")).await.unwrap().close().await.unwrap();
}

#[tokio::test]
async fn the_policy_says_when_the_disk_is_waited_for() {
    let check = async |policy, creation, buffered, barrier, turn_end, metadata, close| {
        let folder = tempfile::tempdir().unwrap();
        let disk = Arc::new(TestDisk::default());
        let store = open(folder.path(), policy, &disk).unwrap();
        let mut last = disk.syncs();
        let mut since = || {
            let now = disk.syncs();
            now - std::mem::replace(&mut last, now)
        };
        let mut writer = store.create(new("t")).await.unwrap();
        assert_eq!(since() > 0, creation, "{policy:?} creation");
        writer
            .append(notes(&["1"]), Durability::Buffered)
            .await
            .unwrap();
        assert_eq!(since(), buffered, "{policy:?} buffered");
        writer
            .append(notes(&["2"]), Durability::Barrier)
            .await
            .unwrap();
        assert_eq!(since(), barrier, "{policy:?} barrier");
        let end = vec![NewRecord::new("turn_ended", &1).unwrap()];
        writer.append(end, Durability::Buffered).await.unwrap();
        assert_eq!(since(), turn_end, "{policy:?} end of a turn");
        let title = haft_api::MetadataPatch::default().title("x");
        writer.patch_metadata(title).await.unwrap();
        assert_eq!(since(), metadata, "{policy:?} metadata");
        writer
            .append(notes(&["3"]), Durability::Buffered)
            .await
            .unwrap();
        since();
        writer.close().await.unwrap();
        assert_eq!(since(), close, "{policy:?} closing");
    };
    check(DurabilityPolicy::EveryItem, true, 1, 1, 1, 1, 0).await;
    check(DurabilityPolicy::Barriers, true, 0, 1, 0, 1, 1).await;
    check(DurabilityPolicy::Turn, true, 0, 0, 1, 0, 1).await;
    check(DurabilityPolicy::Os, false, 0, 0, 0, 0, 0).await;
}

#[tokio::test]
async fn an_index_that_cannot_be_written_fails_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(TestDisk::default());
    let store = open(folder.path(), DurabilityPolicy::Barriers, &disk).unwrap();
    fs::create_dir(folder.path().join("threads/index.jsonl")).unwrap();
    let mut writer = store.create(new("t")).await.unwrap();
    let title = haft_api::MetadataPatch::default().title("x");
    writer.patch_metadata(title).await.unwrap();
    writer
        .append(notes(&["1"]), Durability::Buffered)
        .await
        .unwrap();
    writer.close().await.unwrap();
    let page = store.list(Default::default()).await.unwrap();
    assert_eq!(page.threads[0].title.as_deref(), Some("x"));
}

#[tokio::test]
async fn a_payload_whose_line_finds_no_room_gives_its_own_back() {
    let payload = "x".repeat(40_000);
    // Too little for the payload; enough for it, and not for its line, at all or
    // in part.
    for room in [0, 100, 39_000, 40_002, 40_050] {
        let folder = tempfile::tempdir().unwrap();
        let disk = Arc::new(TestDisk::default());
        let mut writer = thread(folder.path(), &disk).await;
        let payloads = log(folder.path()).with_file_name("blobs");
        let count = || fs::read_dir(&payloads).map_or(0, Iterator::count);
        disk.set(full(room));
        let error = writer
            .append(notes(&[&payload]), Durability::Barrier)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("disk is full"), "{error}");
        assert_eq!(count(), 0, "room for {room}");
        disk.set(Plan::default());
        writer
            .append(notes(&[&payload]), Durability::Barrier)
            .await
            .unwrap();
        assert_eq!(count(), 1, "room for {room}");
        let store = JsonlStore::open(folder.path(), Default::default()).unwrap();
        let (records, codes) = read(&store, &id("t")).await.unwrap();
        assert_eq!(
            (texts(&records), codes),
            (vec!["one".to_owned(), payload.clone()], vec![])
        );
    }
}
