//! Hearing of what other nodes do.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use haft_api::{Error, ErrorKind, Result, ThreadId};
use tokio::sync::mpsc;
use tokio_postgres::AsyncMessage;

use crate::database::Database;
use crate::failure::explain;
use crate::notify::Notice;

/// How long to wait before a server that couldn't be reached is tried again.
const PAUSE: Duration = Duration::from_millis(500);
/// Events that wait for a slow listener; then it is told that it missed some.
const WAITING: usize = 1024;

/// What a [`Watch`] tells.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchEvent {
    /// A thread went on: its last record has this number, or a later one.
    Changed {
        /// The thread.
        thread: ThreadId,
        /// The last record's number when this was sent.
        last_seq: u64,
    },
    /// Something may have been missed: the connection was broken off and is
    /// there again, or the listener was too slow. Look at the store.
    Missed,
}

/// Hears of threads that went on, on any node, this one included; from
/// [`PostgresStore::watch`](crate::PostgresStore::watch).
///
/// How much is told is settled by the writers'
/// [`NotifyPolicy`](crate::NotifyPolicy). It is a hint to look, not a log: what
/// counts is what the store says.
#[derive(Debug)]
pub struct Watch {
    events: mpsc::Receiver<WatchEvent>,
}

impl Watch {
    /// The next event; waits for it. May be dropped half-way without loss.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] once the store and all its handles are gone.
    pub async fn next(&mut self) -> Result<WatchEvent> {
        self.events.recv().await.ok_or_else(|| {
            let text = "the store was closed, and nothing more can be heard of it";
            Error::new(ErrorKind::Unavailable, text).permanent()
        })
    }
}

/// Listens; the watch is given once that is so.
pub(crate) async fn start(database: Arc<Database>) -> Result<Watch> {
    let mut listener = Listener::connect(&database).await?;
    let (send, events) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = send.closed() => return,
                () = forward(&mut listener, &send) => {}
            }
            listener = loop {
                tokio::select! {
                    () = send.closed() => return,
                    () = tokio::time::sleep(PAUSE) => {}
                }
                if let Ok(listener) = Listener::connect(&database).await {
                    break listener;
                }
            };
            if send.send(WatchEvent::Missed).await.is_err() {
                return;
            }
        }
    });
    Ok(Watch { events })
}

/// Passes on what is heard until the connection breaks off.
async fn forward(listener: &mut Listener, send: &mpsc::Sender<WatchEvent>) {
    let mut missed = false;
    while let Some(notice) = listener.hear().await {
        let event = WatchEvent::Changed {
            thread: notice.thread,
            last_seq: notice.seq,
        };
        missed = match missed {
            // In its place, what it stands for comes again or is looked up.
            true => send.try_send(WatchEvent::Missed).is_err(),
            false => send.try_send(event).is_err(),
        };
    }
}

/// A connection that listens.
struct Listener {
    /// Ends the connection when it is dropped.
    _client: tokio_postgres::Client,
    messages: mpsc::UnboundedReceiver<Notice>,
}

impl Listener {
    async fn connect(database: &Database) -> Result<Self> {
        let (config, tls) = database.connect_by();
        let (client, mut connection) = config.connect(tls).await.map_err(explain)?;
        let (send, messages) = mpsc::unbounded_channel();
        let channel = database.channel();
        let only = channel.clone();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                let AsyncMessage::Notification(notification) = message else {
                    continue;
                };
                // Anybody may notify; what doesn't read as a notice isn't one.
                if notification.channel() == only
                    && let Ok(notice) = serde_json::from_str(notification.payload())
                    && send.send(notice).is_err()
                {
                    return;
                }
            }
        });
        let sql = format!("LISTEN {channel}");
        let listening = client.batch_execute(&sql);
        match tokio::time::timeout(database.timeout(), listening).await {
            Ok(listening) => listening.map_err(explain)?,
            Err(_) => {
                let text = "the database gave no answer to LISTEN";
                return Err(Error::new(ErrorKind::Unavailable, text));
            }
        }
        Ok(Self {
            _client: client,
            messages,
        })
    }

    /// The next notice; none if the connection has ended.
    async fn hear(&mut self) -> Option<Notice> {
        self.messages.recv().await
    }
}
