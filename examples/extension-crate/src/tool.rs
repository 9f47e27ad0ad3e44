//! A tool.

use std::sync::Arc;

use haft_api::{
    Effects, Result, Tool, ToolCall, ToolContext, ToolContributor, ToolName, ToolOutput,
    ToolRegistry, ToolSpec, async_trait,
};
use serde::Deserialize;

/// Brings the tool.
pub(crate) struct Words;

impl ToolContributor for Words {
    fn contribute(&self, tools: &mut ToolRegistry) -> Result<()> {
        let schema = r#"{"type":"object","required":["text"],"additionalProperties":false,
            "properties":{"text":{"type":"string","description":"The text to count"}}}"#;
        let spec = ToolSpec::new(ToolName::new("word_count")?, "Counts the words of a text")
            .schema(schema)?
            .effects(Effects::PURE);
        tools.add(Arc::new(WordCount { spec }))
    }
}

struct WordCount {
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Arguments {
    text: String,
}

#[async_trait]
impl Tool for WordCount {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn execute(&self, call: ToolCall, _: ToolContext) -> Result<ToolOutput> {
        let Arguments { text } = call.parse()?;
        let words = text.split_whitespace().count();
        Ok(ToolOutput::text(format!("{words} words")))
    }
}
