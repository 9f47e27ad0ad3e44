//! How the model should go about it.

use haft_api::{EngineRequest, Error, ErrorKind, Item, Result, ToolChoice};
use serde_json::{Map, Value, json};

use super::{EncodeSettings, Head};
use crate::models::{Thinking, Traits};

/// The fewest tokens of thinking that the wire takes.
const LEAST_BUDGET: u64 = 1_024;

impl Head<'_, '_> {
    pub(super) fn options(&mut self, request: &EngineRequest, traits: Traits) -> Result<()> {
        let options = &request.options;
        let max_tokens = options
            .max_output_tokens
            .or(self.settings.max_tokens)
            .unwrap_or(traits.default_max_tokens());
        self.field("max_tokens", &max_tokens);
        if let Some(temperature) = options.temperature {
            if !temperature.is_finite() {
                return Err(Error::new(
                    ErrorKind::InvalidInput,
                    format!("a temperature of {temperature} can't be sent"),
                ));
            }
            self.field("temperature", &temperature);
        }
        if !options.stop.is_empty() {
            self.field("stop_sequences", &options.stop);
        }
        let mut output = Map::new();
        if let Some(effort) = &options.reasoning_effort {
            match traits.thinking {
                Thinking::Adaptive => {
                    // Words that this wire doesn't have are the nearest ones.
                    let effort = match effort.as_str() {
                        "none" | "minimal" => "low",
                        other => other,
                    };
                    output.insert("effort".to_owned(), Value::from(effort));
                    if may_think(request, self.settings) {
                        self.field(
                            "thinking",
                            &json!({ "type": "adaptive", "display": "summarized" }),
                        );
                    }
                }
                Thinking::Budget if may_think(request, self.settings) => {
                    if let Some(budget) = budget(effort, max_tokens) {
                        self.field(
                            "thinking",
                            &json!({ "type": "enabled", "budget_tokens": budget }),
                        );
                    }
                }
                Thinking::Budget | Thinking::Never => {}
            }
        }
        if let Some(wanted) = &request.output_schema {
            let format = json!({ "type": "json_schema", "schema": &**wanted });
            output.insert("format".to_owned(), format);
        }
        if !output.is_empty() {
            self.field("output_config", &output);
        }
        Ok(())
    }
}

/// The tokens of thinking that an effort is worth, within those of the answer.
fn budget(effort: &str, max_tokens: u64) -> Option<u64> {
    let wanted = match effort {
        "none" => return None,
        "minimal" => LEAST_BUDGET,
        "low" => 4_096,
        "medium" => 10_240,
        _ => 24_576,
    };
    let most = max_tokens.saturating_sub(LEAST_BUDGET);
    (most >= LEAST_BUDGET).then(|| wanted.min(most))
}

/// Whether thinking can be asked for. It can't where a tool has to be called,
/// nor within a round of calls that began without it, or elsewhere.
fn may_think(request: &EngineRequest, settings: &EncodeSettings) -> bool {
    if matches!(
        request.tool_choice,
        ToolChoice::Required | ToolChoice::Named(_)
    ) {
        return false;
    }
    let items = request.history.items().iter().rev();
    let mut seen = items.filter(|item| !matches!(***item, Item::Notice { .. }));
    let is_in_round = matches!(seen.next().map(|item| &**item), Some(Item::ToolResult(_)));
    let mut last_round = seen
        .skip_while(|item| matches!(***item, Item::ToolResult(_)))
        .take_while(|item| !matches!(***item, Item::UserMessage { .. } | Item::ToolResult(_)));
    // Thinking without a state of this server's is left out.
    !is_in_round
        || last_round.any(|item| {
            matches!(&**item, Item::Reasoning { state: Some(state), .. }
                if state.provider == settings.provider)
        })
}
