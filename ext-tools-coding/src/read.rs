//! `read_file`.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use haft_api::{
    Effects, Error, ErrorKind, Part, ReadOptions, RemoteRunnerSession, Result, Tool, ToolCall,
    ToolContext, ToolName, ToolOutput, ToolSpec, async_trait,
};
use serde::Deserialize;

use crate::contents::{binary_type, image_type};
use crate::paths::relative;
use crate::told::tell;

mod page;

use page::Page;

/// Bytes asked of the session at a time.
const CHUNK_BYTES: u64 = 1024 * 1024;
/// Bytes that are looked through for the first line of a page.
const SCANNED_BYTES: u64 = 256 * 1024 * 1024;
/// The largest picture that is shown; more is refused by model providers.
const IMAGE_BYTES: u64 = 3_750_000;

pub(crate) struct ReadFile(ToolSpec);

impl ReadFile {
    pub(crate) fn new() -> Result<Self> {
        let description = "Reads a file of the workspace. Each line is shown with its number \
            and a tab before it. Long files come in pages: the last line of the result says how \
            to go on. Pictures (PNG, JPEG, GIF, WebP) are shown as such.";
        let schema = r#"{"type":"object","required":["path"],"additionalProperties":false,"properties":{"path":{"type":"string","description":"The file, relative to the workspace or absolute."},"offset":{"type":"integer","minimum":1,"description":"The first line to show, counted from 1. Default: 1."},"limit":{"type":"integer","minimum":1,"description":"The most lines to show. Default: 2000."}}}"#;
        let spec = ToolSpec::new(ToolName::new("read_file")?, description).schema(schema)?;
        Ok(Self(spec.effects(Effects::READS)))
    }
}

#[derive(Deserialize)]
struct Arguments {
    path: String,
    offset: Option<u64>,
    limit: Option<u64>,
}

#[async_trait]
impl Tool for ReadFile {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn execute(&self, call: ToolCall, context: ToolContext) -> Result<ToolOutput> {
        let arguments: Arguments = call.parse()?;
        tell(read(&**context.workspace()?, &arguments).await)
    }
}

async fn read(session: &dyn RemoteRunnerSession, arguments: &Arguments) -> Result<ToolOutput> {
    let path = relative(session.workspace(), &arguments.path);
    let first = session
        .read_file(&path, ReadOptions::range(0, CHUNK_BYTES))
        .await?;
    let size = first.metadata.size.max(first.bytes.len() as u64);
    if let Some(media_type) = image_type(&first.bytes) {
        return image(session, &path, media_type, size).await;
    }
    if let Some(what) = binary_type(&first.bytes) {
        let text = format!("[{path} is a binary file, {what}, of {size} bytes: not shown]");
        return Ok(ToolOutput::text(text));
    }
    let mut page = Page::new(arguments.offset, arguments.limit);
    let version = first.metadata.version;
    let mut changed = false;
    let mut position = first.bytes.len() as u64;
    page.feed(&first.bytes);
    while !page.is_full() && position < size {
        if position >= SCANNED_BYTES {
            return Err(too_far(size));
        }
        let range = ReadOptions::range(position, CHUNK_BYTES);
        let next = session.read_file(&path, range).await?;
        changed |= next.metadata.version != version;
        if next.bytes.is_empty() {
            break;
        }
        position += next.bytes.len() as u64;
        page.feed(&next.bytes);
    }
    let whole = position >= size;
    let text = page.finish(whole, size)?;
    Ok(ToolOutput::text(match changed {
        true => format!("{text}[the file changed while it was read]\n"),
        false => text,
    }))
}

fn too_far(size: u64) -> Error {
    Error::new(
        ErrorKind::InvalidInput,
        "the lines asked for lie further into the file than this tool looks; use a command such \
         as `tail -c` or `sed -n`",
    )
    .context("size", size)
    .context("limit", SCANNED_BYTES)
}

async fn image(
    session: &dyn RemoteRunnerSession,
    path: &str,
    media_type: &str,
    size: u64,
) -> Result<ToolOutput> {
    if size > IMAGE_BYTES {
        let text = format!(
            "[{path} is a picture ({media_type}) of {size} bytes: too large to be shown, the \
             limit is {IMAGE_BYTES}; scale it down first]"
        );
        return Ok(ToolOutput::text(text));
    }
    let whole = session.read_file(path, ReadOptions::default()).await?;
    let image = Part::Image {
        media_type: media_type.to_owned(),
        data: BASE64_STANDARD.encode(&whole.bytes),
    };
    let caption = format!("[{path}: {media_type}, {} bytes]", whole.bytes.len());
    Ok(ToolOutput::parts(vec![Part::text(caption), image]))
}
