//! Threads on their way from the disk into memory.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

use haft_api::{
    EngineEvent, EngineRequest, EngineStream, EngineToolCall, ExtensionId, FinishReason,
    InferenceEngine, Item, ModelInfo, ThreadId, async_trait, engine_stream,
};
use haft_bench::{Pair, Result, Sample};
use haft_ext_store_jsonl::DurabilityPolicy;
use serde::Deserialize;

use crate::agent::{self, Agent, ReadLineTool};
use crate::append::log_of;

/// The items of the thread.
const ITEMS: usize = 100_000;
/// The rounds of each of its turns.
const ROUNDS_OF_TURN: usize = 100;

/// Opening a thread, beside reading the lines of its log as JSON of the same
/// types.
pub(crate) fn thread() -> Result<Pair> {
    let tokio = agent::one_thread()?;
    let engine = Rounds {
        id: ExtensionId::new("rounds")?,
        asked: AtomicUsize::new(0),
    };
    let agent = Agent::new(engine, ReadLineTool::new(|_| ())?, DurabilityPolicy::Os)?;
    let agent = Rc::new(agent);
    let (id, items) = tokio.block_on(fill(&agent))?;
    let log = log_of(agent.home(), id.as_str())?;
    let kept = Rc::clone(&agent);
    Ok(Pair::of_samples(
        move || {
            let mut open = None;
            let sample = Sample::take(1, || {
                let (runtime, id) = (agent.runtime.clone(), id.clone());
                let opened = tokio.spawn(async move { runtime.open_thread(&id).await });
                open = Some(tokio.block_on(opened)??);
                Ok(())
            })?;
            let thread = open.ok_or("the thread wasn't opened")?;
            let found = tokio.block_on(thread.items(None, usize::MAX)).items.len();
            check(found, items)?;
            Ok(sample)
        },
        move || {
            let _home = kept.home();
            let mut found = Vec::new();
            let sample = Sample::take(1, || {
                found = read(&log)?;
                Ok(())
            })?;
            check(found.len(), items)?;
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
