//! Haft threads as append-only, checksummed JSON lines on disk.
//!
//! The store for one machine. One folder per thread; its log is the only truth,
//! and plain text that `jq`, `grep` and `tail -f` work on. After a crash, a full
//! disk, two processes or a careless edit, everything that was acknowledged is
//! there, what was lost is named, and the thread goes on.
//!
//! [`JsonlStoreExtension`] brings the store `jsonl` to a runtime;
//! [`JsonlStore::open`] opens one by hand.
//!
//! ```
//! use haft_api::{Durability, NewRecord, NewThread, ReadRange, ThreadId, ThreadStore};
//! use haft_ext_store_jsonl::{JsonlConfig, JsonlStore};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> haft_api::Result<()> {
//! # let home = tempfile::tempdir().unwrap();
//! let store = JsonlStore::open(home.path(), JsonlConfig::default())?;
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
//! # On disk
//! ```text
//! <home>/threads/<2 hex>/<id>/log.jsonl    the log
//!                             lock         held by the thread's writer
//!                             blobs/       payloads of 32 KiB and more, by their hash
//!                             torn/        what crashes left at the log's end
//! <home>/threads/index.jsonl, index.lock   a cache for listing
//! <home>/threads/family.lock               forks against deletions
//! ```
//! The two digits are the highest byte of the id's CRC-32C: ids tend to begin
//! with the time, so their own beginning would put all threads in one folder.
//! Files have mode 0600 and folders 0700 whatever the umask; a writer tightens
//! looser ones and says so ([`LoosePermissions`]). The home itself, if it
//! exists, keeps its mode. Everything is opened relative to a folder's handle,
//! and no symbolic link is followed below the home.
//!
//! # A record
//! ```text
//! {"s":41,"t":1760000000123,"k":"item","d":{…},"c":"1a2b3c4d"}
//! ```
//! `s` is the number, `t` the time in milliseconds since the Unix epoch (for
//! information, never an order), `k` the kind, `d` the data, kept as text. `c`
//! is the CRC-32C of all bytes before `,"c":`, in eight lower-case digits,
//! compared as bytes. It is there against accidents: every flipped bit, every
//! torn or mixed-up write is noticed. It is no protection against somebody who
//! means to forge a record; permissions are. What it vouches for isn't parsed
//! again before it is handed out. A line without `c` is read and
//! reported as [`Unverified`], so that a log can be mended by hand. Data are kept
//! byte for byte, but for line breaks between their tokens, each of which
//! becomes a space. A line is at most 16 MiB long and its data nested at most
//! 100 levels deep; more is [`InvalidInput`] to a writer and damage to a reader.
//!
//! # Large payloads
//! A string of 32 KiB or more in a record's data (an image, a long output) stands
//! in a file of the folder `blobs`, named by the SHA-256 of its JSON text, and
//! the record has a reference in its place: `"blob:sha256-…"`, at the places
//! that the line's field `b` lists, each with the payload's length. So it is kept
//! once however often it is said, a line can be looked through, and what looks
//! for the end of a log isn't held up by pictures. The file is whole, and durable
//! unless the policy is `os`, before the line that names it is written. Readers
//! put it back byte for byte; one that is gone or isn't what its name says is
//! reported, and its reference is what is read. Forks read their parent's. A
//! payload whose line was never written, because of a full disk or a crash, is
//! removed: at once, or before the first append of the thread's next writer,
//! unless the log has damage that may be mended by hand.
//!
//! The store writes four kinds of its own, which take numbers like any other:
//! - `header`, a log's first record: format, version, id, creator, parent;
//! - `metadata`, a change of the thread's metadata;
//! - `repair`, after a crash: what was torn and where it was put;
//! - `checkpoint`, about every 1,000 records or 1 MiB: the metadata so far, so
//!   that nobody has to read a long log from its beginning to know them.
//!
//! Any other kind is kept, whoever invents it. A log of a newer major version is
//! read as far as possible; a writer for it opens, and every append is
//! [`Denied`].
//!
//! # Forks
//! A fork's log begins where it leaves its parent: its header has the number
//! after the fork point. A reader sees one row of numbers from 0: the parent's
//! records up to the fork point, then the fork's own, of which the first is its
//! header. No record is copied. So a thread that has forks can't be deleted
//! before them: [`Denied`], naming them.
//!
//! # Writing
//! A group of records is one `write` at the log's end, after a look at whether
//! the log is still as the writer left it (its length; before a barrier also
//! whether it is still the file of that name); if somebody else wrote to it, the
//! writer closes. A write that fails or is cut short is taken back: the log is
//! cut to its last good byte, the caller gets [`Unavailable`], and the writer
//! stays usable, for the moment when there is space again. [`DurabilityPolicy`]
//! says when the store waits for the disk (`fdatasync`). If that fails, nobody
//! knows what is on the disk: what was appended last is taken back and the
//! writer takes no more; opening the thread again shows what is there.
//!
//! One writer at a time has a thread, across processes, by a lock that the
//! system frees whatever ends the process. A second one is told who has it:
//! [`Busy`], with `pid`, `host` and `since`. Readers are never held up.
//!
//! # Reading
//! What isn't a record is passed over, reported and left where it is; readers
//! change nothing. At the log's end it is a torn write, which the next writer's
//! first append copies to `torn/`, cuts off and puts on record. Of two records
//! of one number that are equal, one is dropped; of two that differ, the first
//! is kept and the other reported. A page or a look at the metadata reads what
//! it needs of a log from its end or by halves; only
//! [`check`](haft_api::ThreadStore::check), and a log whose numbers don't rise,
//! make it read all.
//!
//! # Listing
//! The index may be deleted, torn or out of date at any time. Which threads
//! there are is said by the folders; a thread's log is looked at again if its
//! length isn't the one in the index, for every thread that is shown and every
//! thread that a writer was at within the last minutes. So the list is right
//! after a crash as well.
//!
//! The file is appended to, and now and then written anew. It begins then with
//! what it knows of each of the 256 folders as of its last change (by inode and
//! the time that no program can set), and with the entries in the listing's
//! order. So a page costs a look at 256 folders, the entries up to its end, and
//! the threads that are shown; only folders that changed are read, and only if
//! something in the index is damaged all of them.
//!
//! [`LoosePermissions`]: haft_api::DiagnosticCode::LoosePermissions
//! [`Unverified`]: haft_api::DiagnosticCode::Unverified
//! [`InvalidInput`]: haft_api::ErrorKind::InvalidInput
//! [`Denied`]: haft_api::ErrorKind::Denied
//! [`Unavailable`]: haft_api::ErrorKind::Unavailable
//! [`Busy`]: haft_api::ErrorKind::Busy
#![forbid(unsafe_code)]

mod blobs;
mod blocking;
mod config;
mod create;
mod disk;
mod extension;
mod family;
#[cfg(all(test, target_os = "linux"))]
mod fault_tests;
mod frame;
mod index;
mod kinds;
mod layout;
mod lock;
mod log_file;
mod order;
mod page_start;
mod read;
mod repair;
mod resync;
mod reverse;
mod scan;
mod sound;
mod store;
mod survey;
mod tail;
mod thread_log;
mod unused;
mod walk;
mod writer;

pub use config::{DurabilityPolicy, JsonlConfig};
pub use extension::JsonlStoreExtension;
pub use store::JsonlStore;
