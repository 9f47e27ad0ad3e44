//! One writer per thread, whatever becomes of it.

use std::time::Duration;

use haft_api::{Durability, ErrorKind, ErrorStatus, NewThread, ThreadStore as _};
use rustix::process::Signal;

use crate::child::{LEASE, Process};
use crate::support::*;

#[tokio::test]
async fn a_killed_holder_is_named_until_its_lease_is_over() {
    let server = server_or_skip!();
    let schema = fresh_schema();
    let store = open(config(server.url(), &schema)).await;
    let thread = id("t");
    let mut writer = store.create(NewThread::new(thread.clone())).await.unwrap();
    append(&mut *writer, "mine").await;
    writer.close().await.unwrap();

    let mut child = Process::start(server, &schema, "t", "hold");
    assert_eq!(child.next().as_deref(), Some("held"));
    assert_eq!(child.ask("its"), "written");
    let name = format!("process {} on child", child.id());
    // Renewed for longer than it lasts.
    tokio::time::sleep(LEASE * 2).await;
    child.kill();
    let Err(refused) = store.open_writer(&thread).await else {
        panic!("taken from a holder who may be alive");
    };
    assert_eq!(refused.kind(), ErrorKind::Busy);
    assert_eq!(refused.context_value("holder"), Some(&*name));
    assert!(refused.context_value("since").is_some(), "{refused}");
    // Readers wait for nobody.
    assert_eq!(notes(&store, &thread).await, ["mine", "its"]);

    let mut writer = take(&store, &thread).await;
    append(&mut *writer, "mine again").await;
    assert_eq!(notes(&store, &thread).await, ["mine", "its", "mine again"]);
}

#[tokio::test]
async fn a_writer_that_comes_too_late_writes_nothing() {
    let server = server_or_skip!();
    let schema = fresh_schema();
    let store = open(config(server.url(), &schema).node("me")).await;
    let thread = id("t");
    let created = store.create(NewThread::new(thread.clone())).await;
    created.unwrap().close().await.unwrap();

    let mut child = Process::start(server, &schema, "t", "hold");
    assert_eq!(child.next().as_deref(), Some("held"));
    // As a machine that sleeps, or a network that is cut.
    child.signal(Signal::STOP);
    let mut writer = take(&store, &thread).await;
    append(&mut *writer, "taken over").await;
    child.signal(Signal::CONT);
    let answer = child.ask("too late");
    assert!(answer.starts_with("unavailable"), "{answer}");
    // The append hears of it, or the lease's renewal before it did.
    let told = ["taken over", "taken the thread over"];
    assert!(told.iter().any(|it| answer.contains(it)), "{answer}");
    let again = child.ask("again");
    assert!(again.contains("the writer was closed"), "{again}");
    drop(child);
    append(&mut *writer, "and on").await;
    assert_eq!(notes(&store, &thread).await, ["taken over", "and on"]);
}

#[tokio::test]
async fn an_expired_lease_goes_to_one_of_many() {
    let server = server_or_skip!();
    let schema = fresh_schema();
    let thread = id("t");
    let first = open(config(server.url(), &schema)).await;
    let writer = first.create(NewThread::new(thread.clone())).await.unwrap();
    let client = sql(server).await;
    for _ in 0..5 {
        let expire = format!("UPDATE {schema}.threads SET lease_until_ms = 0");
        client.batch_execute(&expire).await.unwrap();
        let attempts = (0..12).map(|_| {
            let (schema, thread) = (schema.clone(), thread.clone());
            tokio::spawn(async move {
                let store = open(config(server.url(), &schema)).await;
                (store.open_writer(&thread).await, store)
            })
        });
        let mut winners = Vec::new();
        for attempt in attempts.collect::<Vec<_>>() {
            match attempt.await.unwrap() {
                (Ok(writer), store) => winners.push((writer, store)),
                (Err(error), _) => assert_eq!(error.kind(), ErrorKind::Busy),
            }
        }
        assert_eq!(winners.len(), 1);
        let (mut writer, store) = winners.remove(0);
        append(&mut *writer, "won").await;
        std::mem::forget((writer, store));
    }
    // The first writer, whose lease was taken from it long ago, lets go of
    // nothing that isn't its own.
    drop(writer);
    drop(first);
    let store = open(config(server.url(), &schema)).await;
    let Err(refused) = store.open_writer(&thread).await else {
        panic!("taken from the last winner");
    };
    assert_eq!(refused.kind(), ErrorKind::Busy);
    assert_eq!(notes(&store, &thread).await, ["won"; 5]);
}

#[tokio::test]
async fn a_writer_of_a_deleted_thread_reaches_no_other() {
    let server = server_or_skip!();
    let schema = fresh_schema();
    let (old, new) = (
        open(config(server.url(), &schema)).await,
        open(config(server.url(), &schema)).await,
    );
    let thread = id("t");
    let mut late = old.create(NewThread::new(thread.clone())).await.unwrap();
    let expire = format!("UPDATE {schema}.threads SET lease_until_ms = 0");
    sql(server).await.batch_execute(&expire).await.unwrap();
    new.delete(&thread).await.unwrap();
    let mut writer = new.create(NewThread::new(thread.clone())).await.unwrap();
    let refused = late
        .append(note("late"), Durability::Barrier)
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    assert_eq!(refused.status(), ErrorStatus::Permanent);
    drop(late);
    append(&mut *writer, "mine").await;
    assert_eq!(notes(&new, &thread).await, ["mine"]);
}

#[tokio::test]
async fn the_last_handle_lets_go_before_it_ends() {
    let server = server_or_skip!();
    let schema = fresh_schema();
    let thread = id("t");
    let store = open(config(server.url(), &schema).lease(Duration::from_secs(600))).await;
    let mut writer = store.create(NewThread::new(thread.clone())).await.unwrap();
    append(&mut *writer, "a").await;
    // As at a program's end: nothing is waited for but what dropping waits for.
    drop(writer);
    drop(store);
    let store = open(config(server.url(), &schema)).await;
    assert!(store.open_writer(&thread).await.is_ok());
}
