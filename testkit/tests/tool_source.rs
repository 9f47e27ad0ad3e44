//! The tool source suite passes on an honest source.

use std::sync::Arc;
use std::time::Duration;

use haft_api::{Effects, Error, ErrorKind, ToolName, ToolOutput, ToolSpec};
use haft_testkit::{BatchSource, Outcome, SourceFixture};

#[derive(serde::Deserialize)]
struct Add {
    a: f64,
    b: f64,
}

haft_testkit::tool_source_conformance!(|| {
    let schema = r#"{"type":"object","required":["a","b"],
        "properties":{"a":{"type":"number"},"b":{"type":"number"}}}"#;
    let spec = ToolSpec::new(ToolName::new("add").unwrap(), "Adds two numbers.");
    let spec = spec.schema(schema).unwrap().effects(Effects::PURE);
    let add = Outcome::function(async |call, _| {
        let Add { a, b } = call.parse()?;
        Ok(ToolOutput::text((a + b).to_string()))
    });
    let source = BatchSource::new("arithmetic")
        .tool_with(spec, add)
        .tool("pi", Outcome::text("3.14").after(Duration::from_millis(5)))
        .tool(
            "divide",
            Outcome::error(&Error::new(ErrorKind::InvalidInput, "by zero")),
        )
        .tool("prove", Outcome::Stalled);
    SourceFixture::new(Arc::new(source))
        .example("add", r#"{"a":1,"b":2}"#)
        .example("pi", "{}")
        .failing("divide", "{}")
        .slow("prove", "{}")
});
