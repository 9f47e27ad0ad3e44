use std::sync::Arc;
use std::time::Duration;

use haft_api::{
    Durability, Error, ErrorKind, Event, EventBody, EventSink, Item, ListThreads, NewRecord,
    NewThread, StoreOptions, ThreadStore, ThreadStoreFactory, ThreadWriter, Usage,
};

use super::*;
use crate::crash::CrashMoment;
use crate::fixture::thread_id;
use crate::gate::Gate;
use crate::journal::Journal;

fn record(text: &str) -> Vec<NewRecord> {
    vec![NewRecord::new("note", &text).unwrap()]
}

fn unavailable() -> Error {
    Error::new(ErrorKind::Unavailable, "no space left")
}

async fn writer(store: &FaultStore) -> Box<dyn ThreadWriter> {
    store.create(NewThread::new(thread_id("t"))).await.unwrap()
}

fn notes(store: &MemoryStore) -> Vec<String> {
    let records = store.records(&thread_id("t"));
    records[1..].iter().map(|r| r.parse().unwrap()).collect()
}

#[tokio::test]
async fn a_store_refuses_what_a_line_could_not_hold() {
    let mut writer = MemoryStore::new()
        .create(NewThread::new(thread_id("t")))
        .await
        .unwrap();
    for (kind, data) in [
        ("Two Words", "1"),
        ("", "1"),
        ("a/b", "1"),
        ("note", "[1,\n2]"),
    ] {
        let record = NewRecord {
            kind: kind.to_owned(),
            data: haft_api::raw_json(data).unwrap(),
        };
        let error = writer
            .append(vec![record], Durability::Buffered)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{kind:?} {data:?}");
    }
    assert_eq!(writer.next_seq(), 1);
}

#[tokio::test]
async fn a_failed_append_wrote_nothing_or_everything_as_asked() {
    let memory = MemoryStore::new();
    let store = FaultStore::new(memory.shared());
    store
        .faults()
        .on(StoreOperation::Append)
        .nth(1)
        .fail(unavailable());
    store
        .faults()
        .on(StoreOperation::Append)
        .nth(2)
        .fail_after(unavailable());
    store
        .faults()
        .on(StoreOperation::Barrier)
        .nth(1)
        .fail(unavailable());
    let mut writer = writer(&store).await;
    let mut outcomes = Vec::new();
    for (text, durability) in [
        ("a", Durability::Barrier),
        ("b", Durability::Buffered),
        ("c", Durability::Buffered),
        ("d", Durability::Barrier),
        ("e", Durability::Buffered),
    ] {
        outcomes.push(writer.append(record(text), durability).await.is_ok());
    }
    assert_eq!(outcomes, [true, false, false, false, true]);
    assert_eq!(notes(&memory), ["a", "c", "e"]);
    assert_eq!(store.faults().on(StoreOperation::Append).count(), 5);
    assert_eq!(store.faults().on(StoreOperation::Barrier).count(), 2);
    assert_eq!(
        store.journal().entries().len(),
        2,
        "only what was acknowledged"
    );
}

#[tokio::test(start_paused = true)]
async fn appends_are_slow_held_or_stuck_as_asked() {
    let store = FaultStore::new(MemoryStore::new().shared());
    let gate = Gate::new();
    let appends = || store.faults().on(StoreOperation::Append);
    appends().nth(0).delay(Duration::from_secs(5));
    appends().nth(1).hold(&gate);
    appends().nth(2).stall();
    let mut writer = writer(&store).await;

    let began = tokio::time::Instant::now();
    writer
        .append(record("a"), Durability::Buffered)
        .await
        .unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(5));

    let mut held = tokio::spawn(async move {
        writer
            .append(record("b"), Durability::Buffered)
            .await
            .unwrap();
        writer
    });
    gate.reached(1).await;
    assert!(
        tokio::time::timeout(Duration::from_secs(60), &mut held)
            .await
            .is_err()
    );
    gate.open();
    let mut writer = held.await.unwrap();

    let stuck = writer.append(record("c"), Durability::Buffered);
    assert!(
        tokio::time::timeout(Duration::from_secs(60), stuck)
            .await
            .is_err()
    );
    store.faults().clear();
    writer
        .append(record("d"), Durability::Buffered)
        .await
        .unwrap();
}

