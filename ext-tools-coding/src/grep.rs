//! `grep`.

use futures::StreamExt as _;
use haft_api::{
    Effects, ErrorKind, FileKind, ReadOptions, RemoteRunnerSession, Result, Tool, ToolCall,
    ToolContext, ToolName, ToolOutput, ToolSpec, async_trait,
};
use serde::Deserialize;

use crate::glob::{PathPattern, beneath};
use crate::paths::relative;
use crate::told::tell;
use crate::walk::{Walk, WalkOptions};

mod search;

use search::{Matches, Searched};

/// The largest file that is searched.
const SEARCHED_BYTES: u64 = 8 * 1024 * 1024;
/// Files that are read at the same time.
const READ_AHEAD: usize = 8;
/// Matching lines that are shown where no number was named, and at most.
const LIMIT: usize = 200;
const MAX_LIMIT: usize = 2000;
/// Most lines shown before and after each match.
const MAX_CONTEXT: usize = 20;

pub(crate) struct Grep(ToolSpec);

impl Grep {
    pub(crate) fn new() -> Result<Self> {
        let description = "Searches the files of the workspace for a regular expression (Rust's \
            syntax, line by line). Each match is shown as `path:line:text`. What `.gitignore` \
            names, hidden and binary files are left out.";
        let schema = r#"{"type":"object","required":["pattern"],"additionalProperties":false,"properties":{"pattern":{"type":"string","minLength":1,"description":"The regular expression. Escape `.`, `(`, `[`, `{` and the like to take them literally."},"path":{"type":"string","description":"The folder or file to search. Default: the workspace."},"glob":{"type":"string","description":"Only files whose path matches, such as `*.rs` or `src/**/*.ts`."},"ignore_case":{"type":"boolean","description":"Take capitals and small letters as the same. Default: false."},"context":{"type":"integer","minimum":0,"maximum":20,"description":"Lines to show before and after each match. Default: 0."},"limit":{"type":"integer","minimum":1,"maximum":2000,"description":"The most matching lines to show. Default: 200."},"hidden":{"type":"boolean","description":"Also search files and folders whose names begin with a dot. Default: false."}}}"#;
        let spec = ToolSpec::new(ToolName::new("grep")?, description).schema(schema)?;
        Ok(Self(spec.effects(Effects::READS)))
    }
}

#[derive(Deserialize)]
struct Arguments {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    #[serde(default)]
    ignore_case: bool,
    #[serde(default)]
    context: usize,
    limit: Option<usize>,
    hidden: Option<bool>,
}

#[async_trait]
impl Tool for Grep {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn execute(&self, call: ToolCall, context: ToolContext) -> Result<ToolOutput> {
        let arguments: Arguments = call.parse()?;
        tell(grep(&**context.workspace()?, &arguments).await)
    }
}

async fn grep(session: &dyn RemoteRunnerSession, arguments: &Arguments) -> Result<ToolOutput> {
    let matcher = search::compile(&arguments.pattern, arguments.ignore_case)?;
    let context = arguments.context.min(MAX_CONTEXT);
    let limit = arguments.limit.unwrap_or(LIMIT).clamp(1, MAX_LIMIT);
    let base = relative(
        session.workspace(),
        arguments.path.as_deref().unwrap_or("."),
    );
    let candidates = Candidates::find(session, &base, arguments).await?;
    let (count, cut_short) = (candidates.paths.len(), candidates.cut_short);

    let mut matches = Matches::new(context, limit);
    let mut skipped = Skipped::default();
    let mut files = futures::stream::iter(candidates.paths)
        .map(|path| async move {
            let range = ReadOptions::range(0, SEARCHED_BYTES + 1);
            let file = session.read_file(&path, range).await;
            (path, file)
        })
        .buffered(READ_AHEAD);
    while let Some((path, file)) = files.next().await {
        match file {
            Ok(file) if file.bytes.len() as u64 > SEARCHED_BYTES => skipped.large.push(path),
            Ok(file) => match matches.search(&matcher, &path, &file.bytes)? {
                Searched::Whole => {}
                Searched::Binary => skipped.binary += 1,
                Searched::Enough => break,
            },
            // Gone or closed since it was listed.
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Denied) => {
                skipped.unreadable += 1;
            }
            Err(e) => return Err(e),
        }
    }
    drop(files);
    Ok(ToolOutput::text(report(
        matches, count, cut_short, &skipped,
    )))
}

/// The files to search.
struct Candidates {
    paths: Vec<String>,
    cut_short: bool,
}

impl Candidates {
    async fn find(
        session: &dyn RemoteRunnerSession,
        base: &str,
        arguments: &Arguments,
    ) -> Result<Self> {
        let pattern = arguments
            .glob
            .as_deref()
            .map(PathPattern::new)
            .transpose()?;
        let metadata = session.metadata(base).await?;
        if metadata.kind == FileKind::File {
            return Ok(Self {
                paths: vec![base.to_owned()],
                cut_short: false,
            });
        }
        let hidden = pattern.as_ref().is_some_and(PathPattern::has_hidden);
        let options = WalkOptions {
            hidden: arguments.hidden.unwrap_or(hidden),
            ..WalkOptions::default()
        };
        let mut walk = Walk::new(session, base, options).await?;
        let mut paths = Vec::new();
        while let Some(found) = walk.next().await? {
            let path = beneath(base, &found.path);
            let wanted = pattern.as_ref().is_none_or(|pattern| pattern.matches(path));
            if found.kind == FileKind::File && wanted {
                paths.push(found.path);
            }
        }
        Ok(Self {
            paths,
            cut_short: walk.cut_short,
        })
    }
}

#[derive(Default)]
struct Skipped {
    binary: usize,
    unreadable: usize,
    large: Vec<String>,
}

fn report(matches: Matches, files: usize, cut_short: bool, skipped: &Skipped) -> String {
    let cut = matches.is_cut();
    let shown = matches.shown();
    let mut text = matches.into_text();
    if shown == 0 {
        text.push_str(&format!("[no matches in {files} files]\n"));
    }
    if cut {
        text.push_str(&format!(
            "[only the first {shown} matching lines: use a narrower pattern, path or glob]\n"
        ));
    }
    if cut_short {
        text.push_str("[not all files were searched, there are too many: name a path]\n");
    }
    if skipped.binary > 0 && shown == 0 {
        text.push_str(&format!(
            "[{} binary files were left out]\n",
            skipped.binary
        ));
    }
    if skipped.unreadable > 0 {
        text.push_str(&format!(
            "[{} files could not be read]\n",
            skipped.unreadable
        ));
    }
    for path in skipped.large.iter().take(10) {
        text.push_str(&format!(
            "[{path} was left out: larger than {SEARCHED_BYTES} bytes]\n"
        ));
    }
    if skipped.large.len() > 10 {
        let more = skipped.large.len() - 10;
        text.push_str(&format!("[{more} more files were left out as too large]\n"));
    }
    text
}
