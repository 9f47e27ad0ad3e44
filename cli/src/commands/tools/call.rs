//! `haft tools call`.

use std::io::{Read as _, Write as _};
use std::path::Path;

use haft_api::{EngineToolCall, Part, PolicyMode, ToolResult};
use haft_core::ToolRun;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::args::{Approve, CallArgs, PlaceArgs};
use crate::commands::print;
use crate::console::Console;
use crate::failure::{DONE, FAILED, Failure, INTERRUPTED, Outcome};
use crate::render::{visible, write_line};
use crate::signals::Signals;

/// A line of a batch.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchLine {
    #[serde(default)]
    id: Option<String>,
    name: String,
    #[serde(default)]
    arguments: Option<Box<RawValue>>,
}

/// The calls that are asked for. Nothing has run if this fails.
pub(super) fn read(args: &CallArgs) -> Outcome<Vec<EngineToolCall>> {
    if let Some(file) = &args.batch {
        return batch(&file.display().to_string(), &text_of(file)?);
    }
    let arguments = match args.json_arguments.as_deref() {
        Some("-") => text_of(Path::new("-"))?,
        Some(text) => text.to_owned(),
        None => String::new(),
    };
    if !arguments.trim().is_empty()
        && let Err(e) = serde_json::from_str::<IgnoredAny>(&arguments)
    {
        return Err(Failure::usage(format!("the arguments aren't JSON: {e}")));
    }
    let name = args.name.clone().unwrap_or_default();
    Ok(vec![EngineToolCall {
        id: None,
        name,
        arguments,
        state: None,
    }])
}

fn text_of(file: &Path) -> Outcome<String> {
    let mut text = String::new();
    let read = match file.to_str() {
        Some("-") => std::io::stdin().lock().read_to_string(&mut text).map(drop),
        _ => std::fs::read_to_string(file).map(|read| text = read),
    };
    read.map_err(|e| Failure::usage(format!("can't read {}: {e}", file.display())))?;
    Ok(text)
}

fn batch(file: &str, text: &str) -> Outcome<Vec<EngineToolCall>> {
    let mut calls = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let call: BatchLine = serde_json::from_str(line).map_err(|e| {
            let why = crate::config::explain(&e.to_string());
            Failure::usage(format!("{file}:{}: {why}", index + 1))
        })?;
        let arguments = match call.arguments.as_deref().map(RawValue::get) {
            None => String::new(),
            // A model's own text, as it would write it.
            Some(text) if text.starts_with('"') => serde_json::from_str(text)
                .map_err(|e| Failure::usage(format!("{file}:{}: {e}", index + 1)))?,
            Some(json) => json.to_owned(),
        };
        calls.push(EngineToolCall {
            id: call.id,
            name: call.name,
            arguments,
            state: None,
        });
    }
    Ok(calls)
}

/// Runs calls in one round. Whoever names a call has agreed to it, so
/// everything is free unless a flag says otherwise.
pub(super) async fn call(
    place: &PlaceArgs,
    console: &Console,
    args: &CallArgs,
    calls: Vec<EngineToolCall>,
) -> Outcome {
    let signals = Signals::listen();
    let interruptible = signals.interruptible();
    let (runtime, workspace) = super::runtime(place, &args.place).await?;
    let mode = PolicyMode::from(args.approve.unwrap_or(Approve::All));
    let mut run = ToolRun::default().workspace(workspace).mode(mode);
    run.time_limit = args.deadline;
    run.cancel = interruptible.token().clone();
    let results = runtime.run_tools(calls, run).await?;
    print(|out| {
        results
            .iter()
            .try_for_each(|result| match args.json || args.batch.is_some() {
                true => write_line(out, result),
                false => writeln!(
                    out,
                    "{}",
                    text(result, console.shows_answers).trim_end_matches('\n')
                ),
            })
    })?;
    let failed = results.iter().any(|result| result.is_error);
    Ok(match (interruptible.token().is_cancelled(), failed) {
        (true, _) => INTERRUPTED,
        (false, true) => FAILED,
        (false, false) => DONE,
    })
}

/// A result as the model would read it.
fn text(result: &ToolResult, guard: bool) -> String {
    let parts = result.parts.iter().map(|part| match part {
        Part::Text { text } if guard => visible(text).into_owned(),
        Part::Text { text } => text.clone(),
        Part::Image { media_type, data } => {
            format!("[{media_type}, {} bytes of base64]", data.len())
        }
        Part::Json { value } => value.get().to_owned(),
        _ => "[…]".to_owned(),
    });
    parts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_read_whole_or_refused_by_line() {
        let text = r#"{"name":"a","arguments":{"x": 1}}

            {"name":"b","arguments":"{\"y\":"}
            {"name":"c","id":"x"}"#;
        let calls = batch("f", text).unwrap();
        let seen: Vec<_> = calls
            .iter()
            .map(|c| (c.name.as_str(), c.arguments.as_str()))
            .collect();
        assert_eq!(seen, [("a", r#"{"x": 1}"#), ("b", r#"{"y":"#), ("c", "")]);
        assert_eq!(calls[2].id.as_deref(), Some("x"));

        let check = |text: &str, words: &str| {
            let message = batch("f", text).unwrap_err().message().unwrap();
            assert!(message.contains(words), "{message}");
        };
        check("{\"name\":\"a\"}\nnonsense", "f:2: ");
        check(
            "{\"nam\":\"a\"}",
            "f:1: unknown key `nam`; did you mean `name`?",
        );
        check("{\"arguments\":{}}", "f:1: missing field `name`");
    }
}
