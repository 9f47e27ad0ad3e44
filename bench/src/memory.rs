//! What threads of a store hold in memory, each time in a process of its own:
//! the bench's own program, started again with [`ARGUMENT`].

use std::fs::File;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use haft_api::{
    Durability, NewRecord, NewThread, ReadRange, ThreadId, ThreadStore as _, ThreadWriter,
};
use haft_bench::{Pair, Result, Sample};
use haft_ext_store_jsonl::{DurabilityPolicy, JsonlConfig, JsonlStore};

use crate::{agent, skills};

/// The argument that makes the bench's program one that holds something.
pub(crate) const ARGUMENT: &str = "hold";

/// The idle threads.
const IDLE: u32 = 1_000;
/// The records of the long thread, of about 300 bytes each.
const LONG: usize = 100_000;
/// How many of them are read at its end.
const LAST: usize = 50;

/// An idle thread with an open writer, beside a file that is open.
pub(crate) fn idle() -> Result<Pair> {
    Ok(Pair::of_samples(
        || held(&["idle"], IDLE),
        || held(&["files"], IDLE),
    ))
}

/// A long thread's writer and its last records, beside the bytes of its log's
/// end.
pub(crate) fn resumed() -> Result<Pair> {
    let home = tempfile::tempdir()?;
    fill(home.path())?;
    let path = home.path().display().to_string();
    let same = path.clone();
    Ok(Pair::of_samples(
        move || {
            let _home = &home;
            held(&["resumed", &path], 1)
        },
        move || held(&["end", &same], 1),
    ))
}

/// A skill that runs and isn't called, beside a bare engine.
pub(crate) fn skills() -> Result<Pair> {
    Ok(Pair::of_samples(
        || held(&["skills"], skills::RESIDENT),
        || held(&["engines"], skills::RESIDENT),
    ))
}

/// Starts a process that holds so many of something, and asks what each is to
/// its memory and, if it tells, how long that took.
fn held(arguments: &[&str], count: u32) -> Result<Sample> {
    let start = Instant::now();
    let mut command = Command::new(std::env::current_exe()?);
    let output = command.arg(ARGUMENT).args(arguments).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?} failed: {said}").into());
    }
    let told = String::from_utf8(output.stdout)?;
    let mut told = told.split_whitespace();
    let bytes: u64 = told.next().ok_or("no figure")?.parse()?;
    let took = told.next().map(str::parse).transpose()?;
    Ok(Sample {
        operations: count,
        cpu: Duration::ZERO,
        wall: took.map_or_else(|| start.elapsed(), Duration::from_nanos),
        peak_memory: Some(bytes / u64::from(count)),
    })
}

fn open(home: &Path) -> Result<JsonlStore> {
    let config = JsonlConfig::default().durability(DurabilityPolicy::Os);
    Ok(JsonlStore::open(home, config)?)
}

fn long_id() -> Result<ThreadId> {
    Ok(ThreadId::new("long")?)
}

fn record() -> Result<NewRecord> {
    Ok(NewRecord::new("item", &"x".repeat(235))?)
}

fn fill(home: &Path) -> Result<()> {
    let store = open(home)?;
    agent::one_thread()?.block_on(async {
        let mut writer = store.create(NewThread::new(long_id()?)).await?;
        for _ in 0..LONG / 100 {
            let group = vec![record()?; 100];
            writer.append(group, Durability::Buffered).await?;
        }
        writer.close().await?;
        Ok(())
    })
}

