//! Prints what the store costs on this machine, beside what the bare operation
//! costs: `cargo run --release -p haft-ext-store-jsonl --example measure`. Words
//! after `--` choose what: `append`, `barrier`, `load`, `list`, `idle`.
#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use haft_api::{
    Durability, Item, ListThreads, MetadataPatch, NewRecord, NewThread, ReadRange, Result,
    ThreadId, ThreadStore, ThreadWriter,
};
use haft_ext_store_jsonl::{DurabilityPolicy, JsonlConfig, JsonlStore};
use serde::Deserialize;

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir_in(".").expect("a folder to measure in");
    let home = folder.path();
    let chosen: Vec<_> = std::env::args().skip(1).collect();
    let is_chosen = |name: &str| chosen.is_empty() || chosen.iter().any(|chosen| chosen == name);
    if is_chosen("append") {
        appends(home).await?;
    }
    if is_chosen("barrier") {
        barriers(home).await?;
        side_by_side(home).await?;
    }
    if is_chosen("load") {
        load(home).await?;
    }
    if is_chosen("list") {
        listing(home).await?;
    }
    if is_chosen("idle") {
        idle(home).await?;
    }
    Ok(())
}

fn store(home: &Path, name: &str, durability: DurabilityPolicy) -> Result<JsonlStore> {
    JsonlStore::open(
        home.join(name),
        JsonlConfig::default().durability(durability),
    )
}

fn id(text: &str) -> Result<ThreadId> {
    ThreadId::new(text)
}

/// The best of some runs of ours and of the bare thing, in turn: what is
/// measured is the code, not the neighbours.
async fn best_of_each(
    mut ours: impl AsyncFnMut() -> Result<Duration>,
    mut bare: impl FnMut() -> Duration,
) -> Result<(Duration, Duration)> {
    let (mut best, mut best_bare) = (Duration::MAX, Duration::MAX);
    for _ in 0..11 {
        best = best.min(ours().await?);
        best_bare = best_bare.min(bare());
    }
    Ok((best, best_bare))
}

async fn best(ours: impl AsyncFnMut() -> Result<Duration>) -> Result<Duration> {
    Ok(best_of_each(ours, || Duration::ZERO).await?.0)
}

fn show(what: &str, ours: Duration, count: u32, bare: Duration, with: &str) {
    let each = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(count);
    let ratio = ours.as_secs_f64() / bare.as_secs_f64();
    println!(
        "{what:<44} {:>10.2} µs  {:>10.2} µs  {ratio:>6.2} × {with}",
        each(ours),
        each(bare)
    );
}

/// A record whose line is 300 bytes long.
fn record() -> Result<NewRecord> {
    NewRecord::new("item", &"x".repeat(300 - 65))
}

async fn appends(home: &Path) -> Result<()> {
    const COUNT: u32 = 20_000;
    let store = store(home, "appends", DurabilityPolicy::Os)?;
    for (group, name) in [(1, "one"), (10, "ten")] {
        let mut writer = store.create(NewThread::new(id(name)?)).await?;
        writer.append(vec![record()?], Durability::Buffered).await?;
        let groups: Vec<Vec<_>> = (0..COUNT)
            .map(|_| (0..group).map(|_| record()).collect())
            .collect::<Result<_>>()?;
        let mut file = bare_file(&home.join(format!("bare-{name}")));
        let line = vec![b'x'; 300 * group];
        let (ours, bare) = best_of_each(
            async || {
                let groups = groups.clone();
                let started = Instant::now();
                for group in groups {
                    writer.append(group, Durability::Buffered).await?;
                }
                Ok(started.elapsed())
            },
            || {
                let started = Instant::now();
                for _ in 0..COUNT {
                    file.write_all(black_box(&line)).expect("a bare write");
                }
                started.elapsed()
            },
        )
        .await?;
        let what = format!("append of {group} × 300 bytes, buffered");
        show(&what, ours, COUNT, bare, "a bare write");
        drop(writer);
        store.delete(&id(name)?).await?;
    }
    Ok(())
}

