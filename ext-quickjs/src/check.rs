//! Starts a skill on trial, and runs its tests.

use std::path::Path;
use std::time::Duration;

use haft_api::{Error, ErrorKind, Result, ToolSource as _};
use haft_script_host::{AuthoredTest, AuthoredTests};

use crate::config::Settings;
use crate::host::QuickJsHost;
use crate::lists::CommandInfo;
use crate::manifest;

/// What was found of a skill.
pub type Report = haft_script_host::Report<CommandInfo>;

const LIMIT: Duration = Duration::from_secs(30);

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
    if report.problems.is_empty() {
        let call = async |test: &AuthoredTest| {
            host.call_tool(&id, &test.name, test.arguments()?, Some(LIMIT))
                .await
        };
        report.tests = AuthoredTests::of(&package.folder)?.run(call).await;
    }
    host.stop(&id).await?;
    Ok(report)
}
