//! Records on their way into a thread's log.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use haft_api::{
    Durability, Item, NewRecord, NewThread, Part, ThreadId, ThreadStore, ThreadWriter, ToolResult,
};
use haft_bench::{Pair, Result, Sample};
use haft_ext_store_jsonl::{DurabilityPolicy, JsonlConfig, JsonlStore};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::agent;

/// The appends of a sample.
const APPENDS: u32 = 2000;
/// The same where each waits for the disk.
const DURABLE_APPENDS: u32 = 50;

/// One record, handed to the operating system.
pub(crate) fn single() -> Result<Pair> {
    pair(1, Durability::Buffered, APPENDS)
}

/// A group of ten records.
pub(crate) fn batch() -> Result<Pair> {
    pair(10, Durability::Buffered, APPENDS)
}

/// One record that is on the disk when the append returns.
pub(crate) fn durable() -> Result<Pair> {
    pair(1, Durability::Barrier, DURABLE_APPENDS)
}

/// Appends to a thread beside writes of the same bytes to a file. Both files
/// are new in each sample, lest one is larger than the other.
fn pair(records: usize, durability: Durability, appends: u32) -> Result<Pair> {
    let home = tempfile::tempdir()?;
    let tokio = agent::one_thread()?;
    let config = JsonlConfig::default().durability(DurabilityPolicy::Barriers);
    let store = JsonlStore::open(home.path(), config)?;
    let group = vec![record()?; records];
    let bytes = bytes_of(&tokio, &store, home.path(), &group)?;
    let floor_file = home.path().join("floor");
    let mut samples = 0;
    Ok(Pair::of_samples(
        move || {
            samples += 1;
            let writer = create(&tokio, &store, &format!("sample-{samples}"))?;
            // Making the records is the caller's work.
            let groups: Vec<_> = (0..appends).map(|_| group.clone()).collect();
            let mut appended = None;
            let sample = Sample::take(appends, || {
                let all = tokio.spawn(append_all(writer, groups, durability));
                appended = Some(tokio.block_on(all)??);
                Ok(())
            });
            drop(appended);
            sample
        },
        move || {
            let _home = &home;
            let mut file = create_file(&floor_file)?;
            Sample::take(appends, || {
                for _ in 0..appends {
                    file.write_all(&bytes)?;
                    if durability == Durability::Barrier {
                        file.sync_data()?;
                    }
                }
                Ok(())
            })
        },
    ))
}

async fn append_all(
    mut writer: Box<dyn ThreadWriter>,
    groups: Vec<Vec<NewRecord>>,
    durability: Durability,
) -> haft_api::Result<Box<dyn ThreadWriter>> {
    for group in groups {
        writer.append(group, durability).await?;
    }
    Ok(writer)
}

fn create(tokio: &Runtime, store: &JsonlStore, id: &str) -> Result<Box<dyn ThreadWriter>> {
    let new = NewThread::new(ThreadId::new(id)?);
    Ok(tokio.block_on(store.create(new))?)
}

fn create_file(path: &Path) -> Result<File> {
    // A new one each time: the old one's blocks would be there already.
    if path.exists() {
        std::fs::remove_file(path)?;
    }
    Ok(OpenOptions::new()
        .append(true)
        .create_new(true)
        .open(path)?)
}

/// A record as the runtime writes them, of middling length.
pub(crate) fn record() -> Result<NewRecord> {
    let item = Item::ToolResult(ToolResult {
        call_id: haft_api::CallId::new("call_1")?,
        name: "read_line".to_owned(),
        is_error: false,
        parts: vec![Part::text("let token = self.tokens.next()?;\n".repeat(12))],
    });
    let turn = "019a0c4e-7d52-7cc3-98c4-dc0c0c07398f";
    Ok(NewRecord::new(
        "item",
        &json!({ "e": 1042, "turn": turn, "item": item }),
    )?)
}

/// What the store writes for a group.
fn bytes_of(
    tokio: &Runtime,
    store: &JsonlStore,
    home: &Path,
    group: &[NewRecord],
) -> Result<Vec<u8>> {
    let mut writer = create(tokio, store, "sample-0")?;
    let log = log_of(home, "sample-0")?;
    let header = std::fs::read(&log)?.len();
    tokio.block_on(writer.append(group.to_vec(), Durability::Buffered))?;
    Ok(std::fs::read(&log)?.split_off(header))
}

/// The file of a thread's log.
pub(crate) fn log_of(home: &Path, id: &str) -> Result<PathBuf> {
    for bucket in std::fs::read_dir(home.join("threads"))? {
        let log = bucket?.path().join(id).join("log.jsonl");
        if log.exists() {
            return Ok(log);
        }
    }
    Err(format!("the thread {id} has no log below {}", home.display()).into())
}
