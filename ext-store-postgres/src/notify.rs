//! Tells other nodes of threads that went on.
//!
//! `NOTIFY` takes a lock that all notifying transactions of a database share
//! until they are committed. So it is never part of an append: a connection of
//! its own does it afterwards, for all threads of which there is something to
//! tell by then, and doesn't wait for the disk.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haft_api::{Error, ErrorKind, Result, ThreadId};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio_postgres::Client;

use crate::database::Database;
use crate::failure::explain;

/// How long to wait before a server that couldn't be reached is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// How long a writer that lets go waits for what is to be told.
const FLUSH: Duration = Duration::from_millis(500);

/// What other nodes are told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Notice {
    pub(crate) thread: ThreadId,
    /// The last record's number.
    pub(crate) seq: u64,
}

/// Takes what is to be told.
pub(crate) struct Notifier {
    database: Arc<Database>,
    /// The last number by thread: what is newer stands in for what is older.
    pending: Mutex<BTreeMap<ThreadId, u64>>,
    wake: Notify,
    connection: tokio::sync::Mutex<Option<Client>>,
}

impl Notifier {
    pub(crate) fn new(database: Arc<Database>) -> Self {
        Self {
            database,
            pending: Mutex::default(),
            wake: Notify::new(),
            connection: tokio::sync::Mutex::default(),
        }
    }

    /// Tells of a thread soon.
    pub(crate) fn tell(&self, thread: &ThreadId, seq: u64) {
        self.pending().insert(thread.clone(), seq);
        self.wake.notify_one();
    }

    /// Waits a little until everything was told. What wasn't is no loss that
    /// matters: whoever watches looks at the store itself.
    pub(crate) async fn flush(&self) {
        tokio::time::timeout(FLUSH, self.send()).await.ok();
    }

    /// Tells what there is to tell, for ever.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            self.wake.notified().await;
            while self.send().await.is_err() {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Sends all that is waiting.
    async fn send(&self) -> Result<()> {
        let mut connection = self.connection.lock().await;
        loop {
            let notices = std::mem::take(&mut *self.pending());
            if notices.is_empty() {
                return Ok(());
            }
            if let Err(error) = self.send_these(&mut connection, &notices).await {
                *connection = None;
                let mut pending = self.pending();
                for (thread, seq) in notices {
                    pending.entry(thread).or_insert(seq);
                }
                return Err(error);
            }
        }
    }

    async fn send_these(
        &self,
        connection: &mut Option<Client>,
        notices: &BTreeMap<ThreadId, u64>,
    ) -> Result<()> {
        let client = match connection {
            Some(client) if !client.is_closed() => client,
            _ => connection.insert(self.connect().await?),
        };
        let payloads: Vec<_> = notices
            .iter()
            .filter_map(|(thread, seq)| {
                let notice = Notice {
                    thread: thread.clone(),
                    seq: *seq,
                };
                serde_json::to_string(&notice).ok()
            })
            .collect();
        let channel = self.database.channel();
        let sending = async {
            let sql = "WITH quick AS (SELECT set_config('synchronous_commit', 'off', true))
                       SELECT pg_notify($1, payload) FROM unnest($2::text[]) payload, quick";
            client.query(sql, &[&channel, &payloads]).await
        };
        match tokio::time::timeout(self.database.timeout(), sending).await {
            Ok(sent) => sent.map(|_| ()).map_err(explain),
            Err(_) => {
                let text = "the database gave no answer to NOTIFY";
                Err(Error::new(ErrorKind::Unavailable, text))
            }
        }
    }

    async fn connect(&self) -> Result<Client> {
        let (config, tls) = self.database.connect_by();
        let (client, connection) = config.connect(tls).await.map_err(explain)?;
        // It ends with the client, or with the server; the next use notices.
        tokio::spawn(async move { connection.await.ok() });
        Ok(client)
    }

    fn pending(&self) -> MutexGuard<'_, BTreeMap<ThreadId, u64>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
