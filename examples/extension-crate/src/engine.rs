//! An engine.

use haft_api::{
    EngineEvent, EngineRequest, EngineStream, ExtensionId, FinishReason, InferenceEngine, Item,
    ModelInfo, Result, Usage, async_trait, engine_stream, join_text,
};

/// Says what the user said last, word by word.
pub(crate) struct Parrot {
    id: ExtensionId,
}

impl Parrot {
    pub(crate) fn new() -> Result<Self> {
        let id = ExtensionId::new("parrot")?;
        Ok(Self { id })
    }
}

#[async_trait]
impl InferenceEngine for Parrot {
    fn id(&self) -> &ExtensionId {
        &self.id
    }

    async fn models(&self) -> Result<Vec<ModelInfo>> {
        let mut model = ModelInfo::new("parrot");
        model.tools = false;
        Ok(vec![model])
    }

    async fn stream_turn(&self, request: EngineRequest) -> Result<EngineStream> {
        let said = request.history.items().iter().rev().find_map(|item| {
            let Item::UserMessage { parts } = &**item else {
                return None;
            };
            Some(join_text(parts))
        });
        let said = said.unwrap_or_else(|| "?".to_owned());
        let words = said
            .split_inclusive(' ')
            .map(|word| EngineEvent::TextDelta {
                text: word.to_owned(),
            });
        let mut events: Vec<_> = words.collect();
        let usage = Usage {
            output: Some(events.len() as u64),
            ..Usage::default()
        };
        events.push(EngineEvent::Usage(usage));
        events.push(EngineEvent::Finished {
            reason: FinishReason::End,
        });
        Ok(engine_stream(events))
    }
}
