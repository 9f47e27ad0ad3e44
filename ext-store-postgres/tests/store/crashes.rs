//! Writers and servers that die.

use std::time::Duration;

use haft_api::{Durability, NewThread, ThreadStore as _};

use crate::child::Process;
use crate::support::*;

/// How often the writer is killed.
const KILLS: u32 = 50;

/// Numbers between 0 and the limit, the same in every run.
fn pseudo_random(seed: &mut u64, limit: u64) -> u64 {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) % limit
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_writers_lose_nothing_that_was_acknowledged() {
    let server = server_or_skip!();
    let schema = fresh_schema();
    let store = open(config(server.url(), &schema)).await;
    let mut seed = 42;
    for round in 0..KILLS {
        let name = format!("t{round}");
        let mut child = Process::start(server, &schema, &name, "append");
        let acknowledged = tokio::task::spawn_blocking({
            let before = pseudo_random(&mut seed, 12);
            let pause = Duration::from_micros(pseudo_random(&mut seed, 4_000));
            move || {
                for _ in 0..before {
                    child.next().expect("an acknowledgement");
                }
                std::thread::sleep(pause);
                child.kill();
                // What it had said, and nobody had heard yet.
                let mut count = before;
                while let Some(line) = child.next() {
                    assert_eq!(line, count.to_string());
                    count += 1;
                }
                count
            }
        });
        let acknowledged = acknowledged.await.unwrap();
        let thread = id(&name);
        if acknowledged == 0 && store.metadata(&thread).await.is_err() {
            continue;
        }
        let there = notes(&store, &thread).await;
        let whole: Vec<_> = (0..there.len() / 2)
            .flat_map(|number| [number.to_string(), "pair".to_owned()])
            .collect();
        assert_eq!(there, whole, "groups are there whole");
        let there = there.len() as u64 / 2;
        assert!(there >= acknowledged, "{there} of {acknowledged} are there");
        assert_eq!(store.check(&thread).await.unwrap(), vec![]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crashed_server_loses_nothing_that_was_acknowledged() {
    let server = match Server::start() {
        Ok(server) => server,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    let store = open(config(server.url(), &fresh_schema()).connections(6)).await;
    let writers: Vec<_> = (0..4)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move {
                let thread = id(&format!("t{number}"));
                let mut writer = store.create(NewThread::new(thread.clone())).await.unwrap();
                for number in 0..60_u64 {
                    let group = [note(&number.to_string()), note("pair")].concat();
                    // Crashes are survived: the writer finds out what became
                    // of the group, and goes on.
                    let appended = writer.append(group, Durability::Barrier).await.unwrap();
                    assert_eq!(appended.first_seq, 1 + 2 * number);
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                thread
            })
        })
        .collect();
    let mut server = server;
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(120)).await;
        server = crash(server).await;
    }
    for writer in writers {
        let thread = writer.await.unwrap();
        assert_eq!(notes(&store, &thread).await.len(), 120);
        assert_eq!(store.check(&thread).await.unwrap(), vec![]);
    }
    drop(store);
    drop(server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crashed_server_loses_only_what_nobody_asked_to_wait_for() {
    // What isn't waited for stays in the server's memory for seconds.
    let server = match Server::start_with(&[("wal_writer_delay", "10s")]) {
        Ok(server) => server,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    let store = open(config(server.url(), &fresh_schema()).lease(Duration::from_secs(60))).await;
    let thread = id("t");
    let mut writer = store.create(NewThread::new(thread.clone())).await.unwrap();
    let buffered = async |writer: &mut dyn haft_api::ThreadWriter, text: &str| {
        let appended = writer.append(note(text), Durability::Buffered).await;
        appended.unwrap().first_seq
    };
    assert_eq!(buffered(&mut *writer, "covered by the barrier").await, 1);
    assert_eq!(append(&mut *writer, "a barrier").await, 2);
    assert_eq!(buffered(&mut *writer, "in the server's memory").await, 3);
    assert_eq!(notes(&store, &thread).await.len(), 3, "visible to all");
    let server = crash(server).await;
    let refused = writer
        .append(note("after"), Durability::Barrier)
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains("lost the records 3 to 3"),
        "{refused}"
    );
    let close = writer.close().await.unwrap_err();
    assert!(close.to_string().contains("lost the records"), "{close}");
    let mut writer = take(&store, &thread).await;
    assert_eq!(append(&mut *writer, "again").await, 3);
    assert_eq!(
        notes(&store, &thread).await,
        ["covered by the barrier", "a barrier", "again"]
    );
    // Closing makes durable what wasn't.
    buffered(&mut *writer, "closed over").await;
    writer.close().await.unwrap();
    let server = crash(server).await;
    assert_eq!(notes(&store, &thread).await.len(), 4);
    drop(store);
    drop(server);
}

/// Crashes a server, off the async workers.
async fn crash(server: Server) -> Server {
    let crash = move || {
        server.postgres.crash();
        server
    };
    tokio::task::spawn_blocking(crash).await.unwrap()
}
