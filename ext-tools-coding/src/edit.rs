//! `edit`.

use haft_api::{
    Effects, Error, ErrorKind, FileData, ReadOptions, RemoteRunnerSession, Result, Tool, ToolCall,
    ToolContext, ToolName, ToolOutput, ToolSpec, WriteMode, WriteOptions, async_trait,
};
use serde::Deserialize;

use crate::contents::binary_type;
use crate::paths::relative;
use crate::told::tell;

mod nearest;
mod replace;

use replace::{Problem, replace};

/// The largest file that is edited.
const EDIT_BYTES: u64 = 16 * 1024 * 1024;
/// How often an edit is tried again because somebody else changed the file.
const ATTEMPTS: usize = 10;
/// Line numbers that are named in an answer.
const NAMED_LINES: usize = 20;

pub(crate) struct Edit(ToolSpec);

impl Edit {
    pub(crate) fn new() -> Result<Self> {
        let description = "Replaces text in a file of the workspace. `old` must be exactly what \
            the file holds, with its indentation but without the line numbers that `read_file` \
            shows, and must occur once: give enough of the lines around it, or set `all` to \
            replace it everywhere. Line ends, mode and byte order mark of the file stay as they \
            are.";
        let schema = r#"{"type":"object","required":["path","old","new"],"additionalProperties":false,"properties":{"path":{"type":"string","description":"The file, relative to the workspace or absolute."},"old":{"type":"string","minLength":1,"description":"The text to replace."},"new":{"type":"string","description":"What to put in its place; may be empty."},"all":{"type":"boolean","description":"Replace every occurrence. Default: false."}}}"#;
        let spec = ToolSpec::new(ToolName::new("edit")?, description).schema(schema)?;
        Ok(Self(spec.effects(Effects::WRITES)))
    }
}

#[derive(Deserialize)]
struct Arguments {
    path: String,
    old: String,
    new: String,
    #[serde(default)]
    all: bool,
}

#[async_trait]
impl Tool for Edit {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn execute(&self, call: ToolCall, context: ToolContext) -> Result<ToolOutput> {
        let arguments: Arguments = call.parse()?;
        tell(edit(&**context.workspace()?, &arguments).await)
    }
}

async fn edit(session: &dyn RemoteRunnerSession, arguments: &Arguments) -> Result<ToolOutput> {
    let path = relative(session.workspace(), &arguments.path);
    let mut conflict = None;
    for _ in 0..ATTEMPTS {
        let file = read_text(session, &path).await?;
        let replaced = match replace(&file.bytes, &arguments.old, &arguments.new, arguments.all) {
            Ok(replaced) => replaced,
            Err(problem) => {
                let mut text = explain(problem, &path, &file.bytes, &arguments.old);
                if conflict.is_some() {
                    text.push_str("\n[the file was changed by somebody else meanwhile]");
                }
                return Ok(ToolOutput::error(text));
            }
        };
        let options = WriteOptions::mode(WriteMode::IfVersion(file.metadata.version));
        match session.write_file(&path, replaced.bytes, options).await {
            Ok(_) => {
                let text = format!(
                    "replaced {} in {path}, line{} {}",
                    occurrences(replaced.lines.len()),
                    if replaced.lines.len() == 1 { "" } else { "s" },
                    name_lines(&replaced.lines),
                );
                return Ok(ToolOutput::text(text));
            }
            Err(e) if e.kind() == ErrorKind::Busy => conflict = Some(e),
            Err(e) => return Err(e),
        }
    }
    let error = Error::new(
        ErrorKind::Busy,
        format!(
            "the file kept being changed by somebody else, {ATTEMPTS} times; nothing was edited"
        ),
    )
    .context("path", &path);
    Err(match conflict {
        Some(conflict) => error.source(conflict),
        None => error,
    })
}

async fn read_text(session: &dyn RemoteRunnerSession, path: &str) -> Result<FileData> {
    let range = ReadOptions::range(0, EDIT_BYTES + 1);
    let file = session.read_file(path, range).await?;
    let refuse =
        |message: String| Err(Error::new(ErrorKind::InvalidInput, message).context("path", path));
    if file.bytes.len() as u64 > EDIT_BYTES {
        return refuse(format!(
            "the file is too large to be edited here, the limit is {EDIT_BYTES} bytes; use a \
             command such as `sed -i`"
        ));
    }
    if let Some(what) = binary_type(&file.bytes) {
        return refuse(format!(
            "this is a binary file, {what}; it can't be edited as text"
        ));
    }
    Ok(file)
}

fn occurrences(count: usize) -> String {
    match count {
        1 => "1 occurrence".to_owned(),
        count => format!("{count} occurrences"),
    }
}

fn name_lines(lines: &[usize]) -> String {
    let named: Vec<String> = lines
        .iter()
        .take(NAMED_LINES)
        .map(ToString::to_string)
        .collect();
    let more = lines.len().saturating_sub(NAMED_LINES);
    match more {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

fn explain(problem: Problem, path: &str, file: &[u8], old: &str) -> String {
    match problem {
        Problem::EmptyOld => {
            "`old` is empty: name the text to replace, or use write_file for a whole file"
                .to_owned()
        }
        Problem::NoChange => "`old` and `new` are the same: there is nothing to change".to_owned(),
        Problem::Ambiguous { lines } => format!(
            "`old` occurs {} times in {path}, in lines {}: give more of the lines around it, or \
             set `all`; nothing was changed",
            lines.len(),
            name_lines(&lines),
        ),
        Problem::NotFound => {
            let text = String::from_utf8_lossy(file);
            let mut answer = format!("`old` was not found in {path}; nothing was changed.");
            match nearest::nearest(&text, old) {
                None => answer.push_str(" Nothing in the file is like it: read the file first."),
                Some(near) => {
                    if near.only_space_differs {
                        answer.push_str(" Only spaces, tabs or empty lines differ.");
                    }
                    answer.push_str(" The nearest lines are:\n");
                    answer.push_str(&near.lines);
                }
            }
            answer
        }
    }
}
