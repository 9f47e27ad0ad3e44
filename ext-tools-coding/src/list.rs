//! `list_files`.

use haft_api::{
    Effects, FileKind, RemoteRunnerSession, Result, Tool, ToolCall, ToolContext, ToolName,
    ToolOutput, ToolSpec, async_trait,
};
use serde::Deserialize;

use crate::paths::{PAGE_BYTES, relative};
use crate::told::tell;
use crate::walk::{Walk, WalkOptions};

/// Most folders deep.
const MAX_DEPTH: usize = 20;

pub(crate) struct ListFiles(ToolSpec);

impl ListFiles {
    pub(crate) fn new() -> Result<Self> {
        let description = "Lists a folder of the workspace, hidden names too. Folders end in \
            `/`, links in `@`. With a depth of more than 1 it goes into folders, except those \
            that `.gitignore` names and `.git`. To find files by name use `glob`.";
        let schema = r#"{"type":"object","additionalProperties":false,"properties":{"path":{"type":"string","description":"The folder, relative to the workspace or absolute. Default: the workspace."},"depth":{"type":"integer","minimum":1,"maximum":20,"description":"How many folders deep. Default: 1."}}}"#;
        let spec = ToolSpec::new(ToolName::new("list_files")?, description).schema(schema)?;
        Ok(Self(spec.effects(Effects::READS)))
    }
}

#[derive(Deserialize)]
struct Arguments {
    path: Option<String>,
    depth: Option<usize>,
}

#[async_trait]
impl Tool for ListFiles {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn execute(&self, call: ToolCall, context: ToolContext) -> Result<ToolOutput> {
        let arguments: Arguments = call.parse()?;
        tell(list(&**context.workspace()?, &arguments).await)
    }
}

async fn list(session: &dyn RemoteRunnerSession, arguments: &Arguments) -> Result<ToolOutput> {
    let path = relative(
        session.workspace(),
        arguments.path.as_deref().unwrap_or("."),
    );
    let options = WalkOptions {
        hidden: true,
        ignored: true,
        depth: arguments.depth.unwrap_or(1).clamp(1, MAX_DEPTH),
        ..WalkOptions::default()
    };
    let mut walk = Walk::new(session, &path, options).await?;
    let mut text = String::new();
    let mut more = 0;
    while let Some(found) = walk.next().await? {
        if text.len() >= PAGE_BYTES {
            more += 1;
            continue;
        }
        text.push_str(&found.path);
        text.push_str(match found.kind {
            FileKind::Dir if found.ignored => "/ (ignored)",
            FileKind::Dir => "/",
            FileKind::Symlink => "@",
            FileKind::File | FileKind::Other => "",
        });
        text.push('\n');
    }
    if text.is_empty() {
        text.push_str("[the folder is empty]\n");
    }
    if more > 0 {
        text.push_str(&format!(
            "[{more} more entries: list a folder further down, or with less depth]\n"
        ));
    }
    for folder in &walk.unreadable {
        text.push_str(&format!("[{folder} can't be read]\n"));
    }
    Ok(ToolOutput::text(text))
}
