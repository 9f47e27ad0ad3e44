//! A tool source: many tools behind one door.

use std::sync::Arc;

use haft_api::{
    BatchCall, BatchOutcomes, Effects, Error, ErrorKind, ExtensionId, Result, ToolCall, ToolName,
    ToolOutput, ToolSource, ToolSpec, async_trait,
};
use serde::Deserialize;

/// Converts between units: a tool for each pair.
pub(crate) struct Units {
    id: ExtensionId,
}

/// Name, description, and what one of the first unit is in the second.
const TOOLS: [(&str, &str, f64); 3] = [
    ("miles_to_km", "Miles in kilometres", 1.609_344),
    ("pounds_to_kg", "Pounds in kilograms", 0.453_592_37),
    ("inches_to_cm", "Inches in centimetres", 2.54),
];

#[derive(Deserialize)]
struct Arguments {
    value: f64,
}

impl Units {
    pub(crate) fn new() -> Result<Self> {
        let id = ExtensionId::new("units")?;
        Ok(Self { id })
    }
}

fn convert(call: &ToolCall) -> Result<ToolOutput> {
    let Some((.., factor)) = TOOLS.iter().find(|(name, ..)| *name == call.name) else {
        return Err(Error::new(ErrorKind::NotFound, "no such tool").context("tool", &call.name));
    };
    let Arguments { value } = call.parse()?;
    Ok(ToolOutput::text((value * factor).to_string()))
}

#[async_trait]
impl ToolSource for Units {
    fn id(&self) -> &ExtensionId {
        &self.id
    }

    async fn tools(&self) -> Result<Vec<ToolSpec>> {
        let schema = r#"{"type":"object","required":["value"],"additionalProperties":false,
            "properties":{"value":{"type":"number"}}}"#;
        let spec = |(name, description, _): &(&str, &str, f64)| {
            let spec = ToolSpec::new(ToolName::new(name)?, *description);
            Ok(spec.schema(schema)?.effects(Effects::PURE))
        };
        TOOLS.iter().map(spec).collect()
    }

    async fn call_batch(
        &self,
        calls: Vec<BatchCall>,
        outcomes: Arc<dyn BatchOutcomes>,
    ) -> Result<()> {
        for BatchCall { call, .. } in calls {
            outcomes.complete(&call.id, convert(&call));
        }
        Ok(())
    }
}
