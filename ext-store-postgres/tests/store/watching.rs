//! Other nodes hear of what was written.

use std::time::Duration;

use haft_api::{Durability, NewRecord, NewThread, ThreadStore as _};
use haft_ext_store_postgres::{NotifyPolicy, Watch, WatchEvent};

use crate::support::*;

async fn next(watch: &mut Watch) -> WatchEvent {
    let event = tokio::time::timeout(Duration::from_secs(60), watch.next()).await;
    event.expect("an event").unwrap()
}

fn ended() -> Vec<NewRecord> {
    vec![NewRecord::new("turn_ended", &1).unwrap()]
}

#[tokio::test]
async fn a_turns_end_is_told_once_to_every_node_of_the_schema() {
    let server = server_or_skip!();
    let schema = fresh_schema();
    let writing = open(config(server.url(), &schema)).await;
    let reading = open(config(server.url(), &schema)).await;
    let stranger = open(config(server.url(), &fresh_schema())).await;
    let (mut watch, mut own) = (
        reading.watch().await.unwrap(),
        writing.watch().await.unwrap(),
    );
    let mut strange = stranger.watch().await.unwrap();
    let thread = id("t");
    let mut writer = writing
        .create(NewThread::new(thread.clone()))
        .await
        .unwrap();
    let changed = |last_seq| WatchEvent::Changed {
        thread: thread.clone(),
        last_seq,
    };
    for last in [3, 6] {
        append(&mut *writer, "in the turn").await;
        append(&mut *writer, "in the turn").await;
        writer.append(ended(), Durability::Barrier).await.unwrap();
        assert_eq!(next(&mut watch).await, changed(last));
        assert_eq!(next(&mut own).await, changed(last));
    }
    // What wasn't told is told when the writer lets go.
    append(&mut *writer, "no turn").await;
    writer.close().await.unwrap();
    assert_eq!(next(&mut watch).await, changed(7));

    let other = id("other");
    let created = stranger.create(NewThread::new(other.clone())).await;
    let mut writer = created.unwrap();
    writer.append(ended(), Durability::Barrier).await.unwrap();
    let event = next(&mut strange).await;
    assert!(matches!(event, WatchEvent::Changed { thread, .. } if thread == other));
}

#[tokio::test]
async fn a_policy_tells_of_every_barrier() {
    let server = server_or_skip!();
    let store = config(server.url(), &fresh_schema()).notify(NotifyPolicy::Barrier);
    let store = open(store).await;
    let mut watch = store.watch().await.unwrap();
    let mut writer = store.create(NewThread::new(id("t"))).await.unwrap();
    for last in [1, 2] {
        append(&mut *writer, "x").await;
        let event = next(&mut watch).await;
        assert!(matches!(event, WatchEvent::Changed { last_seq, .. } if last_seq == last));
    }
}

#[tokio::test]
async fn a_broken_watch_says_so_and_goes_on() {
    let server = server_or_skip!();
    let schema = fresh_schema();
    let store = open(config(server.url(), &schema)).await;
    let mut watch = store.watch().await.unwrap();
    let client = sql(server).await;
    let end = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE query = 'LISTEN {schema}_threads'"
    );
    assert_eq!(client.query(&end, &[]).await.unwrap().len(), 1);
    assert_eq!(next(&mut watch).await, WatchEvent::Missed);
    let mut writer = store.create(NewThread::new(id("t"))).await.unwrap();
    writer.append(ended(), Durability::Barrier).await.unwrap();
    let event = next(&mut watch).await;
    assert!(matches!(event, WatchEvent::Changed { last_seq: 1, .. }));
    drop(writer);
    drop(store);
    assert!(watch.next().await.is_err(), "nothing more will be heard");
}
