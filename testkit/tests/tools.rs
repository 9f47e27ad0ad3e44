//! The tool suite passes on honest tools.

use std::sync::Arc;

use haft_api::{Effects, ReadOptions, ToolOutput, WriteOptions};
use haft_testkit::{CountingTool, EchoTool, FnTool, MemoryRunner, SleepTool, ToolFixture, Tools};

#[derive(serde::Deserialize)]
struct File {
    path: String,
}

/// Reads a file of the workspace.
fn read() -> FnTool {
    let schema = r#"{"type":"object","required":["path"],
        "properties":{"path":{"type":"string","minLength":1}}}"#;
    let tool = FnTool::new("read", async |call, context| {
        let File { path } = call.parse()?;
        let file = context
            .workspace()?
            .read_file(&path, ReadOptions::default())
            .await;
        Ok(match file {
            Ok(file) => ToolOutput::text(String::from_utf8_lossy(&file.bytes)),
            Err(error) => ToolOutput::error(error.to_string()),
        })
    });
    tool.schema(schema).effects(Effects::READS)
}

/// Writes a file of the workspace.
fn touch() -> FnTool {
    let tool = FnTool::new("touch", async |call, context| {
        let File { path } = call.parse()?;
        let options = WriteOptions::default();
        context
            .workspace()?
            .write_file(&path, b"x".to_vec(), options)
            .await?;
        Ok(ToolOutput::default())
    });
    let schema = r#"{"type":"object","required":["path"],"properties":{"path":{"type":"string"}}}"#;
    tool.schema(schema).effects(Effects::WRITES)
}

haft_testkit::tool_conformance!(|| {
    let tools = Tools::new()
        .with(EchoTool::new("echo"))
        .with(CountingTool::new("count"))
        .with(SleepTool::new("sleep"))
        .with(read())
        .with(touch());
    ToolFixture::new(Arc::new(tools))
        .in_memory(|| MemoryRunner::new().file("a.txt", "hello"))
        .example("echo", r#"{"text":"hello"}"#)
        .example("count", "{}")
        .example("sleep", r#"{"ms":20}"#)
        .example("touch", r#"{"path":"b.txt"}"#)
        .example("read", r#"{"path":"a.txt"}"#)
        .example("read", r#"{"path":"b.txt"}"#)
});
