//! Durable records into many threads at once, beside SQLite.

use std::path::Path;
use std::time::Duration;

use futures::future::try_join_all;
use haft_api::{Durability, NewThread, ThreadId, ThreadStore as _};
use haft_bench::{Pair, Result, Sample};
use haft_ext_store_jsonl::{JsonlConfig, JsonlStore};
use rusqlite::Connection;

use crate::agent;
use crate::append::record;

/// Threads that are written to at the same time.
const THREADS: usize = 64;
/// The appends of each in a sample.
const APPENDS: usize = 10;
/// How long SQLite may wait for others: until they are done.
const PATIENCE: Duration = Duration::from_secs(120);

/// Durable appends to 64 threads at once, beside as many connections to one
/// database that insert the same data, each a transaction (`WAL`,
/// `synchronous=FULL`).
pub(crate) fn side_by_side() -> Result<Pair> {
    let folder = tempfile::tempdir()?;
    let tokio = agent::many_threads()?;
    let operations = u32::try_from(THREADS * APPENDS)?;
    let record = record()?;
    let data = record.data.get().to_owned();
    let mut connections = connect(&folder.path().join("threads.sqlite"))?;

    let store = JsonlStore::open(folder.path().join("home"), JsonlConfig::default())?;
    let mut writers = tokio.block_on(async {
        let mut writers = Vec::new();
        for number in 0..THREADS {
            let id = ThreadId::new(format!("thread-{number}"))?;
            writers.push(store.create(NewThread::new(id)).await?);
        }
        Ok::<_, haft_api::Error>(writers)
    })?;

    let mut round = 0_usize;
    Ok(Pair::of_samples(
        move || {
            let _folder = &folder;
            let groups: Vec<_> = (0..THREADS)
                .map(|_| vec![vec![record.clone()]; APPENDS])
                .collect();
            let tasks = std::mem::take(&mut writers).into_iter().zip(groups);
            Sample::take(operations, || {
                let all = tasks.map(|(mut writer, groups)| {
                    tokio.spawn(async move {
                        for group in groups {
                            writer.append(group, Durability::Barrier).await?;
                        }
                        Ok::<_, haft_api::Error>(writer)
                    })
                });
                let all: Vec<_> = all.collect();
                for done in tokio.block_on(try_join_all(all))? {
                    writers.push(done?);
                }
                Ok(())
            })
        },
        move || {
            round += 1;
            let first = round * APPENDS;
            Sample::take(operations, || {
                let inserted = std::thread::scope(|scope| {
                    let all: Vec<_> = connections
                        .iter_mut()
                        .enumerate()
                        .map(|(thread, connection)| {
                            let data = data.as_str();
                            scope.spawn(move || insert(connection, thread, first, data))
                        })
                        .collect();
                    all.into_iter()
                        .map(|task| task.join().unwrap_or_else(|_| Err("a panic".to_owned())))
                        .collect::<std::result::Result<Vec<()>, _>>()
                });
                inserted.map(drop).map_err(Into::into)
            })
        },
    ))
}

fn connect(path: &Path) -> Result<Vec<Connection>> {
    let mut connections = Vec::new();
    for number in 0..THREADS {
        let connection = Connection::open(path)?;
        connection.busy_timeout(PATIENCE)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full")?;
        if number == 0 {
            connection.execute_batch(
                "CREATE TABLE records (thread INTEGER, seq INTEGER, data TEXT NOT NULL,
                                       PRIMARY KEY (thread, seq)) WITHOUT ROWID",
            )?;
        }
        connections.push(connection);
    }
    Ok(connections)
}

fn insert(
    connection: &Connection,
    thread: usize,
    first: usize,
    data: &str,
) -> std::result::Result<(), String> {
    let sql = "INSERT INTO records (thread, seq, data) VALUES (?1, ?2, ?3)";
    let mut statement = connection.prepare_cached(sql).map_err(|e| e.to_string())?;
    for seq in (first..).take(APPENDS) {
        let number = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
        statement
            .execute((number(thread), number(seq), data))
            .map_err(|e| e.to_string())?;
    }
    Ok(())
}
