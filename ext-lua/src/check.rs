//! Loads an extension on trial, and runs its tests.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use haft_api::{
    BatchCall, BatchOutcomes, CallId, Deadline, Error, ErrorKind, Part, Result, SlashCommand,
    ThreadId, ToolCall, ToolContext, ToolOutput, ToolSource, ToolSpec, TurnId,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::config::Settings;
use crate::host::LuaHost;

/// The file with an extension's tests, in its folder.
const TESTS: &str = "tests.jsonl";
const LIMIT: Duration = Duration::from_secs(30);

/// What was found.
#[derive(Debug)]
#[non_exhaustive]
pub struct Report {
    /// The tools it has.
    pub tools: Vec<ToolSpec>,
    /// The commands it has.
    pub commands: Vec<SlashCommand>,
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
    name: String,
    #[serde(default)]
    arguments: Option<Box<RawValue>>,
    /// The whole text of the result.
    expect: Option<String>,
    /// A piece of an error's text.
    expect_error: Option<String>,
}

#[derive(Default)]
struct Slots(Mutex<BTreeMap<CallId, Result<ToolOutput>>>);

impl BatchOutcomes for Slots {
    fn complete(&self, call: &CallId, outcome: Result<ToolOutput>) -> bool {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        slots.insert(call.clone(), outcome).is_none()
    }
}

/// Loads an extension in a host of its own, and calls its tools as its file
/// `tests.jsonl` says: `{"name", "arguments", "expect" | "expect_error"}` a
/// line.
///
/// # Errors
/// If there is nothing at the path that could be an extension, or no host can
/// be had.
pub async fn check(path: &Path) -> Result<Report> {
    let place = crate::script::Place::of(path)
        .map_err(|words| Error::new(ErrorKind::InvalidInput, words))?;
    let settings = Settings {
        paths: vec![path.to_owned()],
        reload: Some(false),
        ..Settings::default()
    };
    let host = LuaHost::new(settings)?;
    let mut report = Report {
        tools: host.tools().await?,
        commands: host.commands().await?,
        problems: LuaHost::problems(&host).await?,
        tests: Vec::new(),
    };
    let file = place.root().join(TESTS);
    if place.own == place.main || !file.is_file() {
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
                failure: run(&host, test).await?,
            },
            Err(error) => TestOutcome {
                name: at,
                failure: Some(error.to_string()),
            },
        };
        report.tests.push(outcome);
    }
    Ok(report)
}

async fn run(host: &LuaHost, test: Test) -> Result<Option<String>> {
    let id = CallId::new("test")?;
    let mut context = ToolContext::new(ThreadId::new("test")?, TurnId::new("test")?);
    context.deadline = Some(Deadline::after(LIMIT));
    let arguments = match test.arguments {
        Some(arguments) => arguments,
        None => haft_api::raw_json("{}")?,
    };
    let call = ToolCall {
        id: id.clone(),
        name: test.name,
        arguments,
        state: None,
    };
    let slots = Arc::new(Slots::default());
    host.call_batch(
        vec![BatchCall { call, context }],
        Arc::clone(&slots) as Arc<dyn BatchOutcomes>,
    )
    .await?;
    let outcome = slots
        .0
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .remove(&id);
    let (text, is_error) = match outcome {
        Some(Ok(output)) => (shown(&output.parts), output.is_error),
        Some(Err(error)) => (error.to_string(), true),
        None => ("the call was dropped".to_owned(), true),
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
