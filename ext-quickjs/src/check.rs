//! Starts a skill on trial, and runs its tests.

use std::path::Path;
use std::time::Duration;

use haft_api::{Error, ErrorKind, Part, Result, ToolSource as _, ToolSpec};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::config::Settings;
use crate::host::QuickJsHost;
use crate::lists::CommandInfo;
use crate::manifest;

/// The file with a skill's tests, in its folder.
const TESTS: &str = "tests.jsonl";
const LIMIT: Duration = Duration::from_secs(30);

/// What was found.
#[derive(Debug)]
#[non_exhaustive]
pub struct Report {
    /// The tools it has, by the names that a model sees.
    pub tools: Vec<ToolSpec>,
    /// The commands it has.
    pub commands: Vec<CommandInfo>,
    /// What is wrong with it.
    pub problems: Vec<Error>,
    /// What came of its tests, in order.
    pub tests: Vec<TestOutcome>,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_fine(&self) -> bool {
        self.problems.is_empty() && self.tests.iter().all(|test| test.failure.is_none())
    }
}

/// What came of a test.
#[derive(Debug)]
#[non_exhaustive]
pub struct TestOutcome {
    /// The line it stands in, and the tool it calls.
    pub name: String,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

/// A line of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Test {
    /// The tool's own name.
    name: String,
    #[serde(default)]
    arguments: Option<Box<RawValue>>,
    /// The whole text of the result.
    expect: Option<String>,
    /// A piece of an error's text.
    expect_error: Option<String>,
}

/// Starts a skill in a host of its own, with a folder of data that is thrown
/// away, and calls its tools as its file `tests.jsonl` says: `{"name",
/// "arguments", "expect" | "expect_error"}` a line, with the tools' own names.
///
/// # Errors
/// If there is no skill at the path, or no host can be had.
pub async fn check(path: &Path) -> Result<Report> {
    let package = manifest::read(path).map_err(|words| {
        Error::new(ErrorKind::InvalidInput, words).operation("read a skill's manifest")
    })?;
    let data = tempfile::tempdir().map_err(|e| Error::io(e, "no folder for the skill's data"))?;
    let settings = Settings {
        paths: vec![package.folder.clone()],
        data_dir: Some(data.path().to_owned()),
        reload: Some(false),
        ..Settings::default()
    };
    let id = package.manifest.id;
    let host = QuickJsHost::new(settings)?;
    let mut report = Report {
        tools: host.tools().await?,
        commands: host.commands().await,
        problems: host.problems().await,
        tests: Vec::new(),
    };
    let file = package.folder.join(TESTS);
    if !report.problems.is_empty() || !file.is_file() {
        return Ok(report);
    }
    let text = std::fs::read_to_string(&file)
        .map_err(|e| Error::io(e, "can't be read").context("file", file.display()))?;
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let at = format!("{TESTS}:{}", index + 1);
        let outcome = match serde_json::from_str::<Test>(line) {
            Ok(test) => TestOutcome {
                name: format!("{at} {}", test.name),
                failure: run(&host, &id, test).await?,
            },
            Err(error) => TestOutcome {
                name: at,
                failure: Some(error.to_string()),
            },
        };
        report.tests.push(outcome);
    }
    host.stop(&id).await?;
    Ok(report)
}

async fn run(host: &QuickJsHost, id: &str, test: Test) -> Result<Option<String>> {
    let arguments = match test.arguments {
        Some(arguments) => arguments,
        None => haft_api::raw_json("{}")?,
    };
    let called = host.call_tool(id, &test.name, arguments, Some(LIMIT)).await;
    let (text, is_error) = match called {
        Ok(output) => (shown(&output.parts), output.is_error),
        Err(error) => (error.to_string(), true),
    };
    Ok(match (test.expect, test.expect_error) {
        (_, Some(words)) if is_error && text.contains(&words) => None,
        (_, Some(words)) => Some(format!("expected an error with `{words}`, got: {text}")),
        (Some(expected), None) if !is_error && text == expected => None,
        (Some(expected), None) => Some(format!("expected `{expected}`, got: {text}")),
        (None, None) if is_error => Some(text),
        (None, None) => None,
    })
}

fn shown(parts: &[Part]) -> String {
    let parts = parts.iter().map(|part| match part {
        Part::Text { text } => text.clone(),
        Part::Json { value } => value.get().to_owned(),
        Part::Image { media_type, .. } => format!("[{media_type}]"),
        _ => "[…]".to_owned(),
    });
    parts.collect::<Vec<_>>().join("\n")
}
