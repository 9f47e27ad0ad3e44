//! Threads on their way from the disk into memory.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

use haft_api::{
    EngineEvent, EngineRequest, EngineStream, EngineToolCall, ExtensionId, FinishReason,
    InferenceEngine, Item, ModelInfo, ReadRange, ThreadId, ThreadStore as _, async_trait,
    engine_stream,
};
use haft_bench::{Pair, Result, Sample};
use haft_ext_store_jsonl::{DurabilityPolicy, JsonlConfig, JsonlStore};
use serde::Deserialize;
use tokio::runtime::Runtime;

use crate::agent::{self, Agent, ReadLineTool};
use crate::append::log_of;

/// The items of the thread.
const ITEMS: usize = 100_000;
/// The rounds of each of its turns.
const ROUNDS_OF_TURN: usize = 100;

/// The records that are shown first when a thread is continued.
const LAST: usize = 50;

/// A runtime with one long thread.
struct Long {
    tokio: Runtime,
    agent: Agent,
    id: ThreadId,
    items: usize,
    log: PathBuf,
}

impl Long {
    fn new() -> Result<Rc<Self>> {
        let tokio = agent::one_thread()?;
        let engine = Rounds {
            id: ExtensionId::new("rounds")?,
            asked: AtomicUsize::new(0),
        };
        let agent = Agent::new(engine, ReadLineTool::new(|_| ())?, DurabilityPolicy::Os)?;
        let (id, items) = tokio.block_on(fill(&agent))?;
        let log = log_of(agent.home(), id.as_str())?;
        Ok(Rc::new(Self {
            tokio,
            agent,
            id,
            items,
            log,
        }))
    }

    fn store(&self) -> Result<JsonlStore> {
        let config = JsonlConfig::default().durability(DurabilityPolicy::Os);
        Ok(JsonlStore::open(self.agent.home(), config)?)
    }
}

/// Checking a thread, beside reading its lines as JSON of the same types.
pub(crate) fn check_thread() -> Result<Pair> {
    let long = Long::new()?;
    let same = Rc::clone(&long);
    let store = long.store()?;
    Ok(Pair::of_samples(
        move || {
            Sample::take(1, || {
                let (store, id) = (store.clone(), long.id.clone());
                let checked = long.tokio.spawn(async move { store.check(&id).await });
                match long.tokio.block_on(checked)??.as_slice() {
                    [] => Ok(()),
                    found => Err(format!("something is amiss: {found:?}").into()),
                }
            })
        },
        move || {
            let mut found = Vec::new();
            let sample = Sample::take(1, || {
                found = read(&same.log)?;
                Ok(())
            })?;
            check(found.len(), same.items)?;
            Ok(sample)
        },
    ))
}

/// Taking a thread's writer and its last records, beside reading the end of its
/// log and these records' lines.
pub(crate) fn resume() -> Result<Pair> {
    let long = Long::new()?;
    let same = Rc::clone(&long);
    let store = long.store()?;
    Ok(Pair::of_samples(
        move || {
            let mut writer = None;
            let sample = Sample::take(1, || {
                let (store, id) = (store.clone(), long.id.clone());
                let resumed = long.tokio.spawn(async move {
                    let writer = store.open_writer(&id).await?;
                    let last = ReadRange::Backward {
                        before: None,
                        limit: LAST,
                    };
                    Ok::<_, haft_api::Error>((writer, store.read(&id, last).await?))
                });
                let (held, page) = long.tokio.block_on(resumed)??;
                writer = Some(held);
                check(page.records.len(), LAST)
            })?;
            if let Some(writer) = writer {
                long.tokio.block_on(writer.close())?;
            }
            Ok(sample)
        },
        move || Sample::take(1, || check(read_last(&same.log)?, LAST)),
    ))
}

