//! Many slow tools in one round.

use std::time::Duration;

use haft_api::{
    Effects, EngineEvent, EngineRequest, EngineStream, EngineToolCall, ExtensionId, FinishReason,
    InferenceEngine, Item, ModelInfo, Tool, ToolCall, ToolContext, ToolName, ToolOutput, ToolSpec,
    async_trait, engine_stream,
};
use haft_bench::{Pair, Result, Sample};
use haft_ext_store_jsonl::DurabilityPolicy;

use crate::agent::{self, Agent};

const CALLS: usize = 64;
const TIME: Duration = Duration::from_millis(50);

/// A turn of one round of calls, its records on the disk; the floor only waits.
pub(crate) fn tools() -> Result<Pair> {
    let tokio = agent::one_thread()?;
    let spec = ToolSpec::new(ToolName::new("wait")?, "Waits.").effects(Effects::PURE);
    let engine = CallsThenDone(ExtensionId::new("calls")?);
    let agent = Agent::new(engine, Wait(spec), DurabilityPolicy::Barriers)?;
    Ok(Pair::of_samples(
        move || {
            let thread = tokio.block_on(agent.thread())?;
            Sample::take(1, || {
                tokio.block_on(agent::turn(&thread, "any"))?;
                Ok(())
            })
        },
        || {
            Sample::take(1, || {
                std::thread::sleep(TIME);
                Ok(())
            })
        },
    ))
}

/// Asks for all calls at once, and has nothing more to say when they are there.
struct CallsThenDone(ExtensionId);

#[async_trait]
impl InferenceEngine for CallsThenDone {
    fn id(&self) -> &ExtensionId {
        &self.0
    }

    async fn models(&self) -> haft_api::Result<Vec<ModelInfo>> {
        Ok(vec![ModelInfo::new("any")])
    }

    async fn stream_turn(&self, request: EngineRequest) -> haft_api::Result<EngineStream> {
        let items = request.history.items();
        let results = items
            .iter()
            .filter(|item| matches!(&***item, Item::ToolResult(_)));
        let (mut events, reason) = match results.count() {
            0 => ((0..CALLS).map(call).collect(), FinishReason::ToolCalls),
            CALLS => (
                vec![EngineEvent::TextDelta {
                    text: "done".to_owned(),
                }],
                FinishReason::End,
            ),
            other => {
                let text = format!("{other} results instead of {CALLS}");
                return Err(haft_api::Error::new(haft_api::ErrorKind::Unexpected, text));
            }
        };
        events.push(EngineEvent::Finished { reason });
        Ok(engine_stream(events))
    }
}

fn call(number: usize) -> EngineEvent {
    EngineEvent::Call(EngineToolCall {
        id: Some(format!("call_{number}")),
        name: "wait".to_owned(),
        arguments: "{}".to_owned(),
        state: None,
    })
}

struct Wait(ToolSpec);

#[async_trait]
impl Tool for Wait {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn execute(&self, _: ToolCall, _: ToolContext) -> haft_api::Result<ToolOutput> {
        tokio::time::sleep(TIME).await;
        Ok(ToolOutput::text("waited"))
    }
}
