//! `write_file`.

use haft_api::{
    Effects, ErrorKind, RemoteRunnerSession, Result, Tool, ToolCall, ToolContext, ToolName,
    ToolOutput, ToolSpec, WriteOptions, async_trait,
};
use serde::Deserialize;

use crate::paths::relative;
use crate::told::tell;

pub(crate) struct WriteFile(ToolSpec);

impl WriteFile {
    pub(crate) fn new() -> Result<Self> {
        let description = "Writes a whole file of the workspace: makes it, with the folders \
            above it, or replaces what it holds. To change a part of a file use `edit`.";
        let schema = r#"{"type":"object","required":["path","content"],"additionalProperties":false,"properties":{"path":{"type":"string","description":"The file, relative to the workspace or absolute."},"content":{"type":"string","description":"All that the file is to hold."}}}"#;
        let spec = ToolSpec::new(ToolName::new("write_file")?, description).schema(schema)?;
        Ok(Self(spec.effects(Effects::WRITES)))
    }
}

#[derive(Deserialize)]
struct Arguments {
    path: String,
    content: String,
}

#[async_trait]
impl Tool for WriteFile {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn execute(&self, call: ToolCall, context: ToolContext) -> Result<ToolOutput> {
        let arguments: Arguments = call.parse()?;
        tell(write(&**context.workspace()?, arguments).await)
    }
}

async fn write(session: &dyn RemoteRunnerSession, arguments: Arguments) -> Result<ToolOutput> {
    let path = relative(session.workspace(), &arguments.path);
    // Only for the words of the result; the write itself doesn't depend on it.
    let before = match session.metadata(&path).await {
        Ok(metadata) => Some(metadata),
        Err(e) if e.kind() == ErrorKind::NotFound => None,
        Err(e) => return Err(e),
    };
    let bytes = arguments.content.into_bytes();
    let (size, lines) = (bytes.len(), line_count(&bytes));
    let options = WriteOptions::default().create_parents();
    session.write_file(&path, bytes, options).await?;
    let what = match before {
        None => format!("created {path}"),
        Some(before) => format!("replaced {path}, which had {} bytes", before.size),
    };
    Ok(ToolOutput::text(format!(
        "{what}: {size} bytes, {lines} lines"
    )))
}

fn line_count(bytes: &[u8]) -> usize {
    let ends = memchr::memchr_iter(b'\n', bytes).count();
    ends + usize::from(bytes.last().is_some_and(|&last| last != b'\n'))
}