/// Reads the last records' lines, and says how many there were.
fn read_last(log: &Path) -> Result<usize> {
    #[derive(Deserialize)]
    struct AnyLine<'a> {
        #[serde(rename = "d", borrow)]
        _data: &'a serde_json::value::RawValue,
    }
    const END: u64 = 64 * 1024;
    let mut file = File::open(log)?;
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(END)))?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let lines = text.rsplit(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty()).take(LAST);
    let read = lines.map(serde_json::from_slice::<AnyLine<'_>>);
    Ok(read.collect::<std::result::Result<Vec<_>, _>>()?.len())
}

/// Opening a thread, beside reading the lines of its log as JSON of the same
/// types.
pub(crate) fn thread() -> Result<Pair> {
    let long = Long::new()?;
    let same = Rc::clone(&long);
    Ok(Pair::of_samples(
        move || {
            let Long { tokio, items, .. } = &*long;
            let mut open = None;
            let sample = Sample::take(1, || {
                let (runtime, id) = (long.agent.runtime.clone(), long.id.clone());
                let opened = tokio.spawn(async move { runtime.open_thread(&id).await });
                open = Some(tokio.block_on(opened)??);
                Ok(())
            })?;
            let thread = open.ok_or("the thread wasn't opened")?;
            let found = tokio.block_on(thread.items(None, usize::MAX)).items.len();
            check(found, *items)?;
            Ok(sample)
        },
        move || {
            let mut found = Vec::new();
            let sample = Sample::take(1, || {
                found = read(&same.log)?;
                Ok(())
            })?;
            check(found.len(), same.items)?;
            Ok(sample)
        },
    ))
}

fn check(found: usize, written: usize) -> Result<()> {
    match found == written {
        true => Ok(()),
        false => Err(format!("{found} items were read of {written} that were written").into()),
    }
}

/// Makes the thread, and says how many items it has.
async fn fill(agent: &Agent) -> Result<(ThreadId, usize)> {
    let thread = agent.thread().await?;
    let mut items = 0;
    while items < ITEMS {
        agent::turn(&thread, "any").await?;
        // The user's message; text, call and result of each round; the answer.
        items += 1 + 3 * ROUNDS_OF_TURN + 1;
    }
    Ok((thread.id().clone(), items))
}

/// What stands in a line, as far as the floor cares.
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "s")]
    _seq: u64,
    #[serde(rename = "t")]
    _time_ms: u64,
    #[serde(rename = "k")]
    _kind: String,
    #[serde(rename = "d")]
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    #[serde(rename = "e")]
    _event: Option<u64>,
    #[serde(rename = "turn")]
    _turn: Option<String>,
    item: Option<Item>,
}

fn read(log: &PathBuf) -> Result<Vec<Item>> {
    let text = std::fs::read(log)?;
    let mut items = Vec::new();
    let mut at = 0;
    while let Some(end) = memchr::memchr(b'\n', &text[at..]) {
        let line: Line = serde_json::from_slice(&text[at..at + end])?;
        items.extend(line.data.item);
        at += end + 1;
    }
    Ok(items)
}

/// Says something and calls the tool, again and again.
struct Rounds {
    id: ExtensionId,
    asked: AtomicUsize,
}

#[async_trait]
impl InferenceEngine for Rounds {
    fn id(&self) -> &ExtensionId {
        &self.id
    }

    async fn models(&self) -> haft_api::Result<Vec<ModelInfo>> {
        Ok(vec![ModelInfo::new("any")])
    }

    async fn stream_turn(&self, request: EngineRequest) -> haft_api::Result<EngineStream> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let text = format!(
            "Line {number} looks harmless, but the \"depth\" that it counts is never taken back; \
             I'll read on to see where the expression ends.\n"
        );
        let mut events = vec![EngineEvent::TextDelta { text }];
        let last = request.round as usize == ROUNDS_OF_TURN;
        if !last {
            events.push(EngineEvent::Call(EngineToolCall {
                id: Some(format!("call_{number}")),
                name: agent::TOOL.to_owned(),
                arguments: format!("{{\"path\":\"src/parser.rs\",\"line\":{number}}}"),
                state: None,
            }));
        }
        let reason = if last {
            FinishReason::End
        } else {
            FinishReason::ToolCalls
        };
        events.push(EngineEvent::Finished { reason });
        Ok(engine_stream(events))
    }
}