fn bare_file(path: &Path) -> File {
    File::options()
        .create(true)
        .append(true)
        .open(path)
        .expect("a bare file")
}

async fn barriers(home: &Path) -> Result<()> {
    const COUNT: u32 = 100;
    let store = store(home, "barriers", DurabilityPolicy::Barriers)?;
    let mut writer = store.create(NewThread::new(id("t")?)).await?;
    let mut file = bare_file(&home.join("bare-barrier"));
    let (ours, bare) = best_of_each(
        async || {
            let started = Instant::now();
            for _ in 0..COUNT {
                writer.append(vec![record()?], Durability::Barrier).await?;
            }
            Ok(started.elapsed())
        },
        || {
            let started = Instant::now();
            for _ in 0..COUNT {
                file.write_all(&[b'x'; 300]).expect("a bare write");
                file.sync_data().expect("a bare barrier");
            }
            started.elapsed()
        },
    )
    .await?;
    show(
        "append of 300 bytes, barrier",
        ours,
        COUNT,
        bare,
        "write + fdatasync",
    );
    Ok(())
}

async fn side_by_side(home: &Path) -> Result<()> {
    const THREADS: usize = 64;
    const COUNT: usize = 50;
    let store = store(home, "many", DurabilityPolicy::Barriers)?;
    let mut writers = Vec::new();
    for number in 0..THREADS {
        writers.push(
            store
                .create(NewThread::new(id(&format!("t{number}"))?))
                .await?,
        );
    }
    let started = Instant::now();
    let tasks: Vec<_> = writers
        .into_iter()
        .map(|mut writer| {
            tokio::spawn(async move {
                for _ in 0..COUNT {
                    writer.append(vec![record()?], Durability::Barrier).await?;
                }
                Ok::<_, haft_api::Error>(())
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic")?;
    }
    let rate = (THREADS * COUNT) as f64 / started.elapsed().as_secs_f64();
    println!("64 threads, a barrier each time: {rate:.0} records/s");
    Ok(())
}

/// What the runtime makes of a record's data.
#[derive(Deserialize)]
struct Data {
    item: Item,
}

/// The whole of a line, for parsing it without the store.
#[derive(Deserialize)]
struct Line {
    d: Data,
}

async fn load(home: &Path) -> Result<()> {
    const COUNT: u32 = 100_000;
    let store = store(home, "load", DurabilityPolicy::Os)?;
    let thread = id("t")?;
    let mut writer = store.create(NewThread::new(thread.clone())).await?;
    for number in 0..COUNT / 10 {
        let group = (0..10)
            .map(|at| item(number * 10 + at))
            .collect::<Result<_>>()?;
        writer.append(group, Durability::Buffered).await?;
    }
    writer
        .patch_metadata(MetadataPatch::default().title("long"))
        .await?;
    writer.close().await?;
    let log = find_log(&home.join("load/threads"));
    let size = fs::metadata(&log).expect("the log").len();
    println!("a log of {COUNT} items, {:.1} MB", size as f64 / 1e6);

    let (ours, bare) = best_of_each(
        async || {
            let started = Instant::now();
            let mut seq = 0;
            loop {
                let range = ReadRange::Forward { seq, limit: None };
                let page = store.read(&thread, range).await?;
                for record in page.records.iter().filter(|record| record.kind == "item") {
                    black_box(record.parse::<Data>()?.item);
                }
                match page.next {
                    Some(next) => seq = next,
                    None => return Ok(started.elapsed()),
                }
            }
        },
        || {
            let started = Instant::now();
            let text = fs::read(&log).expect("the log");
            for line in text
                .split(|byte| *byte == b'\n')
                .filter(|line| line.len() > 1)
            {
                if let Ok(line) = serde_json::from_slice::<Line>(line) {
                    black_box(line.d.item);
                }
            }
            started.elapsed()
        },
    )
    .await?;
    show(
        "typed load of 100,000 items",
        ours,
        1,
        bare,
        "serde_json on the same lines",
    );
    let verify = best(async || {
        let started = Instant::now();
        assert!(store.check(&thread).await?.is_empty());
        Ok(started.elapsed())
    })
    .await?;
    show("check", verify, 1, bare, "the same");

    let resume = best(async || {
        let started = Instant::now();
        let writer = store.open_writer(&thread).await?;
        let range = ReadRange::Backward {
            before: None,
            limit: 50,
        };
        assert_eq!(store.read(&thread, range).await?.records.len(), 50);
        let took = started.elapsed();
        drop(writer);
        Ok(took)
    })
    .await?;
    let metadata = best(async || {
        let started = Instant::now();
        assert_eq!(
            store.metadata(&thread).await?.title.as_deref(),
            Some("long")
        );
        Ok(started.elapsed())
    })
    .await?;
    println!("writer and last 50 of it: {resume:.2?}; metadata: {metadata:.2?}");
    Ok(())
}

fn item(number: u32) -> Result<NewRecord> {
    let text = format!("line {number}\twith \"quotes\" and some more text in it\n").repeat(14);
    let item = match number % 3 {
        0 => Item::assistant(text),
        1 => Item::user(text),
        _ => serde_json::from_value(serde_json::json!({
            "type": "tool_call", "id": format!("c{number}"), "name": "edit",
            "arguments": { "path": "src/lib.rs", "text": text },
        }))
        .expect("an item"),
    };
    NewRecord::new(
        "item",
        &serde_json::json!({ "e": number, "turn": "t1", "item": item }),
    )
}

fn find_log(threads: &Path) -> PathBuf {
    let buckets = fs::read_dir(threads).expect("the threads");
    let logs = buckets.map(|bucket| bucket.expect("a bucket").path().join("t/log.jsonl"));
    logs.into_iter().find(|log| log.exists()).expect("the log")
}

async fn listing(home: &Path) -> Result<()> {
    const COUNT: u32 = 10_000;
    let first = store(home, "list", DurabilityPolicy::Os)?;
    let started = Instant::now();
    for number in 0..COUNT {
        let mut new = NewThread::new(id(&format!("0199c0de-0000-7000-8000-{number:012}"))?);
        new.metadata = MetadataPatch::default().title(format!("the thread number {number}"));
        first.create(new).await?.close().await?;
    }
    println!("create: {:.0?} each", started.elapsed() / COUNT);
    // The folders must have settled, as they have for a user.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let newest = async |store: &JsonlStore| {
        let started = Instant::now();
        let page = store.list(ListThreads::default().limit(50)).await?;
        assert_eq!(page.threads.len(), 50);
        Ok(started.elapsed())
    };
    let cold = best(async || newest(&store(home, "list", DurabilityPolicy::Os)?).await).await?;
    let warm = best(async || newest(&first).await).await?;
    fs::remove_file(home.join("list/threads/index.jsonl")).expect("the index");
    let rebuilt = newest(&store(home, "list", DurabilityPolicy::Os)?).await?;
    println!(
        "newest 50 of 10,000: {warm:.2?}; by a process that just started: {cold:.2?}; with the \
         index gone: {rebuilt:.2?}"
    );
    Ok(())
}

async fn idle(home: &Path) -> Result<()> {
    const COUNT: usize = 400;
    let store = store(home, "idle", DurabilityPolicy::Os)?;
    let mut writers: Vec<Box<dyn ThreadWriter>> = Vec::new();
    let before = resident();
    for number in 0..COUNT {
        let mut writer = store
            .create(NewThread::new(id(&format!("t{number}"))?))
            .await?;
        writer.append(vec![record()?], Durability::Buffered).await?;
        writers.push(writer);
    }
    let each = resident().saturating_sub(before) as f64 / COUNT as f64 / 1024.0;
    println!("an idle open thread: {each:.1} KB");
    Ok(())
}

/// The process's memory in bytes, where the system says it.
fn resident() -> usize {
    let pages = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = pages
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or(0) * 4096
}