/// Holds what the arguments say, and prints how much memory that took.
pub(crate) fn main() -> ExitCode {
    match hold() {
        Ok(Held { bytes, took }) => {
            let took = took.map(|took| took.as_nanos().to_string());
            println!("{bytes} {}", took.unwrap_or_default());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn hold() -> Result<Held> {
    let mut arguments = std::env::args().skip(2);
    let what = arguments.next().ok_or("nothing to hold")?;
    let home = arguments.next();
    let home = || home.as_deref().map(Path::new).ok_or("no home");
    let bytes = match &*what {
        "idle" => idle_threads(),
        "files" => files(),
        "resumed" => last_of_long(home()?),
        "end" => end_of_long(home()?),
        "skills" => return skills::resident(),
        "engines" => return skills::engines(),
        other => return Err(format!("nobody knows how to hold `{other}`").into()),
    }?;
    Ok(Held { bytes, took: None })
}

/// What something holds, and how long it took to get there if that counts.
pub(crate) struct Held {
    pub(crate) bytes: u64,
    pub(crate) took: Option<Duration>,
}

/// What one more of something took, once the first of them is there: it brings
/// what all of them share.
pub(crate) fn growth<T>(
    first: Vec<T>,
    rest: impl FnOnce(&mut Vec<T>) -> Result<()>,
) -> Result<u64> {
    let mut all = first;
    let before = resident()?;
    rest(&mut all)?;
    let after = resident()?;
    drop(all);
    Ok(after.saturating_sub(before))
}

fn idle_threads() -> Result<u64> {
    let home = tempfile::tempdir()?;
    let store = open(home.path())?;
    let tokio = agent::one_thread()?;
    let begin = |number: u32| -> Result<Box<dyn ThreadWriter>> {
        let group = vec![record()?];
        let id = ThreadId::new(format!("t{number}"))?;
        Ok(tokio.block_on(async {
            let mut writer = store.create(NewThread::new(id)).await?;
            writer.append(group, Durability::Buffered).await?;
            Ok::<_, haft_api::Error>(writer)
        })?)
    };
    growth(vec![begin(0)?], |writers| {
        for number in 1..=IDLE {
            writers.push(begin(number)?);
        }
        Ok(())
    })
}

fn files() -> Result<u64> {
    let home = tempfile::tempdir()?;
    let begin = |number: u32| File::create_new(home.path().join(number.to_string()));
    growth(vec![begin(0)?], |files| {
        for number in 1..=IDLE {
            files.push(begin(number)?);
        }
        Ok(())
    })
}

fn last_of_long(home: &Path) -> Result<u64> {
    let tokio = agent::one_thread()?;
    growth(Vec::new(), |held| {
        let store = open(home)?;
        let last = ReadRange::Backward {
            before: None,
            limit: LAST,
        };
        let (id, again) = (long_id()?, store.clone());
        held.push(tokio.block_on(async move {
            let writer = store.open_writer(&id).await?;
            let page = store.read(&id, last).await?;
            Ok::<_, haft_api::Error>((again, writer, page))
        })?);
        match held.iter().all(|(_, _, page)| page.records.len() == LAST) {
            true => Ok(()),
            false => Err("not all of the last records were read".into()),
        }
    })
}

fn end_of_long(home: &Path) -> Result<u64> {
    let log = crate::append::log_of(home, long_id()?.as_str())?;
    growth(Vec::new(), |held| {
        let size = std::fs::metadata(&log)?.len();
        let mut end = vec![0; 64 * 1024];
        let from = size.saturating_sub(end.len() as u64);
        let file = File::open(&log)?;
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut end, from)?;
        held.push((file, end));
        Ok(())
    })
}

/// A figure of this process's memory in bytes, by its name in `/proc/self/status`:
/// `VmRSS` is what it holds, `VmHWM` the most it ever held.
pub(crate) fn of_this_process(name: &str) -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kibibytes = value.and_then(|value| value.trim().strip_suffix(" kB"));
    let kibibytes = kibibytes.ok_or_else(|| format!("no {name} is told"))?;
    Ok(kibibytes.parse::<u64>()? * 1024)
}

/// This process's memory in bytes, as Linux tells it.
fn resident() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages = text.split(' ').nth(1).ok_or("no resident size")?;
    let page = rustix::param::page_size() as u64;
    Ok(pages.parse::<u64>()? * page)
}