#[tokio::test]
async fn every_operation_can_fail() {
    let store = FaultStore::new(MemoryStore::new().shared());
    let thread = thread_id("t");
    drop(writer(&store).await);
    store
        .faults()
        .on(StoreOperation::Create)
        .next()
        .fail(unavailable());
    store
        .faults()
        .on(StoreOperation::OpenWriter)
        .next()
        .fail(unavailable());
    for operation in [
        StoreOperation::Read,
        StoreOperation::Metadata,
        StoreOperation::List,
    ] {
        store.faults().on(operation).always().fail(unavailable());
    }
    let new = NewThread::new(thread_id("u"));
    assert!(store.create(new).await.is_err());
    assert!(store.open_writer(&thread).await.is_err());
    let mut writer = store.open_writer(&thread).await.unwrap();
    assert!(store.read(&thread, haft_api::ReadRange::ALL).await.is_err());
    assert!(store.metadata(&thread).await.is_err());
    assert!(store.list(Default::default()).await.is_err());
    store
        .faults()
        .on(StoreOperation::PatchMetadata)
        .next()
        .fail(unavailable());
    store
        .faults()
        .on(StoreOperation::Close)
        .next()
        .fail(unavailable());
    assert!(writer.patch_metadata(Default::default()).await.is_err());
    assert!(writer.close().await.is_err());
    store
        .faults()
        .on(StoreOperation::Delete)
        .next()
        .fail(unavailable());
    assert!(store.delete(&thread).await.is_err());
    assert!(store.delete(&thread).await.is_ok());
}

#[tokio::test]
async fn a_factory_opens_the_same_threads_again() {
    let factory = MemoryStoreFactory::new(MemoryStore::new().shared());
    let open = || async { factory.open(StoreOptions::new("/nowhere")).await.unwrap() };
    drop(
        open()
            .await
            .create(NewThread::new(thread_id("t")))
            .await
            .unwrap(),
    );
    assert!(open().await.metadata(&thread_id("t")).await.is_ok());
}

#[tokio::test]
async fn a_journal_tells_durable_before_visible() {
    let item = Arc::new(Item::user("a"));
    let event = |body: EventBody| Event::new(0, thread_id("t"), None, 0, body);
    let shown = event(EventBody::ItemAppended {
        item: Arc::clone(&item),
    });
    let ended = event(EventBody::TurnCompleted {
        usage: Usage::default(),
    });
    let check = async |order: &str, expected: Option<&str>| {
        let journal = Journal::new();
        let store = FaultStore::new(MemoryStore::new().shared()).with_journal(&journal);
        let mut writer = writer(&store).await;
        for step in order.split(' ') {
            match step {
                "buffer" => drop(writer.append(record("a"), Durability::Buffered).await),
                "barrier" => drop(writer.append(record("a"), Durability::Barrier).await),
                "show" => journal.publish(&shown),
                "end" => journal.publish(&ended),
                _ => panic!("{step}"),
            }
        }
        let holds = |record: &NewRecord, _: &Item| record.data.get() == r#""a""#;
        let outcome = journal.check_durable_before_visible(holds);
        match expected {
            None => assert_eq!(outcome, Ok(()), "{order}"),
            Some(word) => assert!(outcome.unwrap_err().contains(word), "{order}"),
        }
    };
    check("buffer show barrier end", None).await;
    check("barrier show end", None).await;
    check("show barrier end", Some("unstored item")).await;
    check("barrier show buffer end", Some("Buffered")).await;
    check("end", Some("None")).await;
}

#[tokio::test]
async fn a_crash_ends_the_store_where_it_is_told_to() {
    // Creating is operation 0, the two groups are 1 and 2.
    let check = async |number: usize, moment: CrashMoment, acknowledged: usize, kept: &[&str]| {
        let memory = MemoryStore::new();
        let store = FaultStore::new(memory.shared());
        store.faults().crash_at(number, moment);
        let mut writer = writer(&store).await;
        let mut outcomes = Vec::new();
        for texts in [["a", "b"], ["c", "d"]] {
            let group = texts.map(|text| record(text).remove(0)).to_vec();
            outcomes.push(writer.append(group, Durability::Barrier).await.is_ok());
        }
        let told = outcomes.iter().filter(|ok| **ok).count();
        assert_eq!(
            (told, notes(&memory)),
            (acknowledged, kept.iter().map(ToString::to_string).collect()),
            "{number} {moment:?}"
        );
        assert!(store.faults().is_crashed());
        let error = writer
            .append(record("e"), Durability::Buffered)
            .await
            .unwrap_err();
        assert!(!error.is_temporary(), "{error}");
        assert!(store.list(ListThreads::default()).await.is_err());
        assert_eq!(notes(&memory), kept);
    };
    check(1, CrashMoment::Before, 0, &[]).await;
    check(1, CrashMoment::Torn, 0, &["a"]).await;
    check(1, CrashMoment::After, 0, &["a", "b"]).await;
    check(2, CrashMoment::Before, 1, &["a", "b"]).await;
    check(2, CrashMoment::Torn, 1, &["a", "b", "c"]).await;
    // In memory nothing waits, so that what was begun is done.
    check(2, CrashMoment::Within, 1, &["a", "b", "c", "d"]).await;
}
