//! `shell`.

use std::time::Duration;

use haft_api::{
    CommandOutcome, CommandRequest, Effects, Ending, Error, ErrorKind, ProcessId,
    RemoteRunnerSessionExt as _, Result, Tool, ToolCall, ToolContext, ToolName, ToolOutput,
    ToolSpec, async_trait,
};
use serde::Deserialize;

use crate::config::CodingToolsConfig;
use crate::paths::relative;
use crate::told::tell;

/// What the tool itself needs beside its command, so that the command's own
/// time limit is what ends it.
const OVERHEAD: Duration = Duration::from_secs(60);

pub(crate) struct Shell {
    spec: ToolSpec,
    default_timeout: Duration,
    max_timeout: Duration,
}

impl Shell {
    pub(crate) fn new(config: &CodingToolsConfig) -> Result<Self> {
        let default = config.shell_timeout_seconds;
        let max = config.max_shell_timeout_seconds;
        let description = format!(
            "Runs a command in the workspace with /bin/sh (for bash, write `bash -c '…'`). There \
             is no terminal and no input. The result ends with the exit code. A command that \
             takes longer than its timeout (default: {default} s) is killed with all it started. \
             A process put into the background with `&` lives on until the session ends."
        );
        let schema = format!(
            r#"{{"type":"object","required":["command"],"additionalProperties":false,"properties":{{"command":{{"type":"string","minLength":1,"description":"The command line."}},"timeout":{{"type":"number","exclusiveMinimum":0,"maximum":{max},"description":"Seconds after which it is killed. Default: {default}."}},"cwd":{{"type":"string","description":"The folder to run in. Default: the workspace."}}}}}}"#
        );
        let max_timeout = Duration::from_secs(max);
        let own = u64::try_from((max_timeout + OVERHEAD).as_millis()).unwrap_or(u64::MAX);
        Ok(Self {
            spec: ToolSpec::new(ToolName::new("shell")?, description)
                .schema(schema)?
                .effects(Effects::COMMANDS)
                .timeout_ms(own),
            default_timeout: Duration::from_secs(default),
            max_timeout,
        })
    }
}

#[derive(Deserialize)]
struct Arguments {
    command: String,
    timeout: Option<f64>,
    cwd: Option<String>,
}

#[async_trait]
impl Tool for Shell {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn execute(&self, call: ToolCall, context: ToolContext) -> Result<ToolOutput> {
        let arguments: Arguments = call.parse()?;
        tell(self.run(arguments, &context).await)
    }
}

impl Shell {
    async fn run(&self, arguments: Arguments, context: &ToolContext) -> Result<ToolOutput> {
        let session = context.workspace()?;
        if arguments.command.trim().is_empty() {
            return Err(Error::new(ErrorKind::InvalidInput, "the command is empty"));
        }
        let asked = arguments
            .timeout
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .filter(|timeout| !timeout.is_zero())
            .map_or(self.default_timeout, |timeout| {
                timeout.min(self.max_timeout)
            });
        let mut request = CommandRequest::shell(arguments.command);
        request.cwd = arguments
            .cwd
            .map(|cwd| relative(session.workspace(), &cwd))
            .filter(|cwd| cwd != ".");
        request.detach = true;
        let id = ProcessId::new(format!("shell-{}", uuid::Uuid::now_v7().simple()))?;
        // Now, not before: whatever was waited for has taken its part.
        let timeout = context.command_timeout(Some(asked)).unwrap_or(asked);
        request.timeout_ms = Some(
            u64::try_from(timeout.as_millis())
                .unwrap_or(u64::MAX)
                .max(1),
        );
        let outcome = session.run_command(id, request, &*context.output).await?;
        Ok(report(&outcome, timeout, timeout < asked))
    }
}

