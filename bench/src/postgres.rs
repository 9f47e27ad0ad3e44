//! Records on their way into a database.

use std::sync::Arc;

use futures::future::try_join_all;
use haft_api::{Durability, NewThread, ThreadId, ThreadStore as _};
use haft_bench::{Pair, Result, Sample, Skipped};
use haft_ext_store_postgres::{PostgresConfig, PostgresStore};
use haft_testkit::PostgresServer;
use tokio::sync::Mutex;
use tokio_postgres::{Client, NoTls};

use crate::agent;
use crate::append::record;

/// Threads that are written to at the same time.
const THREADS: usize = 64;
/// The appends of each in a sample.
const APPENDS: usize = 10;
/// Connections, on both sides.
const CONNECTIONS: usize = 16;

/// Durable appends to 64 threads at once, beside bare inserts of the same data
/// by as many tasks over as many connections.
pub(crate) fn append() -> Result<Pair> {
    let server = PostgresServer::start(&[]).map_err(Skipped)?;
    let url = server.url();
    let tokio = Arc::new(agent::many_threads()?);
    let operations = u32::try_from(THREADS * APPENDS)?;
    let record = record()?;

    let (store, mut writers) = tokio.block_on(async {
        let config = PostgresConfig::default().url(&url).connections(CONNECTIONS);
        let store = PostgresStore::open(config).await?;
        let mut writers = Vec::new();
        for number in 0..THREADS {
            let id = ThreadId::new(format!("thread-{number}"))?;
            writers.push(store.create(NewThread::new(id)).await?);
        }
        Ok::<_, haft_api::Error>((store, writers))
    })?;
    let clients = tokio.block_on(connect(&url))?;

    let (floor_tokio, data) = (Arc::clone(&tokio), Arc::<str>::from(record.data.get()));
    let mut round = 0_i64;
    Ok(Pair::of_samples(
        move || {
            let (_server, _store) = (&server, &store);
            let tasks = std::mem::take(&mut writers).into_iter().map(|writer| {
                let groups = vec![vec![record.clone()]; APPENDS];
                (writer, groups)
            });
            let tasks: Vec<_> = tasks.collect();
            Sample::take(operations, || {
                let all = tasks.into_iter().map(|(mut writer, groups)| {
                    tokio.spawn(async move {
                        for group in groups {
                            writer.append(group, Durability::Barrier).await?;
                        }
                        Ok::<_, haft_api::Error>(writer)
                    })
                });
                for done in tokio.block_on(try_join_all(all))? {
                    writers.push(done?);
                }
                Ok(())
            })
        },
        move || {
            round += 1;
            Sample::take(operations, || {
                let all = (0..THREADS).map(|task| {
                    let (client, data) = (Arc::clone(&clients[task % CONNECTIONS]), data.clone());
                    let first = round * i64::try_from(APPENDS).unwrap_or(0);
                    let thread = i64::try_from(task).unwrap_or(0);
                    floor_tokio.spawn(async move {
                        for seq in (first..).take(APPENDS) {
                            let client = client.lock().await;
                            client
                                .0
                                .execute(&client.1, &[&thread, &seq, &&*data])
                                .await?;
                        }
                        Ok::<_, tokio_postgres::Error>(())
                    })
                });
                for done in floor_tokio.block_on(try_join_all(all))? {
                    done?;
                }
                Ok(())
            })
        },
    ))
}

type Prepared = (Client, tokio_postgres::Statement);

/// The floor's connections, each with its statement.
async fn connect(url: &str) -> Result<Vec<Arc<Mutex<Prepared>>>> {
    let mut clients = Vec::new();
    for number in 0..CONNECTIONS {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        if number == 0 {
            let sql = "CREATE TABLE floor (thread bigint, seq bigint, data text NOT NULL,
                                           PRIMARY KEY (thread, seq))";
            client.batch_execute(sql).await?;
        }
        let insert = "INSERT INTO floor (thread, seq, data) VALUES ($1, $2, $3)";
        let statement = client.prepare(insert).await?;
        clients.push(Arc::new(Mutex::new((client, statement))));
    }
    Ok(clients)
}
