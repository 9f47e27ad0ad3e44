//! Haft threads in PostgreSQL, for many processes on many machines.
//!
//! [`PostgresStoreExtension`] brings the store `postgres` to a runtime;
//! [`PostgresStore::open`] opens one by hand. The README has the settings.
//!
//! ```no_run
//! use haft_api::{Durability, NewRecord, NewThread, ReadRange, ThreadId, ThreadStore};
//! use haft_ext_store_postgres::{PostgresConfig, PostgresStore};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> haft_api::Result<()> {
//! let store = PostgresStore::open(PostgresConfig::default().url_env("MY_DATABASE")).await?;
//! let id = ThreadId::new("my-thread")?;
//! let mut writer = store.create(NewThread::new(id.clone())).await?;
//! writer.append(vec![NewRecord::new("note", &"hello")?], Durability::Barrier).await?;
//! writer.close().await?;
//!
//! let page = store.read(&id, ReadRange::ALL).await?;
//! assert_eq!(page.records[1].data.get(), r#""hello""#);
//! # Ok(())
//! # }
//! ```
//!
//! # In the database
//! A schema with three tables. `threads` has a row per thread: metadata, the next
//! record's number, and the writer's lease. `records` has a row per record:
//! number, time (the server's clock), kind, data and a CRC-32C of number, kind
//! and data. Data are of type `text`: what was appended is read back byte for
//! byte, unknown kinds included. `migrations` says which form the tables have and
//! which programs can work with it; a program that can't is refused when it opens
//! the store. A record may have 16 MiB and be nested 100 levels deep, as in the
//! store `jsonl`, so that threads can move.
//!
//! The first record is a `header`; a fork's own part begins with one as well. A
//! fork has no copy of its parent's records but a reference to it. So a thread
//! that has forks can't be deleted before them: [`Denied`], naming them.
//!
//! # One writer
//! A thread's row names the holder of its lease, an epoch, and a time. Taking the
//! lease raises the epoch and is possible if nobody holds it or its time is over;
//! else it is [`Busy`], with `holder` and `since`. A living holder renews the
//! time three times in a lease's length and at each append. A holder that died
//! loses its threads when the time is over; one that closes or drops its writer
//! gives them back at once.
//!
//! The time is never trusted with more than that. Each append names its epoch in
//! the statement that writes it, and changes the same row that taking the lease
//! changes: of a late writer and its successor one waits for the other, looks
//! again, and finds out. The late one's append fails as [`Unavailable`] and its
//! writer is closed.
//!
//! # When the connection breaks off
//! Nobody knows then whether the statement arrived. The writer raises its own
//! epoch through another connection, so that what may still be on its way comes
//! too late, and reads whether the row has moved: the group is there, and the
//! append succeeds; or it isn't and never will be, and it is written anew. A
//! server that is started again within `timeout_seconds` so costs nobody a turn.
//! If the server stays away, the append fails with "the outcome is unknown", and
//! the writer takes no more: opening the thread again shows what is there. What
//! was acknowledged is there in any case.
//!
//! # Durability
//! [`DurabilityPolicy`] says which appends wait until the server has written them
//! to its disk. A wish to wait never lowers the server's own setting of
//! `synchronous_commit` (`remote_apply`, say) and raises it if that is `off`.
//! What isn't waited for survives the end of this process, but a crash of the
//! *server* may cost the last moments of it, always from some record on, never a
//! hole. The writer notices at its next append, names the records that are lost,
//! and closes. A failed write to the server's disk makes the server itself stop
//! and recover; to the store it is a crash.
//!
//! # Other nodes
//! At the end of a turn (see [`NotifyPolicy`]) a connection of its own sends a
//! `NOTIFY` on the channel `<schema>_threads`, outside the transaction that
//! wrote, with the payload `{"thread":"…","seq":41}`: the last record's number.
//! [`PostgresStore::watch`] hears it, on whatever node; anybody can by `LISTEN`.
//!
//! # Reading and listing
//! Readers take no lock and wait for nobody. A page has at most 4096 records and,
//! unless one record is larger, about 8 MiB. A row that doesn't fit its checksum
//! is passed over and reported ([`ChecksumMismatch`]), one without is taken at its
//! word ([`Unverified`]), missing ones are a [`Gap`]. The list is read by an
//! index in the order of the last change.
//!
//! # Threads and processes
//! The store's work is done on a thread of its own: a busy caller doesn't keep
//! leases from being renewed, and a call whose future is dropped ends as it
//! would have.
//!
//! [`Denied`]: haft_api::ErrorKind::Denied
//! [`Unavailable`]: haft_api::ErrorKind::Unavailable
//! [`Busy`]: haft_api::ErrorKind::Busy
//! [`ChecksumMismatch`]: haft_api::DiagnosticCode::ChecksumMismatch
//! [`Unverified`]: haft_api::DiagnosticCode::Unverified
//! [`Gap`]: haft_api::DiagnosticCode::Gap
#![forbid(unsafe_code)]

mod chain;
mod config;
mod create;
mod database;
mod extension;
mod failure;
mod lease;
mod list;
mod log;
mod metadata;
mod migrate;
mod notify;
mod read;
mod record;
mod store;
mod tls;
mod watch;
mod worker;
mod writer;

pub use config::{DurabilityPolicy, NotifyPolicy, PostgresConfig};
pub use extension::PostgresStoreExtension;
pub use store::PostgresStore;
pub use watch::{Watch, WatchEvent};