/// The closing note: how it ended, and what is to be known of it.
fn report(outcome: &CommandOutcome, timeout: Duration, shortened: bool) -> ToolOutput {
    let mut notes = vec![match &outcome.ending {
        Ending::Exited { code } => format!("[exit code {code}]"),
        Ending::Signalled { signal } => format!("[killed by signal {}]", signal_name(*signal)),
        Ending::TimedOut => {
            let whose = match shortened {
                true => ", which is what was left of the turn's time",
                false => "",
            };
            let time = seconds(timeout);
            format!("[timed out after {time}{whose}: the command and all it started was killed]")
        }
        Ending::OutOfMemory => "[killed: it ran out of memory]".to_owned(),
        Ending::Cancelled => "[cancelled: the command and all it started was killed]".to_owned(),
        Ending::Unknown { reason } => {
            format!("[outcome unknown: {reason}; check what it did before running it again]")
        }
        _ => "[it ended in a way that this tool doesn't know]".to_owned(),
    }];
    let pids: Vec<String> = outcome.leftovers.iter().map(ToString::to_string).collect();
    if matches!(
        outcome.ending,
        Ending::Exited { .. } | Ending::Signalled { .. }
    ) {
        match pids.as_slice() {
            [] => {}
            [pid] => notes.push(format!("[a background process still runs: pid {pid}]")),
            pids => notes.push(format!(
                "[{} background processes still run: pids {}]",
                pids.len(),
                pids.join(", ")
            )),
        }
    }
    if outcome.skipped_bytes > 0 {
        notes.push(format!(
            "[{} bytes of its output were lost]",
            outcome.skipped_bytes
        ));
    }
    let text = notes.join("\n");
    match outcome.ending.is_success() {
        true => ToolOutput::text(text),
        false => ToolOutput::error(text),
    }
}

fn seconds(time: Duration) -> String {
    match time.subsec_millis() {
        0 => format!("{} s", time.as_secs()),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "HUP",
        2 => "INT",
        3 => "QUIT",
        4 => "ILL",
        6 => "ABRT",
        8 => "FPE",
        9 => "KILL",
        11 => "SEGV",
        13 => "PIPE",
        14 => "ALRM",
        15 => "TERM",
        24 => "XCPU",
        25 => "XFSZ",
        _ => return signal.to_string(),
    };
    format!("{signal} (SIG{name})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ending_is_told_plainly() {
        let check = |ending: Ending, leftovers: &[u32], expected: &str, is_error: bool| {
            let mut outcome = CommandOutcome::new(ending);
            outcome.leftovers = leftovers.to_vec();
            let output = report(&outcome, Duration::from_millis(2500), true);
            assert_eq!(haft_api::join_text(&output.parts), expected);
            assert_eq!(output.is_error, is_error, "{expected}");
        };
        check(Ending::Exited { code: 0 }, &[], "[exit code 0]", false);
        check(Ending::Exited { code: 2 }, &[], "[exit code 2]", true);
        check(
            Ending::Exited { code: 0 },
            &[7],
            "[exit code 0]\n[a background process still runs: pid 7]",
            false,
        );
        check(
            Ending::Exited { code: 0 },
            &[7, 8],
            "[exit code 0]\n[2 background processes still run: pids 7, 8]",
            false,
        );
        let killed = "[killed by signal 11 (SIGSEGV)]";
        check(Ending::Signalled { signal: 11 }, &[], killed, true);
        let killed = "[killed by signal 64]";
        check(Ending::Signalled { signal: 64 }, &[], killed, true);
        let late = "[timed out after 2.5 s, which is what was left of the turn's time: the \
                    command and all it started was killed]";
        check(Ending::TimedOut, &[7], late, true);
        check(
            Ending::OutOfMemory,
            &[],
            "[killed: it ran out of memory]",
            true,
        );
        let lost = Ending::Unknown {
            reason: "gone".to_owned(),
        };
        let text = "[outcome unknown: gone; check what it did before running it again]";
        check(lost, &[], text, true);
    }
}
