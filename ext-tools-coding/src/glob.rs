//! `glob`.

use globset::{GlobBuilder, GlobMatcher};
use haft_api::{
    Effects, Error, ErrorKind, FileKind, RemoteRunnerSession, Result, Tool, ToolCall, ToolContext,
    ToolName, ToolOutput, ToolSpec, async_trait,
};
use serde::Deserialize;

use crate::paths::{PAGE_BYTES, relative};
use crate::told::tell;
use crate::walk::{Walk, WalkOptions};

pub(crate) struct Glob(ToolSpec);

impl Glob {
    pub(crate) fn new() -> Result<Self> {
        let description = "Finds files of the workspace by name, such as `**/*.rs`, \
            `src/{a,b}/*.ts` or (without `/`: at any depth) `Cargo.toml`. A pattern that ends in \
            `/` finds folders. What `.gitignore` names is left out, as are hidden files unless \
            asked for. The result is sorted.";
        let schema = r#"{"type":"object","required":["pattern"],"additionalProperties":false,"properties":{"pattern":{"type":"string","minLength":1,"description":"The pattern: `*` and `?` within a name, `**` across folders, `{a,b}`, `[a-z]`."},"path":{"type":"string","description":"The folder to search, from which the pattern starts. Default: the workspace."},"hidden":{"type":"boolean","description":"Also find names that begin with a dot. Default: false, unless the pattern has such a name."}}}"#;
        let spec = ToolSpec::new(ToolName::new("glob")?, description).schema(schema)?;
        Ok(Self(spec.effects(Effects::READS)))
    }
}

#[derive(Deserialize)]
struct Arguments {
    pattern: String,
    path: Option<String>,
    hidden: Option<bool>,
}

#[async_trait]
impl Tool for Glob {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn execute(&self, call: ToolCall, context: ToolContext) -> Result<ToolOutput> {
        let arguments: Arguments = call.parse()?;
        tell(glob(&**context.workspace()?, &arguments).await)
    }
}

async fn glob(session: &dyn RemoteRunnerSession, arguments: &Arguments) -> Result<ToolOutput> {
    let base = relative(
        session.workspace(),
        arguments.path.as_deref().unwrap_or("."),
    );
    let written = match arguments.path {
        Some(_) => arguments.pattern.clone(),
        // An absolute pattern within the workspace.
        None => strip_workspace(session.workspace(), &arguments.pattern),
    };
    let (pattern, folders) = match written.strip_suffix('/') {
        Some(pattern) => (pattern, true),
        None => (written.as_str(), false),
    };
    let pattern = PathPattern::new(pattern)?;
    let options = WalkOptions {
        hidden: arguments.hidden.unwrap_or_else(|| pattern.has_hidden()),
        ..WalkOptions::default()
    };
    let mut walk = Walk::new(session, &base, options).await?;
    let mut found = Vec::new();
    while let Some(entry) = walk.next().await? {
        let wanted = (entry.kind == FileKind::Dir) == folders;
        if wanted && pattern.matches(beneath(&base, &entry.path)) {
            found.push(entry.path);
        }
    }
    found.sort();
    let mut text = String::new();
    let mut shown = 0;
    for path in &found {
        if text.len() + path.len() >= PAGE_BYTES {
            break;
        }
        text.push_str(path);
        text.push_str(if folders { "/\n" } else { "\n" });
        shown += 1;
    }
    if found.is_empty() {
        let what = if folders { "folders" } else { "files" };
        text.push_str(&format!(
            "[no {what} match, of {} entries seen]\n",
            walk.seen
        ));
    }
    if shown < found.len() {
        let more = found.len() - shown;
        text.push_str(&format!("[{more} more: use a narrower pattern]\n"));
    }
    if walk.cut_short {
        text.push_str(&format!(
            "[the search ended after {} entries: name a folder to search]\n",
            walk.seen
        ));
    }
    Ok(ToolOutput::text(text))
}

fn strip_workspace(workspace: &str, pattern: &str) -> String {
    match pattern.starts_with('/') {
        true => relative(workspace, pattern) + if pattern.ends_with('/') { "/" } else { "" },
        false => pattern.to_owned(),
    }
}

/// The part of a path beneath the folder that was searched.
pub(crate) fn beneath<'a>(base: &str, path: &'a str) -> &'a str {
    match base {
        "." => path,
        base => path
            .strip_prefix(base)
            .map_or(path, |rest| rest.trim_start_matches('/')),
    }
}

/// A pattern for paths; one without `/` is for names at any depth.
#[derive(Debug)]
pub(crate) struct PathPattern {
    matcher: GlobMatcher,
    by_name: bool,
    hidden: bool,
}

impl PathPattern {
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the pattern isn't one.
    pub(crate) fn new(pattern: &str) -> Result<Self> {
        let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
        if pattern.is_empty() {
            return Err(Error::new(ErrorKind::InvalidInput, "the pattern is empty"));
        }
        let glob = GlobBuilder::new(pattern)
            .literal_separator(true)
            .build()
            .map_err(|e| {
                Error::new(
                    ErrorKind::InvalidInput,
                    format!("the pattern isn't valid: {e}"),
                )
            })?;
        Ok(Self {
            matcher: glob.compile_matcher(),
            by_name: !pattern.contains('/'),
            hidden: pattern.starts_with('.') || pattern.contains("/."),
        })
    }

    /// Whether it names something hidden.
    pub(crate) fn has_hidden(&self) -> bool {
        self.hidden
    }

    pub(crate) fn matches(&self, path: &str) -> bool {
        match self.by_name {
            true => self
                .matcher
                .is_match(path.rsplit('/').next().unwrap_or(path)),
            false => self.matcher.is_match(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names_or_paths() {
        let check = |pattern: &str, path: &str, expected: bool| {
            let matches = PathPattern::new(pattern).unwrap().matches(path);
            assert_eq!(matches, expected, "{pattern} {path}");
        };
        check("*.rs", "a.rs", true);
        check("*.rs", "src/deep/a.rs", true);
        check("src/*.rs", "src/a.rs", true);
        check("src/*.rs", "src/deep/a.rs", false);
        check("src/**/*.rs", "src/a.rs", true);
        check("src/**/*.rs", "src/x/y/a.rs", true);
        check("**/*.{ts,tsx}", "a/b.tsx", true);
        check("./src/*", "src/a", true);
        check("[ab].rs", "x/b.rs", true);
        let error = PathPattern::new("a[").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}
