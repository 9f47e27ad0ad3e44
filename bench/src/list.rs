//! The list of threads.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use haft_api::{ListThreads, MetadataPatch, NewThread, ThreadId, ThreadStore};
use haft_bench::{Pair, Result, Sample};
use haft_ext_store_jsonl::{DurabilityPolicy, JsonlConfig, JsonlStore};
use serde::Deserialize;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::agent;

const THREADS: usize = 10_000;
const PAGE: usize = 50;

/// The newest threads in a store that was opened just now, as the command does
/// it; the floor reads the index alone and trusts it.
pub(crate) fn cold() -> Result<Pair> {
    let tokio = agent::one_thread()?;
    let home = Rc::new(fill(&tokio)?);
    let floor_home = Rc::clone(&home);
    Ok(Pair::of_samples(
        move || {
            Sample::take(1, || {
                let store = open(home.path())?;
                page(&tokio, &store)
            })
        },
        move || {
            Sample::take(1, || {
                read_index(&floor_home.path().join("threads/index.jsonl"))
            })
        },
    ))
}

/// The same in a store that has listed them before.
pub(crate) fn warm() -> Result<Pair> {
    let tokio = agent::one_thread()?;
    let home = Rc::new(fill(&tokio)?);
    let store = open(home.path())?;
    Ok(Pair::of_samples(
        move || Sample::take(1, || page(&tokio, &store)),
        move || Sample::take(1, || read_index(&home.path().join("threads/index.jsonl"))),
    ))
}

fn open(home: &Path) -> Result<JsonlStore> {
    let config = JsonlConfig::default().durability(DurabilityPolicy::Os);
    Ok(JsonlStore::open(home, config)?)
}

fn page(tokio: &Runtime, store: &JsonlStore) -> Result<()> {
    let store = store.clone();
    let list = async move { store.list(ListThreads::default().limit(PAGE)).await };
    let page = tokio.block_on(tokio.spawn(list))??;
    let first = page.threads.first().and_then(|thread| thread.title.clone());
    match (page.threads.len(), first) {
        (PAGE, Some(title)) if title == title_of(THREADS - 1) => Ok(()),
        (count, first) => Err(format!("{count} threads, the first is {first:?}").into()),
    }
}

fn title_of(number: usize) -> String {
    format!("Why does request {number} fail?")
}

fn fill(tokio: &Runtime) -> Result<TempDir> {
    let home = tempfile::tempdir()?;
    let store = open(home.path())?;
    let create = async {
        for number in 0..THREADS {
            let id = format!("019a0c4e-7d52-7cc3-98c4-{number:012x}");
            let mut new = NewThread::new(ThreadId::new(id)?);
            new.metadata = MetadataPatch::default().title(title_of(number));
            store.create(new).await?.close().await?;
        }
        Ok::<_, haft_api::Error>(())
    };
    tokio.block_on(create)?;
    Ok(home)
}

/// Reads the index's lines and sorts the threads.
fn read_index(index: &PathBuf) -> Result<()> {
    #[derive(Deserialize)]
    struct Line<'a> {
        #[serde(rename = "i")]
        id: &'a str,
        #[serde(rename = "u")]
        updated_ms: u64,
    }
    let text = std::fs::read_to_string(index)?;
    // Others are about folders.
    let lines = text.lines().filter(|line| line.starts_with("{\"i\":"));
    let lines = lines.map(serde_json::from_str::<Line<'_>>);
    let mut threads = lines.collect::<std::result::Result<Vec<_>, _>>()?;
    threads.sort_by(|a, b| (b.updated_ms, b.id).cmp(&(a.updated_ms, a.id)));
    threads.dedup_by(|a, b| a.id == b.id);
    threads.truncate(PAGE);
    match threads.len() {
        PAGE => Ok(()),
        count => Err(format!("{count} threads in the index").into()),
    }
}
