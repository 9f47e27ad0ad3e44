//! Loads an extension on trial, and runs its tests.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use haft_api::{
    BatchCall, BatchOutcomes, CallId, Deadline, Error, ErrorKind, Result, SlashCommand, ThreadId,
    ToolCall, ToolContext, ToolOutput, ToolSource, TurnId,
};
use haft_script_host::{AuthoredTest, AuthoredTests};

use crate::config::Settings;
use crate::host::LuaHost;

/// What was found of an extension.
pub type Report = haft_script_host::Report<SlashCommand>;

const LIMIT: Duration = Duration::from_secs(30);

/// The outcome of a batch's only call.
#[derive(Default)]
struct Slot(Mutex<Option<Result<ToolOutput>>>);

impl BatchOutcomes for Slot {
    fn complete(&self, _: &CallId, outcome: Result<ToolOutput>) -> bool {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        slot.replace(outcome).is_none()
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
    // A single file has no folder of its own to keep tests in.
    if place.own != place.main {
        let tests = AuthoredTests::of(place.root())?;
        report.tests = tests.run(async |test| call(&host, test).await).await;
    }
    Ok(report)
}

async fn call(host: &LuaHost, test: &AuthoredTest) -> Result<ToolOutput> {
    let mut context = ToolContext::new(ThreadId::new("test")?, TurnId::new("test")?);
    context.deadline = Some(Deadline::after(LIMIT));
    let call = ToolCall {
        id: CallId::new("test")?,
        name: test.name.clone(),
        arguments: test.arguments()?,
        state: None,
    };
    let slot = Arc::new(Slot::default());
    let outcomes = Arc::clone(&slot) as Arc<dyn BatchOutcomes>;
    host.call_batch(vec![BatchCall { call, context }], outcomes)
        .await?;
    let outcome = slot.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    outcome.unwrap_or_else(|| Err(Error::new(ErrorKind::Unexpected, "the call was dropped")))
}
