//! The Python that fetches the embedded engine's server and weights.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::{Finding, Health};

const PATIENCE: Duration = Duration::from_secs(10);

/// Prints the version, or fails where a module is missing.
const PROGRAM: &str = "import sys, pip, venv, ensurepip; \
                       print('.'.join(map(str, sys.version_info[:3])), 'with pip', pip.__version__)";

pub(super) async fn check() -> Finding {
    let subject = "python";
    let mut why = "there is none on the PATH".to_owned();
    for program in ["python3", "python"] {
        match ask(program).await {
            Ok(version) => {
                return Finding::new(subject, Health::Good, format!("{program} {version}"));
            }
            Err(Some(problem)) => why = format!("{program}: {problem}"),
            Err(None) => {}
        }
    }
    let text = format!("{why}; the embedded model can't be fetched without Python, pip and venv");
    Finding::new(subject, Health::Limited, text)
}

/// `None` if there is no such program.
async fn ask(program: &str) -> Result<String, Option<String>> {
    let mut command = Command::new(program);
    command
        .args(["-c", PROGRAM])
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = match tokio::time::timeout(PATIENCE, command.output()).await {
        Err(_) => return Err(Some("it doesn't answer".to_owned())),
        Ok(Err(e)) if e.kind() == std::io::ErrorKind::NotFound => return Err(None),
        Ok(Err(e)) => return Err(Some(e.to_string())),
        Ok(Ok(output)) => output,
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => {
            let complaint = text(&output.stderr);
            Err(Some(
                complaint.lines().last().unwrap_or("it failed").to_owned(),
            ))
        }
    }
}
